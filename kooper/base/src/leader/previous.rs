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
    /// Whose it is.
    pub whose: LeaseOwner,
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
    object: Lease,
    whose: LeaseOwner,
    /// The least time after which a record expires.
    lease: Duration,
    /// The last record, and when it was first read.
    seen: Option<(Record, Moment)>,
}

impl RespectedLease {
    pub(super) fn new(object: Lease, whose: LeaseOwner, lease: Duration) -> Self {
        Self { object, whose, lease, seen: None }
    }

    pub(super) fn whose(&self) -> LeaseOwner {
        self.whose
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.object.name
    }

    /// The holder, if the lease has not expired.
    pub(super) async fn holder(&mut self, clock: &dyn Clock) -> Result<Option<Arc<str>>, LeaseError> {
        let found = self.object.read().await?.filter(|record| !record.holder.is_empty());
        let now = clock.now();
        let Some(record) = found else {
            self.seen = None;
            return Ok(None);
        };
        let since = match &self.seen {
            Some((seen, since)) if seen.is_same_term(&record) => *since,
            _ => now,
        };
        let expires = since + record.lease.unwrap_or_default().max(self.lease);
        let holder = Arc::clone(&record.holder);
        self.seen = Some((record, since));
        Ok((now < expires).then_some(holder))
    }
}
