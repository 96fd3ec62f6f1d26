//! The conditions that must always hold, and those that must hold when all faults are over.

use std::time::Duration;

use super::World;
use crate::hash::{BUCKETS, Shard, ShardCount};
use crate::map::{Ownership, ShardMap};
use crate::session::{Session, SlotRecord};
use crate::simulation::process::{Call, Process};

fn bucket(count: ShardCount, shard: Shard) -> u8 {
    (u16::from(shard.0) * (BUCKETS / count.get())) as u8
}

impl World {
    /// The shards that a process works on: a bucket of each, and the terms.
    fn held(&self, who: usize) -> Vec<(u8, u64)> {
        let process = &self.processes[who];
        let Some(map) = process.member.map().filter(|_| process.is_alive) else { return Vec::new() };
        let held = process.member.held(process.clock.at(self.now));
        held.map(|(shard, term)| (bucket(map.count(), shard), term)).collect()
    }

    /// Checks that a process works on nothing but what the stored map says. As a map names one
    /// owner, no shard is in two hands. After a map was deleted or restored from a backup, and until the next one names
    /// owners, no two may work on the same shard by the maps that they know.
    pub(super) fn check_holds(&mut self, who: usize) {
        let is_restored = self.is_restored();
        let Some(stored) = self.server.map.clone().filter(|stored| !stored.map.is_new() && !is_restored) else {
            return self.check_alone(who);
        };
        let map = &stored.map;
        let process = &self.processes[who];
        let by = process.member.map().map(|map| map.by());
        for (bucket, term) in self.held(who) {
            if !self.shares(who) {
                self.broken = Some(format!("{} works, and the map is that of {:?}", process.identity, stored.scope));
                return;
            }
            let stored = map.get(map.count().shard(bucket)).cloned().unwrap_or_default();
            let is_owner = stored.owner.as_ref().is_some_and(|owner| owner.identity == process.identity);
            if !is_owner || stored.term != term || by != Some(map.by()) {
                let identity = &process.identity;
                let message =
                    format!("{identity} works on bucket {bucket} in term {term}, and the map says {stored:?}");
                self.broken = Some(message);
                return;
            }
        }
    }

    /// Returns `true` soon after a restore: a replica works by the map before until its token ends, unless it has noticed.
    fn is_restored(&self) -> bool {
        self.restored.is_some_and(|at| self.now < at + self.configuration.terms.lease.mul_f64(1.25))
    }

    /// Returns `true` if a process watches the namespaces of those that share the shards.
    fn shares(&self, who: usize) -> bool {
        self.server.map.as_ref().is_some_and(|map| map.scope.as_ref() == Some(&self.processes[who].scope))
    }

    fn check_alone(&mut self, who: usize) {
        let held = self.held(who);
        for other in (0..self.processes.len()).filter(|other| *other != who) {
            let others = self.held(other);
            // A shard begins with the same bucket as one of those it may be split into.
            if let Some((bucket, _)) = held.iter().find(|(bucket, _)| others.iter().any(|(held, _)| held == bucket)) {
                let (one, other) = (&self.processes[who].identity, &self.processes[other].identity);
                self.broken = Some(format!("{one} and {other} work on bucket {bucket}, and no map names an owner"));
                return;
            }
        }
    }

    /// Returns `true` if a session has not ended.
    fn has_session(&self, session: &Session) -> bool {
        let slot = self.server.slots[usize::from(session.slot)].as_ref();
        slot.and_then(|slot| slot.session(session.slot)).as_ref() == Some(session)
    }

    /// The process that owns or owned something, if it still runs.
    fn running(&self, identity: &str) -> Option<&Process> {
        self.processes.iter().find(|process| process.is_alive && *process.identity == *identity)
    }

    /// Checks a new version of the map.
    pub(super) fn check_map(&mut self, by: &str, before: Option<&ShardMap>, after: &ShardMap) {
        for who in 0..self.processes.len() {
            if self.broken.is_none() {
                self.check_holds(who);
            }
        }
        if before.is_some_and(ShardMap::is_new) && !after.is_new() {
            self.check_filled(after);
        }
        let none = Ownership::default();
        for bucket in 0..=255 {
            let new = after.get(after.count().shard(bucket)).unwrap_or(&none);
            let old = before.and_then(|before| before.get(before.count().shard(bucket)));
            if old.is_none_or(|old| old.owner != new.owner) {
                let term = &mut self.terms[usize::from(bucket)];
                if new.owner.is_some() && new.term <= *term {
                    self.broken = Some(format!("bucket {bucket} has a new owner in the old term {}", new.term));
                }
                *term = new.term;
            }
        }
        let Some(before) = before.filter(|before| (before.by(), before.count()) == (after.by(), after.count())) else {
            return;
        };
        for (shard, old) in before.iter() {
            let new = after.get(shard).unwrap_or(&none);
            if old.owner != new.owner && !before.is_new() {
                self.summary.moves += 1;
                self.check_hand_over(by, shard, before.count(), old, new);
            }
        }
    }

