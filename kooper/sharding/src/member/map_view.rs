//! The map as this replica knows it, and the releases that it has sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kooper_base::leader::scope::WatchedNamespaces;
use kooper_runtime::internal::object::older;

use super::Moment;
use crate::hash::Shard;
use crate::map::{MapRecord, MapWrite, ShardMap};
use crate::mutant::Mutant;
use crate::overrides::Overrides;
use crate::session::Session;

/// A shard that was given away by a write whose result is unknown. The write may be committed
/// as long as its base is the stored version.
#[derive(Debug, Clone)]
struct UnconfirmedHandover {
    shard: Shard,
    to: Option<Session>,
    base: Option<Arc<str>>,
}

/// The known map.
#[derive(Debug)]
pub(super) struct MapView {
    known: Option<MapRecord>,
    /// When the known map was learned.
    learned: Moment,
    /// The last read has found an older one.
    was_older: bool,
    /// The highest term in all maps that were known.
    highest_term: u64,
    /// There is no map, as far as it is known.
    is_absent: bool,
    /// The uid of the last known map, and since when it is known.
    seen: Option<(Arc<str>, Moment)>,
    /// The owners in the map, and since when this replica knows that they are.
    named: BTreeMap<Session, Moment>,
    /// When the last read or write that showed that a map exists was sent.
    confirmed: Option<Moment>,
    given: Vec<UnconfirmedHandover>,
    pub(super) must_read: bool,
    /// The result of the last write is unknown.
    pub(super) is_unsure: bool,
    /// No request is sent before this.
    pub(super) not_before: Moment,
    /// The map is read at this time, if not before.
    pub(super) read_next: Moment,
    mutant: Option<Mutant>,
}

impl MapView {
    pub(super) fn new(now: Moment, mutant: Option<Mutant>) -> Self {
        Self {
            known: None,
            learned: now,
            was_older: false,
            highest_term: 0,
            is_absent: false,
            seen: None,
            named: BTreeMap::new(),
            confirmed: None,
            given: Vec::new(),
            must_read: true,
            is_unsure: false,
            not_before: now,
            read_next: now,
            mutant,
        }
    }

    /// A view that knows nothing but the terms of an earlier one.
    pub(super) fn after(earlier: &Self, now: Moment) -> Self {
        Self { highest_term: earlier.highest_term, ..Self::new(now, earlier.mutant) }
    }

    pub(super) fn map(&self) -> Option<&Arc<ShardMap>> {
        self.known.as_ref().map(|known| &known.map)
    }

    /// The requests of a person for the plan.
    pub(super) fn overrides(&self) -> Arc<Overrides> {
        self.known.as_ref().map(|known| Arc::clone(&known.overrides)).unwrap_or_default()
    }

    /// The namespaces of the replicas that share the shards.
    pub(super) fn scope(&self) -> Option<&WatchedNamespaces> {
        self.known.as_ref()?.scope.as_ref()
    }

    pub(super) fn version(&self) -> Option<&Arc<str>> {
        self.known.as_ref().map(|known| &known.version)
    }

    /// The uid of the known map.
    pub(super) fn uid(&self) -> Option<&Arc<str>> {
        self.known.as_ref().map(|known| &known.uid)
    }

    /// The uid of the last known map, which may have been deleted.
    pub(super) fn seen(&self) -> Option<&Arc<str>> {
        self.seen.as_ref().map(|(uid, _)| uid)
    }

    /// Since when the last known map is known, which may have been deleted.
    pub(super) fn seen_since(&self) -> Option<Moment> {
        self.seen.as_ref().map(|(_, since)| *since)
    }

    /// Since when the map is known, if it was just created and no shard has an owner.
    pub(super) fn new_since(&self) -> Option<Moment> {
        self.map().filter(|map| map.is_new())?;
        self.seen_since()
    }

