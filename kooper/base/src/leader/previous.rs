//! A lease of a previous name, or of the installation without an instance name. Its
//! holder is respected, and it is never written.

use std::sync::Arc;
use std::time::Duration;

use super::lease::{Lease, LeaseError};
use super::lease_state::Record;
use crate::clock::{Clock, Moment};

/// A lease that is respected, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousLease {
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: LeaseOwner,
}

/// The owner of a respected lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseOwner {
    /// The controller's, under a previous name.
    Controller,
    /// The controller's, when the program had its previous name.
    Program,
    /// The one of the installation without an instance name.
    NoInstance,
}

impl LeaseOwner {
    /// The setting that names it.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Controller => "previous_names",
            Self::Program => "previous_program",
            Self::NoInstance => "--instance",
        }
    }
}

pub(super) struct RespectedLease {
    pub(super) object: Lease,
    pub(super) owner: LeaseOwner,
    /// The least time after which a record expires.
    lease: Duration,
    /// The pause of candidates that do not watch it.
    retry: Duration,
    /// The last record, and when it was first read.
    seen: Option<(Record, Moment)>,
    /// A holder that is gone from the record, and until when it or its successor may still be there.
    gone: Option<(Arc<str>, Moment)>,
}

impl RespectedLease {
    pub(super) fn new(object: Lease, owner: LeaseOwner, lease: Duration, retry: Duration) -> Self {
        Self { object, owner, lease, retry, seen: None, gone: None }
    }

    /// The holder, if the lease has not expired. One that has released it is respected for some time longer: another
    /// replica of its version may be about to acquire the lease. One that was removed by hand, or with the Lease, may
    /// still be running.
    pub(super) async fn holder(&mut self, clock: &dyn Clock) -> Result<Option<Arc<str>>, LeaseError> {
        let found = self.object.read().await?;
        let now = clock.now();
        let is_released = found.as_ref().is_some_and(Record::is_released);
        let Some(record) = found.filter(|record| !record.holder.is_empty()) else {
            if let Some((last, since)) = self.seen.take() {
                let until = if is_released { now + self.retry * 2 } else { self.expires(&last, since) };
                self.gone = Some((last.holder, until));
            }
            let waits = self.gone.as_ref().filter(|(_, until)| now < *until);
            return Ok(waits.map(|(holder, _)| Arc::clone(holder)));
        };
        self.gone = None;
        let since = match &self.seen {
            Some((seen, since)) if seen.is_same_term(&record) => *since,
            _ => now,
        };
        let expires = self.expires(&record, since);
        let holder = Arc::clone(&record.holder);
        self.seen = Some((record, since));
        Ok((now < expires).then_some(holder))
    }

    fn expires(&self, record: &Record, since: Moment) -> Moment {
        since + record.lease.unwrap_or_default().max(self.lease)
    }
}
