//! Leader election: of several replicas, one runs the handlers.
//!
//! # Protocol
//!
//! The record is a `Lease` of `coordination.k8s.io/v1`, as client-go's.
//! Comments and tests call the rules by their numbers.
//!
//! 1. Every write is a compare-and-swap: it carries the version just read, and
//!    is never repeated over another one (the API server's optimistic
//!    concurrency; Rust's lease crates write without it).
//! 2. A renewal is good from when it was *sent*, not answered, by this
//!    machine's clock (Gray and Cheriton, "Leases", 1989). The token lasts two
//!    thirds of the lease, or `renew_deadline` if that is shorter: two thirds
//!    by a clock 20 % slow are as long as all of it by one 20 % fast.
//! 3. Others wait for the whole lease, the one that the record states or their
//!    own, whichever is longer, from when they *saw* a change, by their own
//!    clock; times in the record are never compared (client-go's rule).
//! 4. The token expires by itself; the clock runs while a machine is suspended.
//! 5. Who reads another holder while it leads, stops at once (client-go goes on
//!    until its deadline).
//! 6. A write without an answer is unknown: the next request is a read. If that
//!    shows the write, it counts from when that one was sent.
//! 7. A record is ours if this very elector wrote it, not if it has our name.
//! 8. Stepping down: the token goes, the handlers end, and only then the lease
//!    is released, with the version just read, never over somebody else.
//! 9. A Lease with the mark of another controller is never taken. One without
//!    a mark, as client-go's, is respected until it expires or is released.
//! 10. Standbys watch, so that a release is taken in milliseconds; without a
//!     watch they poll, and what silence decides is read anew.
//!
//! 11. A record whose holder was taken out by hand, or that was deleted, is
//!     respected as long as the holder's would have been: it may still work.
//!
//! One gap is left: somebody who deletes a held Lease by hand lets a candidate
//! that starts in the next seconds think it was never held.

use std::sync::OnceLock;
use std::time::Duration;

use kooper_grammar::{lease as timing, name};

mod claim;
mod clock;
mod elector;
#[cfg(test)]
mod fake;
mod fence;
mod former;
mod identity;
mod leadership;
mod lease;
mod scope;
#[cfg(test)]
mod simulation;
mod status;
#[cfg(test)]
mod tests;

#[cfg(test)]
use claim::Lost;
pub(crate) use elector::{Elector, ElectorOptions, Told};
pub(crate) use fence::is_fenced;
pub(crate) use former::{FormerLease, Whose};
pub use leadership::Leadership;
#[cfg(test)]
use status::ElectionStatus;

/// Nobody wants to wait longer for a crashed leader, and the record's field has an end.
const MOST_SECONDS: u64 = 24 * 3600;

/// How a controller's leader is elected.
///
/// What is not set is client-go's default: a lease of 15 seconds, renewed
/// within 10, tried every 2.
///
/// ```
/// # use std::time::Duration;
/// use kooper::leader::LeaderElection;
///
/// let election = LeaderElection::new().lease("shop").namespace("shops").retry_period(Duration::from_secs(1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "settings do nothing until a controller gets them"]
pub struct LeaderElection {
    pub(crate) lease: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self::new()
    }
}

impl LeaderElection {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            lease: None,
            namespace: None,
            lease_duration: timing::LEASE_DURATION,
            renew_deadline: timing::RENEW_DEADLINE,
            retry_period: timing::RETRY_PERIOD,
        }
    }

    /// The name of the Lease; `<program>-<controller>` if it is not set.
    pub fn lease(mut self, name: impl Into<String>) -> Self {
        self.lease = Some(name.into());
        self
    }

    /// The namespace of the Lease; the pod's own if it is not set.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// How long a lease lasts that nobody renews.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// How long the leader tries to renew before it stops.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.renew_deadline = deadline;
        self
    }

    /// How long it waits between two tries.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.retry_period = period;
        self
    }

    /// Whether these can hold; the text says which not, and what to write.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.lease.as_deref() {
            Some("") => return Err("`lease` is empty: write the name of a Lease, or leave it out".to_owned()),
            Some(lease) => name::subdomain(lease).map_err(|error| format!("`lease`: {error}"))?,
            None => {}
        }
        match self.namespace.as_deref() {
            Some("") => return Err("`namespace` is empty: write the Lease's namespace, or leave it out".to_owned()),
            Some(namespace) => name::label(namespace).map_err(|error| format!("`namespace`: {error}"))?,
            None => {}
        }
        if self.lease_duration.as_secs() > MOST_SECONDS {
            return Err(format!("`lease_duration` is too long: write at most {MOST_SECONDS} s, a day"));
        }
        timing::check(self.lease_duration, self.renew_deadline, self.retry_period).map_err(|error| error.to_string())
    }
}

/// Who this process is in Leases: `<hostname>_<uuid>`, the same for all its
/// controllers.
pub(crate) fn identity() -> String {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    IDENTITY.get_or_init(identity::make).clone()
}
