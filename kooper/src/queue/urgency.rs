//! How urgent an add is to a key that fails.

use crate::queue::reason::Reason;

/// What an add means to a key that fails. A key that does not fail runs at
/// once on any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// It shortens no delay: a resync, or the echo of the key's own write.
    Idle,
    /// Another change: at once, and then once in each delay, of which no more
    /// than ten seconds count.
    Soon,
    /// New desired state, or a key from outside: at once, and the back-off
    /// begins anew, a few times in a row; then as a change, and with a new
    /// back-off within ten seconds.
    Now,
    /// The object is marked for deletion, or gone: at once in any case.
    Always,
}

impl Urgency {
    /// What is known by the reason alone.
    pub(super) fn of(reason: &Reason) -> Self {
        match reason {
            Reason::Deleted => Self::Always,
            Reason::Added | Reason::External => Self::Now,
            Reason::Modified | Reason::Related(..) => Self::Soon,
            Reason::Initial | Reason::Leader | Reason::Resync | Reason::Retry | Reason::Requeue => Self::Idle,
        }
    }
}
