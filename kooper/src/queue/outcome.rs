//! What became of a call, and of its key.

use std::time::Duration;

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeded, and may have asked to come back.
    Success(Option<Duration>),
    /// There was no call, as the object is filtered or leadership is lost: the
    /// failures of the key are forgotten.
    Skipped,
    /// It failed and is retried with back-off, as often as the options say.
    Failure,
    /// It failed and said when to come back.
    FailureAfter(Duration),
    /// It failed, and the server said when to come back: no change of another
    /// object comes before that.
    Paused(Duration),
    /// It failed as a permission is missing, this one: of all keys that lack
    /// it one is tried now and then.
    Forbidden(u64),
    /// It failed and waits for the next event.
    FailureForGood,
    /// The object is gone: nothing of the key is remembered.
    Gone,
}

impl Outcome {
    pub(super) fn is_failure(self) -> bool {
        !matches!(self, Self::Success(_) | Self::Skipped | Self::Gone)
    }
}

/// What happens next to a key that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Returned {
    /// Whether its failed call is retried.
    pub(crate) retried: bool,
    /// How long until it runs without a new event: queued again, retried, or
    /// resynced, whichever comes first.
    pub(crate) next: Option<Duration>,
    /// Whether `next` is when another key is tried that lacks the same
    /// permission: this one runs after one of them has succeeded.
    pub(crate) barred: bool,
    /// How many other keys are retried, as the permission that they lacked is
    /// there.
    pub(crate) released: usize,
}
