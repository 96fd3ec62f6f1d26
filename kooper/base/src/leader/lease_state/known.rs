//! The record of a lease, and writes to it.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::leader::scope::WatchedNamespaces;

/// The fields of a Lease that the protocol uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::leader) struct Record {
    pub(in crate::leader) version: Arc<str>,
    /// Empty if the lease was released.
    pub(in crate::leader) holder: Arc<str>,
    /// Its duration.
    pub(in crate::leader) lease: Option<Duration>,
    /// Microseconds since 1970 by the holder's wall clock.
    pub(in crate::leader) acquired: Option<i64>,
    /// The same. It distinguishes renewals, and is never compared with a clock.
    pub(in crate::leader) renewed: Option<i64>,
    pub(in crate::leader) transitions: i32,
    /// The mark of the controller that wrote it.
    pub(in crate::leader) program: Option<Arc<str>>,
    /// The namespaces that this controller watches.
    pub(in crate::leader) scope: Option<WatchedNamespaces>,
}

impl Record {
    /// Returns `true` if the holder released the record. As in client-go, a
    /// released record has a lease duration of at most one second. If the duration
    /// is longer, another client removed the holder, which may still be running.
    pub(in crate::leader) fn is_released(&self) -> bool {
        self.holder.is_empty() && self.lease.is_none_or(|lease| lease <= Duration::from_secs(1))
    }

    /// Returns `true` if no holder has written between the two records. A change of
    /// labels is not a renewal.
    pub(in crate::leader) fn is_same_term(&self, other: &Self) -> bool {
        let substance = |record: &Self| (record.lease, record.acquired, record.renewed, record.transitions);
        self.holder == other.holder && substance(self) == substance(other)
    }
}

/// A record to write.
#[derive(Debug, Clone)]
pub(in crate::leader) struct LeaseWrite {
    /// The version that it replaces; `None` creates the Lease.
    pub(in crate::leader) base: Option<Arc<str>>,
    pub(in crate::leader) holder: Arc<str>,
    pub(in crate::leader) seconds: i32,
    pub(in crate::leader) acquired: i64,
    pub(in crate::leader) renewed: i64,
    pub(in crate::leader) transitions: i32,
}

/// The result of a write.
#[derive(Debug)]
pub(in crate::leader) enum WriteResult {
    /// The stored record.
    Committed(Record),
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