    /// Checks that for a lease the first owners of a map are given nothing of which a call runs that began by the map before.
    fn check_filled(&mut self, map: &ShardMap) {
        if self.now >= self.created + self.configuration.terms.lease.div_f64(1.25) {
            return;
        }
        for process in self.processes.iter().filter(|process| process.is_alive) {
            let (identity, slots) = (&process.identity, self.server.slots.iter().flatten());
            let records: Vec<_> = slots.map(|slot| &slot.record).filter(|record| record.holder == *identity).collect();
            let lasts = |call: &&Call| records.iter().any(|record| record.acquired == Some(call.acquired));
            let is_given = |call: &Call| {
                let owner = map.get(map.count().shard(call.bucket)).and_then(|shard| shard.owner.as_ref());
                owner.is_some_and(|owner| owner.identity != *identity)
            };
            if let Some(call) = process.calls.iter().filter(lasts).find(|call| is_given(call)) {
                self.broken = Some(format!("bucket {} has an owner while a call of {identity} runs", call.bucket));
                return;
            }
        }
    }

    /// Checks that nobody works when the Lease of the map is returned: another version of the program may begin at once.
    pub(super) fn check_return(&mut self, before: Option<&ShardMap>) {
        if let Some(who) = (0..self.processes.len()).find(|who| !self.held(*who).is_empty()) {
            self.broken = Some(format!("the Lease is returned while {} works", self.processes[who].identity));
        }
        for process in self.processes.iter().filter(|process| process.is_alive) {
            let runs = |call: &&Call| {
                let ownership = before.and_then(|map| map.get(map.count().shard(call.bucket)));
                let owner = ownership.filter(|ownership| ownership.term == call.term)?.owner.as_ref()?;
                let is_own = owner.identity == process.identity && owner.acquired == call.acquired;
                // A call that outlives a session which others have ended sends nothing any more.
                Some(is_own && self.has_session(owner))
            };
            if let Some(call) = process.calls.iter().find(|call| runs(call) == Some(true)) {
                self.broken = Some(format!("the Lease is returned while a call of bucket {} runs", call.bucket));
                return;
            }
        }
    }

    /// Checks that a shard whose owner has not ended is given away by it in order.
    fn check_hand_over(&mut self, by: &str, shard: Shard, count: ShardCount, old: &Ownership, new: &Ownership) {
        // A restored slot may have a session again that others know has ended.
        let has_session = |owner: &&Session| self.has_session(owner) && !self.is_restored();
        let Some(owner) = old.owner.as_ref().filter(has_session) else { return };
        if by != &*owner.identity {
            self.broken = Some(format!("shard {shard} of {owner}, which has not ended, is given away by {by}"));
            return;
        }
        let Some(giver) = self.running(&owner.identity) else { return };
        let is_running = giver.calls.iter().any(|call| count.shard(call.bucket) == shard && call.term == old.term);
        let successor = new.owner.as_ref().and_then(|owner| self.running(&owner.identity));
        let is_cold = !giver.is_stopping && successor.is_some_and(|process| !process.warmed.contains(&shard));
        if is_running {
            self.broken = Some(format!("shard {shard} is handed over while a call of it runs"));
        } else if is_cold {
            self.broken = Some(format!("shard {shard} is handed over to a replica that does not hold it"));
        }
        self.summary.handed_over += 1;
    }

