//! Leader election: only one of several replicas calls the handlers.
//!
//! # Protocol
//!
//! The record is a `Lease` of `coordination.k8s.io/v1`, as in client-go. Comments
//! and tests refer to these rules by number.
//!
//! 1. Every write is a compare-and-swap with the version that was just read. It
//!    is never repeated over another version (the API server's optimistic
//!    concurrency; other lease crates for Rust write without it).
//! 2. A renewal is valid from when it was *sent*, not from its response, by the
//!    clock of this machine (Gray and Cheriton, "Leases", 1989). The token lasts
//!    two thirds of the lease, or `renew_deadline` if that is shorter: two thirds
//!    by a clock that is 20 % slow are as long as the whole lease by one that is
//!    20 % fast.
//! 3. Other candidates wait for a whole lease from when they *observed* a change,
//!    by their own clock: the duration in the record or their own, whichever is
//!    longer. Times in the record are never compared (client-go's rule).
//! 4. The token expires by itself; the clock runs while a machine is suspended.
//! 5. A leader that reads another holder stops at once (client-go continues
//!    until its deadline).
//! 6. A write without a response has an unknown result: the next request is a
//!    read. If that shows the write, it is valid from when the write was sent.
//! 7. A record is ours if this elector wrote it, not if it has our identity.
//! 8. Stepping down: the token is dropped, the handlers end, and only then the
//!    lease is released, with the version just read, never over another holder.
//! 9. A Lease with the mark of another controller is never acquired. One without
//!    a mark, such as client-go's, is respected until it expires or is released.
//! 10. Standbys watch the Lease, so that they acquire a released one within
//!     milliseconds. Without a watch they poll; before they acquire an expired
//!     lease, they read it again.
//! 11. If the holder was removed from a record by hand, or the Lease was deleted,
//!     candidates wait as long as for the holder's lease: it may still be running. So
//!     they do for the Lease of a previous name; after its release they wait for two
//!     retry periods, as another replica with that name may acquire it.
//! 12. A program ends itself at the end of a term if a handler still runs that blocks its
//!     thread, and shortly before the end of the lease if another one does: nothing else
//!     could stop them. A thread of its own decides that.
//!
//! One gap remains: if a held Lease is deleted by hand, a candidate that starts
//! within the next seconds assumes that it was never held.

use std::sync::OnceLock;
use std::time::Duration;

use kooper_grammar::lease::{self as timing, TimingError};
use kooper_grammar::name::{self, NameError};

mod elector;
#[cfg(test)]
mod fake;
mod fence;
mod identity;
mod leadership;
#[doc(hidden)]
pub mod lease;
#[doc(hidden)]
pub mod lease_state;
mod previous;
#[doc(hidden)]
pub mod scope;
#[doc(hidden)]
pub mod shard;
#[cfg(test)]
mod simulation;
mod status;
#[cfg(test)]
mod tests;
#[doc(hidden)]
pub mod watchdog;

#[doc(hidden)]
pub use elector::{Announce, Announcement, Elector, ElectorOptions};
#[doc(hidden)]
pub use fence::is_fenced;
/// The identity of a process that a test simulates.
#[doc(hidden)]
pub use identity::make as new_identity;
#[doc(hidden)]
pub use leadership::Leadership;
#[doc(hidden)]
pub use lease_state::Lost;
#[doc(hidden)]
pub use previous::{LeaseOwner, PreviousLease};
#[doc(hidden)]
pub use status::ElectionStatus;
#[doc(hidden)]
pub use watchdog::{Elected, RunningCalls};

/// The longest lease: a day. The field of the record is limited.
const MOST_SECONDS: u64 = 24 * 3600;

/// The settings of a controller's leader election.
///
/// The defaults are those of client-go: a lease of 15 seconds that the leader
/// renews within 10 seconds, with 2 seconds between attempts.
///
/// ```
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::Controller;
/// use kooper::leader::LeaderElection;
///
/// let election = LeaderElection::new().lease("shop").namespace("shops").retry_period(Duration::from_secs(1));
/// let builder = Controller::builder::<Pod>("shop").leader_election(election);
/// # let _ = builder;
/// ```
#[doc(alias = "lease")]
#[doc(alias = "leader elector")]
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the settings have no effect until they are passed to a controller"]
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
    /// The default settings.
    pub fn new() -> Self {
        Self {
            lease: None,
            namespace: None,
            lease_duration: timing::LEASE_DURATION,
            renew_deadline: timing::RENEW_DEADLINE,
            retry_period: timing::RETRY_PERIOD,
        }
    }

    /// The name and the namespace of the Lease, as far as they are set.
    #[doc(hidden)]
    #[must_use]
    pub fn place(&self) -> (Option<&str>, Option<&str>) {
        (self.lease.as_deref(), self.namespace.as_deref())
    }

    /// The timings of the Lease.
    #[doc(hidden)]
    #[must_use]
    pub fn terms(&self) -> lease_state::Terms {
        lease_state::Terms::new(self.lease_duration, self.renew_deadline, self.retry_period)
    }

    /// The time between the end of a term and the earliest beginning of another one.
    #[doc(hidden)]
    #[must_use]
    pub fn margin(&self) -> Duration {
        self.lease_duration.saturating_sub(self.terms().validity)
    }

    /// Sets the name of the Lease. The default is `<program>-<controller>`.
    pub fn lease(mut self, name: impl Into<String>) -> Self {
        self.lease = Some(name.into());
        self
    }

    /// Sets the namespace of the Lease. The default is that of the pod.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the time after which the lease expires if it is not renewed.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// Sets how long the leader tries to renew the Lease before it stops leading.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.renew_deadline = deadline;
        self
    }

    /// Sets the time between two attempts.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.retry_period = period;
        self
    }

    /// Checks the settings.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), ElectionError> {
        match self.lease.as_deref() {
            Some("") => return Err(ElectionError::EmptyLease),
            Some(lease) => name::subdomain(lease).map_err(ElectionError::Lease)?,
            None => {}
        }
        match self.namespace.as_deref() {
            Some("") => return Err(ElectionError::EmptyNamespace),
            Some(namespace) => name::label(namespace).map_err(ElectionError::Namespace)?,
            None => {}
        }
        if self.lease_duration.as_secs() > MOST_SECONDS {
            return Err(ElectionError::TooLong);
        }
        timing::check(self.lease_duration, self.renew_deadline, self.retry_period).map_err(ElectionError::Timing)
    }
}

/// Why the settings of a leader election are invalid. The messages contain those
/// of the names and timings, which are therefore not sources.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElectionError {
    /// The name of the Lease is empty.
    #[error("`lease` is empty: write the name of a Lease, or leave it out")]
    EmptyLease,
    /// The name of the Lease is invalid.
    #[error("`lease`: {0}")]
    Lease(NameError),
    /// The namespace is empty.
    #[error("`namespace` is empty: write the Lease's namespace, or leave it out")]
    EmptyNamespace,
    /// The namespace is invalid.
    #[error("`namespace`: {0}")]
    Namespace(NameError),
    /// The lease is longer than a day.
    #[error("`lease_duration` is too long: write at most {most} s, a day", most = MOST_SECONDS)]
    TooLong,
    /// The times do not fit each other.
    #[error("{0}")]
    Timing(TimingError),
}

/// The identity of this process in Leases, `<hostname>_<uuid>`; all its controllers
/// share it.
#[doc(hidden)]
pub fn identity() -> String {
    static IDENTITY: OnceLock<String> = OnceLock::new();
    IDENTITY.get_or_init(identity::make).clone()
}
