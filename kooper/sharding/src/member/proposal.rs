//! The map that a replica writes.

use std::sync::Arc;

use super::{Member, Moment, Resize};
use crate::hash::Shard;
use crate::map::{MapWrite, Ownership, ShardMap};
use crate::mutant::Mutant;
use crate::session::Session;

impl Member {
    /// The write that brings the map nearer to the plan, and the shards that it gives away; `None`
    /// if there is nothing to do. Without a session a replica writes nothing.
    pub(super) fn proposal(&self, now: Moment) -> Option<(MapWrite, Vec<Shard>)> {
        let me = self.session(now)?;
        let base = self.map.version().cloned();
        let Some(known) = self.map.map() else {
            let map = self.first_map(&me, now)?;
            return Some((MapWrite { base, map: Arc::new(map) }, Vec::new()));
        };
        if let Some(Resize::Split(count)) = self.resize
            && !self.map.has_given()
        {
            let mut map = ShardMap::clone(known);
            map.split(count);
            return Some((MapWrite { base, map: Arc::new(map) }, Vec::new()));
        }
        let is_free = |shard: &Ownership| shard.owner.as_ref().is_none_or(|owner| self.slots.is_ended(owner, now));
        if self.resize == Some(Resize::Rebuild) && known.iter().all(|(_, shard)| is_free(shard)) {
            let map = self.filled(known.highest_term());
            return Some((MapWrite { base, map: Arc::new(map) }, Vec::new()));
        }
        let mut given = Vec::new();
        let mut changes = Vec::new();
        for (shard, ownership) in known.iter() {
            let target = self.targets.get(shard.index()).cloned().flatten();
            let is_mine = self.is_own(ownership.owner.as_ref(), Some(&me));
            if let Some(to) = self.map.given(shard) {
                given.push(shard);
                changes.push((shard, to.clone()));
            } else if is_mine {
                let is_drained = self.draining.get(&shard).is_some_and(|drain| drain.done);
                if is_drained && (target.is_some() || self.resize == Some(Resize::Rebuild)) {
                    given.push(shard);
                    changes.push((shard, target));
                }
            } else if target.is_some() && (is_free(ownership) || self.takes_from_the_living(target.as_ref(), &me)) {
                changes.push((shard, target));
            }
        }
        if changes.is_empty() {
            return None;
        }
        let mut map = ShardMap::clone(known);
        for (shard, owner) in changes {
            map.assign(shard, owner);
        }
        Some((MapWrite { base, map: Arc::new(map) }, given))
    }

    fn takes_from_the_living(&self, target: Option<&Session>, me: &Session) -> bool {
        self.mutant == Some(Mutant::TakenFromTheLiving) && target == Some(me)
    }

    /// When a map may be created where there is none. An owner in a map that was deleted may not
    /// know of it yet; it stops when it has not seen the map for the time of its token.
    pub(super) fn guarded_until(&self, now: Moment) -> Option<Moment> {
        let (me, absent) = (self.session(now)?, self.map.absent()?);
        // Sessions are looked at after the map was found to be missing.
        let is_looked = self.slots.read_at.is_some_and(|read| read >= absent);
        let is_guarded = self.map.seen || !is_looked || self.slots.has_experienced(&me);
        let guard = if is_guarded { self.options.terms.lease } else { Moment::ZERO };
        Some(if self.mutant == Some(Mutant::NoGuardOfTheMap) { absent } else { absent + guard })
    }

    /// The first map, or the one after a map that was deleted.
    fn first_map(&self, me: &Session, now: Moment) -> Option<ShardMap> {
        self.guarded_until(now).filter(|guarded| now >= *guarded)?;
        // Versions of one cluster rise, and a term rises at most once with each: so the terms of a
        // map that was deleted are lower.
        let version = &self.slots.get(me.slot)?.record.version;
        Some(self.filled(version.parse().unwrap_or_default()))
    }

    /// A map with the field and number of shards of this replica.
    fn filled(&self, term: u64) -> ShardMap {
        let mut map = ShardMap::new(self.options.by, self.options.count, term);
        let targets = crate::plan::plan(&map, &self.live);
        for (shard, target) in map.count().shards().zip(targets) {
            map.assign(shard, target.and_then(|target| self.live.get(target).cloned()));
        }
        map
    }
}
