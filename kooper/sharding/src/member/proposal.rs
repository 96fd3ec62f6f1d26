//! The map that a replica writes.

use std::sync::Arc;

use super::{Member, Moment, Resize, Stage};
use crate::hash::Shard;
use crate::map::{MapWrite, Ownership, ShardMap};
use crate::mutant::Mutant;
use crate::session::Session;

impl Member {
    /// The write that brings the map nearer to the plan, and the shards that it gives away; `None`
    /// if there is nothing to do. Without a session a replica only creates a map without owners.
    pub(super) fn proposal(&self, now: Moment) -> Option<(MapWrite, Vec<Shard>)> {
        if now < self.guarded {
            return None;
        }
        let base = self.map.version().cloned();
        let Some(known) = self.map.map() else {
            // It names no owner, because it can be stored much later, when there was another map
            // in the meantime.
            let map = ShardMap::new(self.options.by, self.options.count, 0);
            let creates = self.map.is_absent() && self.stage == Stage::Running;
            return creates.then(|| (MapWrite { base, map: Some(Arc::new(map)) }, Vec::new()));
        };
        let me = self.session(now)?;
        if self.returns {
            let owned = known.iter().filter(|(_, shard)| shard.owner.as_ref() == Some(&me));
            return Some((MapWrite { base, map: None }, owned.map(|(shard, _)| shard).collect()));
        }
        let is_free = |shard: &Ownership| shard.owner.as_ref().is_none_or(|owner| self.slots.is_ended(owner, now));
        let are_released = || known.iter().all(|(_, shard)| is_free(shard));
        let is_rebuilt = self.resize == Some(Resize::Rebuild)
            && (self.mutant == Some(Mutant::RebuiltWithoutRelease) || are_released());
        if self.is_map_of_others() && !is_rebuilt {
            return None;
        }
        if known.is_new() {
            self.guarded_until(now).filter(|guarded| now >= *guarded)?;
            // Versions of one cluster rise, and a term rises at most once with each: so the terms
            // of earlier maps are lower.
            let map = self.filled(base.as_ref().and_then(|base| base.parse().ok()).unwrap_or_default());
            return Some((MapWrite { base, map: Some(Arc::new(map)) }, Vec::new()));
        }
        if let Some(Resize::Split(count)) = self.resize
            && !self.map.has_given()
        {
            let mut map = ShardMap::clone(known);
            map.split(count);
            return Some((MapWrite { base, map: Some(Arc::new(map)) }, Vec::new()));
        }
        if is_rebuilt {
            let map = self.filled(known.highest_term());
            return Some((MapWrite { base, map: Some(Arc::new(map)) }, Vec::new()));
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
            } else if self.stage == Stage::Running
                && target.is_some()
                && (is_free(ownership) || self.takes_from_the_living(target.as_ref(), &me))
            {
                // Not while it stops: those that stay may release all shards to share them anew.
                changes.push((shard, target));
            }
        }
        if changes.is_empty() {
            return None;
        }
        let mut map = ShardMap::clone(known);
        for (shard, owner) in changes {
            map.assign_after(shard, owner, self.map.highest_term());
        }
        Some((MapWrite { base, map: Some(Arc::new(map)) }, given))
    }

    fn takes_from_the_living(&self, target: Option<&Session>, me: &Session) -> bool {
        self.mutant == Some(Mutant::TakenFromTheLiving) && target == Some(me)
    }

    /// When the shards of a map that was just created may be given to their first owners. A
    /// replica that has not heard of the end of an earlier map works by that one, until it has not
    /// seen it for the time of its token. Its session has announced that earlier map before.
    pub(super) fn guarded_until(&self, now: Moment) -> Option<Moment> {
        let (me, uid, since) = (self.session(now)?, self.map.uid()?, self.map.new_since()?);
        let is_looked = self.slots.all_read_at().is_some_and(|read| read >= since);
        let is_guarded = !is_looked || self.outlives_map(now) || self.slots.knows_another_map(&me, uid);
        let guard = if is_guarded { self.slots.longest_lease() } else { Moment::ZERO };
        Some(if self.mutant == Some(Mutant::NoGuardOfTheMap) { since } else { since + guard })
    }

    /// A map with the field and number of shards of this replica.
    fn filled(&self, term: u64) -> ShardMap {
        let mut map = ShardMap::new(self.options.by, self.options.count, term.max(self.map.highest_term()));
        let targets = crate::plan::plan(&map, &self.map.overrides(), &self.live);
        for (shard, target) in map.count().shards().zip(targets) {
            map.assign(shard, target.and_then(|target| self.live.get(target).cloned()));
        }
        map
    }
}
