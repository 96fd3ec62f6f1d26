//! The timings of an election, and who stands.

use std::sync::Arc;
use std::time::Duration;

/// Of the lease's duration, what the token does not use. With clocks that run
/// 20 % fast or slow, two thirds of it at 0.8 are as long as all of it at 1.2.
const MARGIN: u32 = 3;

/// The timings of an election.
#[derive(Debug, Clone, Copy)]
pub(in crate::leader) struct Terms {
    pub(in crate::leader) lease: Duration,
    pub(in crate::leader) deadline: Duration,
    pub(in crate::leader) retry: Duration,
    /// Never but in tests is it anything else than [`Terms::validity`] makes it.
    pub(in crate::leader) validity: Duration,
}

impl Terms {
    pub(in crate::leader) fn new(lease: Duration, deadline: Duration, retry: Duration) -> Self {
        Self { lease, deadline, retry, validity: Self::validity(lease, deadline) }
    }

    /// How long a renewal is good for, from when it was sent.
    fn validity(lease: Duration, deadline: Duration) -> Duration {
        deadline.min(lease - lease / MARGIN)
    }

    /// How long a request may take.
    pub(in crate::leader) fn patience(&self) -> Duration {
        self.retry.min(self.deadline / 2)
    }

    /// The seconds that a record states: whole ones, and never less than the
    /// candidates of this program wait.
    pub(super) fn seconds(&self) -> i32 {
        i32::try_from(self.lease.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i32::MAX).max(1)
    }
}

/// Who stands.
#[derive(Debug, Clone)]
pub(in crate::leader) struct Candidate {
    pub(in crate::leader) identity: Arc<str>,
    /// What the records of this controller are marked with.
    pub(in crate::leader) program: Arc<str>,
    /// The marks of its former names.
    pub(in crate::leader) former: Vec<Arc<str>>,
}
