//! What is known of a lease, and what is written to it.

use std::sync::Arc;
use std::time::Duration;

use crate::leader::clock::Moment;
use crate::leader::scope::WatchedNamespaces;

/// What counts of a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::leader) struct Record {
    pub(in crate::leader) version: Arc<str>,
    /// Empty: released.
    pub(in crate::leader) holder: Arc<str>,
    /// How long it lasts, as it states itself.
    pub(in crate::leader) lease: Option<Duration>,
    /// Microseconds since 1970 by the holder's wall clock, as the next one.
    pub(in crate::leader) acquired: Option<i64>,
    /// Tells one renewal from the next; it is never compared with a clock.
    pub(in crate::leader) renewed: Option<i64>,
    pub(in crate::leader) transitions: i32,
    /// The mark of the controller that wrote it.
    pub(in crate::leader) program: Option<Arc<str>>,
    /// The namespaces that it looks into.
    pub(in crate::leader) scope: Option<WatchedNamespaces>,
}

impl Record {
    /// Whether its holder gave it up: then it lasts a second at most, as
    /// client-go's too. With more, somebody else took the holder out, who may
    /// still work.
    pub(in crate::leader) fn is_released(&self) -> bool {
        self.holder.is_empty() && self.lease.is_none_or(|lease| lease <= Duration::from_secs(1))
    }

    /// Whether no holder has done anything between the two: a new label is no
    /// renewal.
    pub(in crate::leader) fn says_the_same(&self, other: &Self) -> bool {
        let substance = |record: &Self| (record.lease, record.acquired, record.renewed, record.transitions);
        self.holder == other.holder && substance(self) == substance(other)
    }
}

/// A record to write.
#[derive(Debug, Clone)]
pub(in crate::leader) struct LeaseWrite {
    /// The version it replaces; `None` creates the Lease.
    pub(in crate::leader) base: Option<Arc<str>>,
    pub(in crate::leader) holder: Arc<str>,
    pub(in crate::leader) seconds: i32,
    pub(in crate::leader) acquired: i64,
    pub(in crate::leader) renewed: i64,
    pub(in crate::leader) transitions: i32,
}

/// What came of a write.
#[derive(Debug)]
pub(in crate::leader) enum Answer {
    /// The record as it is stored.
    Committed(Record),
    /// Another version is stored.
    Conflict,
    /// Refused, or nobody knows.
    Failed,
}

/// What a claim knows of the Lease.
#[derive(Debug)]
pub(super) enum Known {
    Nothing,
    /// There is none; the one that was there is respected until `guarded`.
    Absent {
        guarded: Moment,
    },
    Held(Record),
}

impl Known {
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

/// A write whose fate is not known.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) base: Option<Arc<str>>,
    pub(super) renewed: i64,
    pub(super) at: Moment,
}

impl Sent {
    /// So many are kept; a record of an older one is treated as somebody else's.
    pub(super) const MOST: usize = 32;
}
