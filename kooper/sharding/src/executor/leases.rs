//! The Leases of sessions and of the map.

use std::sync::Arc;
use std::time::Duration;

use kooper_base::clock::Clock;
use kooper_base::leader::lease::{Lease, LeaseError, MARK, SCOPE};
use kooper_base::leader::lease_state::{LeaseWrite, Record, SHARDS_MARK};
use kooper_base::leader::scope::WatchedNamespaces;

use crate::map::{MapRecord, MapWrite, ShardMap};
use crate::overrides::Overrides;
use crate::session::{Announcement, SlotRecord};

/// The annotation with the announcement of a session.
const SESSION: &str = "kooper.rs/shards-session";

/// The annotation with the map.
pub(crate) const MAP: &str = "kooper.rs/shards";

/// The annotation of the map with what a person wants of the plan.
pub(crate) const OVERRIDES: &str = "kooper.rs/shards-overrides";

/// The mark in the Leases of shards. It is another one than in the Lease of leader election, so that
/// a replica of an older version that elects a leader never takes the map's Lease over.
pub(crate) fn mark(controller: &str) -> Arc<str> {
    format!("{controller}{SHARDS_MARK}").into()
}

/// Returns `true` if a Lease that was read is that of the map.
pub(crate) fn is_map(lease: &Lease, record: &Record, mark: &str) -> bool {
    match &record.mark {
        Some(found) => **found == *mark,
        // Its mark was removed by hand, and replicas may work by this map.
        None => lease.annotation(MAP).is_some() && record.is_released(),
    }
}

/// Why a Lease cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum StoreError {
    #[error(transparent)]
    Lease(#[from] LeaseError),
    #[error("the API server did not respond in time; it is retried")]
    Silent,
    #[error(
        "the Lease {0} is held by {1}, which is not one of the replicas that share shards: waiting until it is released or expires"
    )]
    Held(String, Arc<str>),
    #[error(
        "the Lease {0} belongs to {1}: run this program under another name, or with `--instance NAME`, or delete the Lease if {1} \
         is gone"
    )]
    Foreign(String, Arc<str>),
    #[error("the Lease {0} cannot be used: {1}; delete it, and the shards are shared anew")]
    Malformed(String, String),
}

impl StoreError {
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Lease(LeaseError::Conflict))
    }

    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Lease(error) => error.is_transient(),
            Self::Silent => true,
            Self::Held(..) | Self::Foreign(..) | Self::Malformed(..) => false,
        }
    }
}

/// A Lease of a session.
pub(super) struct Slot(pub(super) Lease);

impl Slot {
    pub(super) async fn read(&mut self) -> Result<Option<SlotRecord>, StoreError> {
        let record = self.0.read().await?;
        Ok(record.map(|record| self.with_announcement(record)))
    }

    pub(super) async fn write(
        &mut self,
        write: &LeaseWrite,
        announcement: Option<&Announcement>,
    ) -> Result<SlotRecord, StoreError> {
        let text = announcement.map(serde_json::to_string).transpose().map_err(|error| malformed("", &error))?;
        let record = self.0.write_with(write, &[(SESSION, text)]).await?;
        Ok(self.with_announcement(record))
    }

    /// The slot in an event of its watch.
    pub(super) fn event(&mut self, object: serde_json::Value) -> Option<SlotRecord> {
        let record = self.0.keep(Some(object)).ok()??;
        Some(self.with_announcement(record))
    }

    fn with_announcement(&self, record: Record) -> SlotRecord {
        // The map says whose shards these are. A slot that was released when the controller had another name still has
        // the mark of that name, and a slot with the mark of another controller is never acquired.
        let mark = record.mark.clone().filter(|mark| !mark.ends_with(SHARDS_MARK));
        SlotRecord { record: Record { mark, ..record }, announcement: announcement(&self.0) }
    }
}

/// The announcement in a Lease that was read. A text that cannot be read counts as none: its session is respected, and given
/// no shard.
pub(crate) fn announcement(lease: &Lease) -> Option<Announcement> {
    serde_json::from_str(lease.annotation(SESSION)?).ok()
}

