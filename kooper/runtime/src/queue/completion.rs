//! The outcome of a call, and the next run of its key.

use std::time::Duration;

/// A requeue after less than this is an immediate one.
pub const AT_ONCE: Duration = Duration::from_millis(1);

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    /// It succeeded, and may have requested a requeue after a delay.
    Success(Option<Duration>),
    /// The handler was not called, because the object is filtered out or
    /// leadership was lost; or its failure does not count, because the object was
    /// deleted. The failures of the key are cleared.
    Skipped,
    /// The handler was not called, because the shard of the object may not be worked on for now. The failures of the key
    /// are kept.
    Refused,
    /// It failed and is retried with back-off, up to the limit of retries.
    Failure,
    /// It failed because an object had changed meanwhile. It is repeated soon, without
    /// a back-off, as long as [`WorkQueue::repeats`](super::WorkQueue::repeats) allows.
    Conflict,
    /// It failed and requested a retry after this delay.
    FailureAfter(Duration),
    /// It failed, and the server requested a pause. Changes of other objects do not
    /// shorten it.
    Paused(Duration),
    /// It failed because a permission is missing; the number identifies it. Only
    /// one of the keys that lack a permission is retried from time to time.
    Forbidden(u64),
    /// It failed and waits for the next event.
    FailureForGood,
    /// The object was deleted; the queue forgets the key.
    Gone,
}

impl Completion {
    /// The same for a key that runs once: it is neither requeued nor retried.
    pub(crate) fn once(self) -> Self {
        match self {
            Self::Success(_) => Self::Success(None),
            Self::Skipped | Self::Refused | Self::Gone => self,
            _ => Self::FailureForGood,
        }
    }

    pub(super) fn is_failure(self) -> bool {
        !matches!(self, Self::Success(_) | Self::Skipped | Self::Refused | Self::Gone)
    }
}

/// The next run of a key that was returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NextRun {
    /// `true` if its failed call is retried.
    pub retried: bool,
    /// The time until it runs without a new event: requeued, retried or resynced,
    /// whichever comes first.
    pub next: Option<Duration>,
    /// `true` if `next` is the time of a probe with another key that lacks the same
    /// permission. This key runs after a probe has succeeded.
    pub forbidden: bool,
    /// The number of other keys that are retried because the permission that they
    /// lacked was granted.
    pub released: usize,
}
