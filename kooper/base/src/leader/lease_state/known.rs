//! The record of a lease, and writes to it.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::leader::scope::WatchedNamespaces;

/// The fields of a Lease that the protocol uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its resource version.
    pub version: Arc<str>,
    /// Empty if the lease was released.
    pub holder: Arc<str>,
    /// Its duration.
    pub lease: Option<Duration>,
    /// Microseconds since 1970 by the holder's wall clock.
    pub acquired: Option<i64>,
    /// The same. It distinguishes renewals, and is never compared with a clock.
    pub renewed: Option<i64>,
    /// The number of changes of the holder.
    pub transitions: i32,
    /// The mark of the controller that wrote it.
    pub mark: Option<Arc<str>>,
    /// The namespaces that this controller watches.
    pub scope: Option<WatchedNamespaces>,
}

impl Record {
    /// The record that a write with this mark stores.
    #[must_use]
    pub fn stored(write: &LeaseWrite, mark: &Arc<str>, version: Arc<str>) -> Self {
        Self {
            version,
            holder: Arc::clone(&write.holder),
            lease: Some(Duration::from_secs(write.seconds.unsigned_abs().into())),
            acquired: Some(write.acquired),
            renewed: Some(write.renewed),
            transitions: write.transitions,
            mark: Some(Arc::clone(mark)),
            scope: None,
        }
    }

    /// Returns `true` if the holder released the record. As in client-go, a
    /// released record has a lease duration of at most one second. If the duration
    /// is longer, another client removed the holder, which may still be running.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.holder.is_empty() && self.lease.is_none_or(|lease| lease <= Duration::from_secs(1))
    }

    /// Returns `true` if no holder has written between the two records. A change of
    /// labels is not a renewal.
    #[must_use]
    pub fn is_same_term(&self, other: &Self) -> bool {
        let substance = |record: &Self| (record.lease, record.acquired, record.renewed, record.transitions);
        self.holder == other.holder && substance(self) == substance(other)
    }
}

/// A record to write.
#[derive(Debug, Clone)]
pub struct LeaseWrite {
    /// The version that it replaces; `None` creates the Lease.
    pub base: Option<Arc<str>>,
    /// Empty to release the lease.
    pub holder: Arc<str>,
    /// The duration of the lease.
    pub seconds: i32,
    /// Microseconds since 1970 by the wall clock.
    pub acquired: i64,
    /// The same.
    pub renewed: i64,
    /// The number of changes of the holder.
    pub transitions: i32,
}

/// The result of a write.
#[derive(Debug)]
pub enum WriteResult<T = Record> {
    /// The stored record.
    Committed(T),
    /// Another version is stored.
    Conflict,
    /// The write was rejected, or its result is unknown.
    Failed,
}

/// The last known state of the Lease.
#[derive(Debug)]
pub(super) enum KnownLease {
    Nothing,
    /// The Lease does not exist. If it was deleted, it must not be created again
    /// before `guarded`.
    Absent {
        guarded: Moment,
    },
    Held(Record),
}

impl KnownLease {
    pub(super) fn record(&self) -> Option<&Record> {
        match self {
            Self::Held(record) => Some(record),
            Self::Nothing | Self::Absent { .. } => None,
        }
    }

    pub(super) fn version(&self) -> Option<&Arc<str>> {
        self.record().map(|record| &record.version)
    }
}

/// A write whose result is unknown.
#[derive(Debug, Clone)]
pub(super) struct SentWrite {
    pub(super) base: Option<Arc<str>>,
    pub(super) renewed: i64,
    pub(super) at: Moment,
}

impl SentWrite {
    /// The most that are kept. A record from an older write is treated as that of
    /// another candidate.
    pub(super) const MOST: usize = 32;
}