pub(super) struct MapLease {
    lease: Lease,
    name: String,
    mark: Arc<str>,
    clock: Arc<dyn Clock>,
    /// The time for which the Lease of a leader is respected after its last change.
    patience: Duration,
    /// The version of a Lease that has no map yet: that of a leader election which has ended.
    adopted: Option<Arc<str>>,
    /// The last record of a leader, and when it was first seen.
    leader: Option<(Record, Duration)>,
}

impl MapLease {
    pub(super) fn new(lease: Lease, name: String, mark: Arc<str>, clock: Arc<dyn Clock>, patience: Duration) -> Self {
        Self { lease, name, mark, clock, patience, adopted: None, leader: None }
    }

    pub(super) async fn read(&mut self) -> Result<Option<MapRecord>, StoreError> {
        self.adopted = None;
        let Some(record) = self.lease.read().await? else { return Ok(None) };
        if is_map(&self.lease, &record, &self.mark) {
            return self.map(&record).map(Some);
        }
        // Without shards the controller elects a leader with this mark.
        if let Some(mark) = &record.mark
            && self.mark.strip_suffix(SHARDS_MARK) != Some(&**mark)
        {
            return Err(StoreError::Foreign(self.name.clone(), Arc::clone(mark)));
        }
        if record.is_released() || self.has_expired(&record) {
            self.adopted = Some(record.version);
            return Ok(None);
        }
        Err(StoreError::Held(self.name.clone(), record.holder))
    }

    /// Returns `true` if a leader did not renew the Lease for its whole duration.
    fn has_expired(&mut self, record: &Record) -> bool {
        let now = self.clock.now();
        match &self.leader {
            Some((known, since)) if known.is_same_term(record) => {
                now >= *since + self.patience.max(record.lease.unwrap_or_default())
            }
            _ => {
                self.leader = Some((record.clone(), now));
                false
            }
        }
    }

    /// Writes the map, or returns the Lease to leader election: then it is as a leader of the controller releases it.
    pub(super) async fn write(&mut self, write: &MapWrite, wall: i64) -> Result<Option<MapRecord>, StoreError> {
        let base = write.base.clone().or_else(|| self.adopted.take());
        let lease = LeaseWrite { base, holder: "".into(), seconds: 1, acquired: wall, renewed: wall, transitions: 0 };
        let Some(map) = &write.map else {
            let mark = self.mark.strip_suffix(SHARDS_MARK).map(str::to_owned);
            self.lease.write_with(&lease, &[(MARK, mark), (MAP, None), (OVERRIDES, None)]).await?;
            return Ok(None);
        };
        let text = map.to_text().map_err(|error| malformed(&self.name, &error))?;
        let record = self.lease.write_with(&lease, &[(MAP, Some(text))]).await?;
        self.map(&record).map(Some)
    }

    fn map(&self, record: &Record) -> Result<MapRecord, StoreError> {
        let none = || malformed(&self.name, &format!("it has no annotation {MAP}"));
        let map = ShardMap::parse(self.lease.annotation(MAP).ok_or_else(none)?);
        let map = map.map_err(|error| malformed(&self.name, &error))?;
        let uid = self.lease.uid().unwrap_or_default().into();
        let overrides = Arc::new(Overrides::parse(self.lease.annotation(OVERRIDES)));
        let (version, scope) = (Arc::clone(&record.version), record.scope.clone());
        Ok(MapRecord { uid, version, map: Arc::new(map), overrides, scope })
    }

    /// The map in an event of a watch.
    pub(super) fn event(object: &serde_json::Value, mark: &str) -> Option<MapRecord> {
        let meta = &object["metadata"];
        meta["annotations"][MARK].as_str().filter(|found| *found == mark)?;
        let map = ShardMap::parse(meta["annotations"][MAP].as_str()?).ok()?;
        let (uid, version) = (meta["uid"].as_str()?.into(), meta["resourceVersion"].as_str()?.into());
        let overrides = Arc::new(Overrides::parse(meta["annotations"][OVERRIDES].as_str()));
        let scope = meta["annotations"][SCOPE].as_str().map(WatchedNamespaces::stated);
        Some(MapRecord { uid, version, map: Arc::new(map), overrides, scope })
    }
}

fn malformed(name: &str, problem: &dyn std::fmt::Display) -> StoreError {
    StoreError::Malformed(name.to_owned(), problem.to_string())
}
