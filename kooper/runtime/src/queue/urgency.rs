//! The urgency of an add to a failing key.

use crate::queue::reason::Reason;

/// The urgency with which an add runs a failing key. All other keys run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// It does not shorten the delay: a resync, or the echo of the key's own write.
    Idle,
    /// Another change: it runs the key at once the first time, and then once per
    /// back-off delay, or every ten seconds if that is shorter.
    Soon,
    /// A new desired state, or a key from outside: it runs the key at once and
    /// resets the back-off, a few times in a row. After that it is like `Soon`,
    /// and resets the back-off within ten seconds.
    Now,
    /// The object is being deleted or was deleted: it always runs the key at once.
    Always,
}

impl Urgency {
    /// The urgency of a reason, if nothing else is known.
    pub(super) fn of(reason: &Reason) -> Self {
        match reason {
            Reason::Deleted => Self::Always,
            Reason::Added | Reason::External => Self::Now,
            Reason::Modified | Reason::Related(..) | Reason::KindServed => Self::Soon,
            Reason::Initial | Reason::Leader | Reason::Shard | Reason::Resync | Reason::Retry | Reason::Requeue => {
                Self::Idle
            }
        }
    }
}