    /// Checks a new record of a slot.
    pub(super) fn check_slot(
        &mut self,
        by: usize,
        slot: u8,
        before: Option<&SlotRecord>,
        after: &SlotRecord,
        is_tombstone: bool,
    ) {
        let writer = &self.processes[by].identity;
        // Of a slot that was deleted, the map names the session.
        let named = || {
            let mut owners =
                self.server.map.iter().flat_map(|map| map.map.iter()).filter_map(|(_, shard)| shard.owner.as_ref());
            owners.find(|owner| owner.slot == slot && owner.identity == *writer).cloned()
        };
        let Some(old) = before.map_or_else(named, |before| before.session(slot)) else { return };
        if after.session(slot).as_ref() == Some(&old) {
            return;
        }
        let Some(process) = self.running(&old.identity) else { return };
        let is_valid = process.member.session(process.clock.at(self.now)).as_ref() == Some(&old);
        let map = self.server.map.as_ref().map(|map| &map.map);
        let runs = |call: &Call| {
            let ownership = map.and_then(|map| map.get(map.count().shard(call.bucket)));
            ownership.is_some_and(|shard| shard.owner.as_ref() == Some(&old) && shard.term == call.term)
        };
        if is_valid {
            self.broken = Some(format!("the valid session {old} is ended by {}", self.processes[by].identity));
        } else if !is_tombstone && self.processes[by].identity == old.identity && process.calls.iter().any(runs) {
            self.broken =
                Some(format!("the session {old} is released or followed by another one while calls are running"));
        }
    }

    /// A write of a call passes the fence only in its term.
    pub(super) fn write(&mut self, who: usize, id: u64) {
        let process = &self.processes[who];
        let Some(call) = process.calls.iter().find(|call| call.id == id).copied() else { return };
        let shard = process.member.map().map(|map| map.count().shard(call.bucket));
        let term = shard.and_then(|shard| process.member.holds(shard, process.clock.at(self.now)));
        if term == Some(call.term) {
            self.check_holds(who);
        } else {
            self.summary.fenced += 1;
        }
    }

    /// The number of shards that each process works on.
    pub(in crate::simulation) fn loads(&self) -> Vec<usize> {
        (0..self.processes.len()).map(|who| self.held(who).len()).collect()
    }

    /// The processes of the installation that shares the shards.
    pub(in crate::simulation) fn sharing(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|who| self.processes[*who].is_alive && self.shares(*who)).collect()
    }

    /// Returns `true` if every shard is in someone's hands.
    pub(in crate::simulation) fn is_owned(&self) -> bool {
        let Some(map) = &self.server.map else { return false };
        self.loads().iter().sum::<usize>() == usize::from(map.map.count().get())
    }

    /// Returns `true` if no replica stops, those that run own what a person has moved to them, work on as
    /// many of the other shards each, up to one, and the map is as they were started. Those that watch other namespaces
    /// have no sessions.
    pub(in crate::simulation) fn is_settled(&self) -> bool {
        let Some(stored) = self.server.map.as_ref() else { return false };
        let (map, overrides) = (&stored.map, &stored.overrides);
        let stops = self.processes.iter().any(|process| process.is_alive && process.is_stopping);
        let is_current = (map.by(), map.count()) == (self.configuration.by, self.configuration.count);
        let loads = self.loads();
        if stops || !is_current || loads.iter().sum::<usize>() != usize::from(map.count().get()) {
            return false;
        }
        let identity = |who: usize| &*self.processes[who].identity;
        let is_drained = |who: usize| overrides.drained.contains(identity(who));
        let running = (0..self.processes.len()).filter(|who| self.processes[*who].is_alive);
        let (running, others): (Vec<usize>, Vec<usize>) = running.partition(|who| self.shares(*who));
        let has_session = |who: &usize| {
            let process = &self.processes[*who];
            process.member.session(process.clock.at(self.now)).is_some()
        };
        if others.iter().any(has_session) {
            return false;
        }
        let (drained, mut open): (Vec<usize>, Vec<usize>) = running.into_iter().partition(|who| is_drained(*who));
        if open.is_empty() {
            open = drained;
        }
        let (mut least, mut most) = (usize::MAX, 0);
        for who in &open {
            let moved =
                map.count().shards().filter(|shard| overrides.owner(map.count(), *shard) == Some(identity(*who)));
            let moved: Vec<u8> = moved.map(|shard| bucket(map.count(), shard)).collect();
            let held = self.held(*who);
            if moved.iter().any(|moved| !held.iter().any(|(held, _)| held == moved)) {
                return false;
            }
            least = least.min(held.len());
            most = most.max(if held.len() > moved.len() { held.len() } else { 0 });
        }
        // All shards are in the hands of those that are not drained.
        let of_open: usize = open.iter().map(|who| loads[*who]).sum();
        most <= least.saturating_add(1) && of_open == loads.iter().sum::<usize>()
    }

    /// The time after the last fault by which every shard has an owner again.
    pub(in crate::simulation) fn bound(&self) -> Duration {
        let terms = self.configuration.terms;
        // A record has whole seconds, and the slowest clock waits longest.
        let lease = Duration::from_secs(terms.lease.as_millis().div_ceil(1000) as u64);
        lease.mul_f64(1.25) + terms.retry * 2 + Duration::from_secs(1)
    }
}