    /// Returns `true` if it is known that there is no map.
    pub(super) fn is_absent(&self) -> bool {
        self.is_absent
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &Session> {
        self.named.keys()
    }

    pub(super) fn names(&self, owner: &Session) -> bool {
        self.named.contains_key(owner)
    }

    /// The owners that this replica knew at a time.
    pub(super) fn named_before(&self, moment: Moment) -> impl Iterator<Item = &Session> {
        self.named.iter().filter(move |(_, since)| **since <= moment).map(|(owner, _)| owner)
    }

    /// When the last request that showed that there is a map was sent.
    pub(super) fn confirmed(&self) -> Option<Moment> {
        self.confirmed
    }

    /// When the map is no longer known to exist: it may have been deleted, and created again by a
    /// replica that has waited for a lease.
    pub(super) fn valid_until(&self, validity: Duration) -> Option<Moment> {
        if self.mutant == Some(Mutant::BlindMap) {
            return self.confirmed.map(|_| Duration::MAX);
        }
        self.confirmed.map(|confirmed| confirmed + validity)
    }

    /// Returns `true` if the shard was given away, as far as this replica can know. Then it must
    /// not work on it until the map has moved past the base of that write.
    pub(super) fn is_given(&self, shard: Shard) -> bool {
        self.given.iter().any(|given| given.shard == shard)
    }

    /// The session that the shard was last given to.
    pub(super) fn given(&self, shard: Shard) -> Option<&Option<Session>> {
        self.given.iter().rev().find(|given| given.shard == shard).map(|given| &given.to)
    }

    pub(super) fn has_given(&self) -> bool {
        !self.given.is_empty()
    }

    /// The highest term in all maps that were known. In one that comes back from a backup, those of some shards are lower
    /// than before, and may still be so after the next writes.
    pub(super) fn highest_term(&self) -> u64 {
        self.highest_term
    }

    fn is_older(&self, found: &MapRecord) -> bool {
        self.version().is_some_and(|known| older(&found.version, known))
    }

    /// Returns `true` if two reads in a row that were sent after the known version had been received have found an older
    /// one. No two do, unless etcd was restored from a backup; one may come from a cache.
    pub(super) fn has_gone_back(&mut self, sent: Moment, found: &MapRecord) -> bool {
        let is_older = self.learned < sent && self.is_older(found);
        std::mem::replace(&mut self.was_older, is_older) && is_older
    }

    /// Learns a version of the map. Older ones are ignored. Returns `true` if it was new.
    pub(super) fn learn(&mut self, now: Moment, found: MapRecord) -> bool {
        let same = self.version() == Some(&found.version);
        if same || (self.is_older(&found) && self.mutant != Some(Mutant::StaleWatch)) {
            return false;
        }
        let mut named = BTreeMap::new();
        for (_, shard) in found.map.iter() {
            if let Some(owner) = &shard.owner
                && !named.contains_key(owner)
            {
                named.insert(owner.clone(), self.named.get(owner).copied().unwrap_or(now));
            }
        }
        self.named = named;
        // A write whose base was replaced cannot be committed any more.
        self.given.retain(|given| given.base.as_ref() == Some(&found.version));
        if self.seen() != Some(&found.uid) {
            self.seen = Some((Arc::clone(&found.uid), now));
        }
        self.highest_term = self.highest_term.max(found.map.highest_term());
        self.known = Some(found);
        self.learned = now;
        self.is_absent = false;
        true
    }

    /// Handles the result of a read that was sent at `sent`. Returns `true` if it was news.
    pub(super) fn handle_read(&mut self, sent: Moment, now: Moment, found: Option<MapRecord>) -> bool {
        self.must_read = false;
        match found {
            Some(found) => {
                if !self.is_older(&found) {
                    self.confirmed = Some(self.valid_from(sent, now));
                }
                self.learn(now, found)
            }
            // The map was created after the read.
            None if self.known.is_some() && self.learned > sent => {
                self.must_read = true;
                false
            }
            None => {
                let news = !self.is_absent || self.known.is_some();
                self.known = None;
                self.named.clear();
                self.given.clear();
                self.confirmed = None;
                self.is_absent = true;
                news
            }
        }
    }

    fn valid_from(&self, sent: Moment, now: Moment) -> Moment {
        if self.mutant == Some(Mutant::FromTheAnswer) { now } else { sent }
    }

    /// Notes what a write gives away. From now on these shards may have other owners.
    pub(super) fn sent(&mut self, write: &MapWrite, given: Vec<Shard>) {
        for shard in given {
            let to = write.map.as_ref().and_then(|map| map.get(shard)?.owner.clone());
            self.given.retain(|given| given.shard != shard || given.to != to);
            self.given.push(UnconfirmedHandover { shard, to, base: write.base.clone() });
        }
        self.must_read = true;
    }

    /// The write that was sent at `sent` was committed as this version, or has returned the Lease. Returns `true` if that
    /// is news.
    pub(super) fn committed(&mut self, sent: Moment, now: Moment, record: Option<MapRecord>) -> bool {
        let Some(record) = record else { return self.handle_read(sent, now, None) };
        let from = self.valid_from(sent, now);
        self.confirmed = Some(self.confirmed.map_or(from, |confirmed| confirmed.max(from)));
        self.must_read = false;
        self.learn(now, record)
    }

    /// The result of a write is unknown.
    pub(super) fn failed(&mut self) {
        self.is_unsure = true;
        if self.mutant == Some(Mutant::TakenBackRelease) {
            self.given.clear();
        }
    }
}
