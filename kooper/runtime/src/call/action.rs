//! The result of a handler that succeeded.

use std::time::Duration;

/// The result of a successful call: nothing more to do, or call again later.
///
/// ```
/// use kooper::prelude::*;
///
/// async fn poll() -> Result<Action> {
///     Ok(Action::requeue_after(Duration::from_secs(30)))
/// }
/// ```
#[doc(alias = "requeue")]
#[doc(alias = "RequeueAfter")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "an action does nothing unless the handler returns it"]
pub struct Action {
    requeue_after: Option<Duration>,
}

impl Action {
    /// Nothing more to do until the object changes, or until the next resync.
    pub const fn done() -> Self {
        Self { requeue_after: None }
    }

    /// Call the handler again after this delay. A call in between replaces the
    /// delay by its own result. A delay of zero means back-off: it doubles as
    /// long as it is repeated without a change of the object.
    pub const fn requeue_after(delay: Duration) -> Self {
        Self { requeue_after: Some(delay) }
    }

    /// The requested delay.
    #[must_use]
    pub const fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}
