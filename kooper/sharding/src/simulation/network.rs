//! The server, and the network between it and the replicas.

use std::sync::Arc;
use std::time::Duration;

use kooper_base::leader::lease_state::{LeaseWrite, Record};
use kooper_base::leader::scope::WatchedNamespaces;

use super::rng::SimRng;
use crate::hash::ShardCount;
use crate::map::{MapRecord, MapWrite};
use crate::overrides::Overrides;
use crate::session::{Announcement, SlotRecord};

#[derive(Debug, Clone)]
pub(super) enum Request {
    SessionRead(u8),
    SessionWrite(u8, LeaseWrite, Option<Announcement>),
    SlotsRead(Vec<u8>),
    Tombstone(u8, LeaseWrite),
    MapRead,
    /// With the process that has sent it: it may be stored when that one has been replaced.
    MapWrite(MapWrite, Arc<str>),
}

#[derive(Debug, Clone)]
pub(super) enum Answer {
    Slot(Option<SlotRecord>),
    Slots(Vec<(u8, Option<SlotRecord>)>),
    SlotStored(SlotRecord),
    Map(Option<MapRecord>),
    /// `None` if the Lease was returned to leader election.
    MapStored(Option<MapRecord>),
    Conflict,
}

/// A server with one map and some slots, and compare-and-swap.
#[derive(Clone)]
pub(super) struct SimServer {
    pub(super) map: Option<MapRecord>,
    pub(super) slots: Vec<Option<SlotRecord>>,
    /// The uid of the Lease if it was returned to leader election.
    pub(super) returned: Option<Arc<str>>,
    mark: Arc<str>,
    version: u64,
}

impl SimServer {
    pub(super) fn new(slots: u8) -> Self {
        Self { map: None, slots: vec![None; slots.into()], returned: None, mark: "sim/shards".into(), version: 0 }
    }

    /// Everything goes back to a backup. Versions rise from there, or from the last one. None of them is one of those
    /// before: a cluster has too many for that to matter.
    pub(super) fn restore(&mut self, backup: Self, rises: bool) {
        let last = if rises { self.version } else { backup.version };
        *self = Self { version: last + 1, ..backup };
    }

    fn next_version(&mut self) -> Arc<str> {
        self.version += 2;
        self.version.to_string().into()
    }

    pub(super) fn put_slot(
        &mut self,
        slot: u8,
        write: &LeaseWrite,
        announcement: Option<Announcement>,
        scope: WatchedNamespaces,
    ) -> Option<SlotRecord> {
        let stored = self.slots[usize::from(slot)].as_ref().map(|stored| &stored.record.version);
        if stored != write.base.as_ref() {
            return None;
        }
        let record = Record::stored(write, &self.mark.clone(), self.next_version());
        let stored = SlotRecord { record: Record { scope: Some(scope), ..record }, announcement };
        self.slots[usize::from(slot)] = Some(stored.clone());
        Some(stored)
    }

    pub(super) fn put_map(&mut self, write: &MapWrite, scope: WatchedNamespaces) -> Option<Option<MapRecord>> {
        if self.map.as_ref().map(|map| &map.version) != write.base.as_ref() {
            return None;
        }
        let version = self.next_version();
        let before = self.map.take();
        self.map = write.map.as_ref().map(|map| {
            // A Lease that was returned keeps its uid.
            let uid = before.as_ref().map(|map| Arc::clone(&map.uid)).or_else(|| self.returned.take());
            let uid = uid.unwrap_or_else(|| Arc::clone(&version));
            let overrides = before.as_ref().map(|map| Arc::clone(&map.overrides)).unwrap_or_default();
            MapRecord { uid, version, map: Arc::clone(map), overrides, scope: Some(scope) }
        });
        if self.map.is_none() {
            self.returned = before.map(|map| map.uid);
        }
        Some(self.map.clone())
    }

    /// A person changes what overrides the plan.
    pub(super) fn put_overrides(&mut self, change: impl FnOnce(&mut Overrides, ShardCount)) -> Option<MapRecord> {
        let version = self.next_version();
        let stored = self.map.as_mut()?;
        let count = stored.map.count();
        change(Arc::make_mut(&mut stored.overrides), count);
        stored.version = version;
        Some(stored.clone())
    }

    pub(super) fn delete_map(&mut self) {
        self.version += 2;
        (self.map, self.returned) = (None, None);
    }

    pub(super) fn delete_slot(&mut self, slot: usize) {
        self.version += 2;
        self.slots[slot] = None;
    }
}

/// The faults of one replica's connection, each until the given time.
#[derive(Debug, Default, Clone)]
pub(super) struct ConnectionFaults {
    pub(super) cut: Duration,
    pub(super) slow_requests: Duration,
    pub(super) slow_answers: Duration,
    pub(super) lost_answers: Duration,
    pub(super) errors: Duration,
    pub(super) bad_watch: Duration,
    /// No request for the map arrives, and no event of it.
    pub(super) no_map: Duration,
}

impl ConnectionFaults {
    /// The time that a request takes; `None` if it never arrives.
    pub(super) fn request(&self, now: Duration, rng: &mut SimRng) -> Option<Duration> {
        (now >= self.cut).then(|| travel(self.slow_requests.saturating_sub(now), rng))
    }

    pub(super) fn answer(&self, now: Duration, rng: &mut SimRng) -> Option<Duration> {
        let lost = now < self.cut || (now < self.lost_answers && rng.chance(0.7));
        (!lost).then(|| travel(self.slow_answers.saturating_sub(now), rng))
    }

    /// An event of the watch.
    pub(super) fn event(&self, now: Duration, rng: &mut SimRng) -> Option<Duration> {
        let lost = now < self.cut || (now < self.bad_watch && rng.chance(0.5));
        (!lost).then(|| travel(self.bad_watch.saturating_sub(now), rng))
    }
}

/// The time that a message takes. A slow one may take as long as the fault lasts.
fn travel(slow: Duration, rng: &mut SimRng) -> Duration {
    let is_late = !slow.is_zero() && rng.chance(0.7);
    let late = if is_late { rng.within(slow.min(Duration::from_secs(12))) } else { Duration::ZERO };
    late + Duration::from_micros(200) + rng.within(Duration::from_millis(20))
}
