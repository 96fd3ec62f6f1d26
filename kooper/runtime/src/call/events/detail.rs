//! The detail of Kubernetes Events about failed calls.

/// The amount of detail in Kubernetes Events about failed calls. Everyone who can view
/// the object's namespace can read them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureEvents {
    /// There are none, and none of the Events `Undecodable`, `LeftSelector` and
    /// `FinalizerNotRemoved` about objects that are not handled.
    Off,
    /// Which function failed, panicked or took too long, and nothing of its error.
    Brief,
    /// The outermost message of the error, without its sources; file and line of a panic,
    /// without its message. An error that is marked with
    /// [`HandlerError::public`](crate::HandlerError::public) is shown with its sources.
    /// The default.
    #[default]
    Outermost,
    /// The same text as in the log: the error with its sources, and the message of a
    /// panic.
    Full,
}

/// `false` is for none, `true` for the default.
impl From<bool> for FailureEvents {
    fn from(events: bool) -> Self {
        if events { Self::default() } else { Self::Off }
    }
}
