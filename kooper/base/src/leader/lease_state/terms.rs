//! The timings of an election, and the identity of a candidate.

use std::sync::Arc;
use std::time::Duration;

/// The token is shorter than the lease by this part of it, here a third. With
/// clocks that run 20 % fast or slow, two thirds at a rate of 0.8 are as long as the
/// whole lease at 1.2.
const MARGIN: u32 = 3;

/// The timings of an election.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The time for which other candidates wait after a change of the record.
    pub lease: Duration,
    /// The time for which a leader tries to renew.
    pub deadline: Duration,
    /// The pause between renewals.
    pub retry: Duration,
    /// The time for which a renewal is valid, from when it was sent. Only tests change it.
    pub validity: Duration,
}

impl Terms {
    /// The timings with the longest validity that is safe.
    #[must_use]
    pub fn new(lease: Duration, deadline: Duration, retry: Duration) -> Self {
        Self { lease, deadline, retry, validity: deadline.min(lease - lease / MARGIN) }
    }

    /// The timeout of a request, unless the API server is slow.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.retry.min(self.deadline / 2)
    }

    /// The duration in a record, in whole seconds. It is never shorter than the
    /// time for which the candidates of this program wait.
    pub(super) fn seconds(&self) -> i32 {
        i32::try_from(self.lease.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i32::MAX).max(1)
    }
}

/// The timeout of requests. It is short, so that a connection that hangs costs one attempt of several, and twice as long as
/// the last request took: otherwise no request would succeed while the API server is slow.
#[derive(Debug, Clone, Copy)]
pub struct RequestTimeout {
    shortest: Duration,
    longest: Duration,
    current: Duration,
}

impl RequestTimeout {
    /// The timeout of the first request.
    #[must_use]
    pub fn new(terms: &Terms) -> Self {
        let shortest = terms.patience();
        Self { shortest, longest: terms.deadline / 2, current: shortest }
    }

    /// The timeout of the next request.
    #[must_use]
    pub fn get(&self) -> Duration {
        self.current
    }

    /// Adapts it to a request that took so long until its response, or until its timeout.
    pub fn observe(&mut self, took: Duration) {
        self.current = (took * 2).clamp(self.shortest, self.longest);
    }
}

/// The identity of a candidate.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The name of this process.
    pub identity: Arc<str>,
    /// The mark in the records of this controller.
    pub mark: Arc<str>,
    /// The marks of its previous names.
    pub previous: Vec<Arc<str>>,
}
