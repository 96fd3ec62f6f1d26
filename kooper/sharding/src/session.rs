//! The session of a replica, and the slot Leases that sessions are held with.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kooper_base::leader::lease_state::Record;
use serde::{Deserialize, Serialize};

use crate::hash::{Shard, ShardCount, ShardField};

/// The time from a replica's acquisition of a slot until it releases the slot, or another
/// replica does after it has observed no renewal for a lease. A session that ended never
/// comes back: the next one of the same replica is acquired at another time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Session {
    /// The index of its slot.
    pub(crate) slot: u8,
    /// When the slot was acquired, in microseconds of the replica's wall clock.
    pub(crate) acquired: i64,
    /// The identity of the replica.
    pub(crate) identity: Arc<str>,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, acquired, identity } = self;
        write!(f, "{slot}/{acquired}/{identity}")
    }
}

/// The text is not that of a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a session: slot/time/identity")]
pub(crate) struct SessionError(String);

impl FromStr for Session {
    type Err = SessionError;

    fn from_str(text: &str) -> Result<Self, SessionError> {
        Self::of(text.splitn(3, '/')).ok_or_else(|| SessionError(text.to_owned()))
    }
}

impl Session {
    /// The session with these parts.
    fn of<'a>(mut parts: impl Iterator<Item = &'a str>) -> Option<Self> {
        let (slot, acquired) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let identity = parts.next().filter(|identity| !identity.is_empty())?.into();
        Some(Self { slot, acquired, identity })
    }
}

/// The announcement of a replica to the others, in an annotation of its slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// The number of shards that the replica was started with.
    pub(crate) count: ShardCount,
    /// The field that it was started with.
    pub(crate) by: ShardField,
    /// It stops, and must be given no shard.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) leaving: bool,
    /// The uid of the map that it knows. It works by no other map, so that whoever fills a new
    /// map sees who may still work by one that was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) map: Option<String>,
    /// Its stores hold these shards of other replicas.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) warm: BTreeSet<Shard>,
    /// The number of shards that `warm` refers to.
    pub(crate) of: ShardCount,
}

/// A slot: the record of its Lease, and the announcement of its holder.
#[derive(Debug, Clone)]
pub(crate) struct SlotRecord {
    /// The record of its Lease.
    pub(crate) record: Record,
    /// `None` in a slot that was released.
    pub(crate) announcement: Option<Announcement>,
}

impl SlotRecord {
    /// The session that holds the slot.
    pub(crate) fn session(&self, slot: u8) -> Option<Session> {
        let acquired = self.record.acquired.filter(|_| !self.record.holder.is_empty())?;
        Some(Session { slot, acquired, identity: Arc::clone(&self.record.holder) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_as_it_is_written() {
        let session = Session { slot: 3, acquired: 1_700_000_000_000_000, identity: "pod-1_a/b".into() };
        assert_eq!(session.to_string(), "3/1700000000000000/pod-1_a/b");
        assert_eq!(session.to_string().parse(), Ok(session));
        for text in ["", "3", "3/17", "3/17/", "x/17/pod", "300/17/pod"] {
            assert!(text.parse::<Session>().is_err(), "{text}");
        }
    }
}
