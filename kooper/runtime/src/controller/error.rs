//! Why the run of a controller ends.

/// Why one controller ended without a request to stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// Another replica acquired leadership. Returned for a controller that was
    /// run alone; in an operator, it becomes a standby instead.
    #[error("leadership lost")]
    LeadershipLost,
    /// Leadership was lost and a call or task kept running after it was
    /// aborted: only the end of the process stops it.
    #[error("a handler ignored its abort after leadership was lost: it blocks its thread, or never awaits")]
    AbortIgnored,
    /// The controller panicked outside of its handlers.
    #[error("the controller panicked: {message}; restart the process to bring it back")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
}
