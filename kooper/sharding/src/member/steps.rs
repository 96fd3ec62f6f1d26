//! The requests of a replica, and their results.

use std::time::Duration;

use kooper_base::leader::lease_state::{LeaseWrite, NextStep, WriteResult};

use super::slots::ReadReason;
use super::{Member, Moment, Stage, Standby};
use crate::map::{MapRecord, MapWrite};
use crate::mutant::Mutant;
use crate::session::{Announcement, SlotRecord};

/// The most writes of a session in a retry period: its renewal, and its announcements.
const ANNOUNCEMENTS: u32 = 8;

/// The reads of the slots in a retry period while a successor is awaited, or the end of a session.
const AWAITING_READS: u32 = 4;

/// The next request for the own slot.
#[derive(Debug)]
pub(crate) enum SessionStep {
    /// Read the slot.
    Read(u8),
    /// Write the slot, with the announcement, or without one where it is released.
    Write(u8, LeaseWrite, Option<Announcement>),
    /// Wait until then, unless something happens.
    Wait(Duration),
    /// The replica has stopped.
    Gone,
}

/// The next request for the slots of all replicas.
#[derive(Debug)]
pub(crate) enum SlotsStep {
    /// Read these slots.
    Read(Vec<u8>),
    /// End the session in a slot.
    Tombstone(u8, LeaseWrite),
    /// Wait until then, unless something happens.
    Wait(Duration),
}

/// The next request for the map.
#[derive(Debug)]
pub(crate) enum MapStep {
    /// Read the map.
    Read,
    /// Write the map.
    Write(MapWrite),
    /// Wait until then, unless something happens.
    Wait(Duration),
}

impl Member {
    /// The next request for the own slot. `wall` is the time of the wall clock in microseconds;
    /// no decision depends on it.
    pub(crate) fn next_session(&mut self, now: Duration, wall: i64) -> SessionStep {
        loop {
            self.replan(now);
            if self.stage == Stage::Gone {
                return SessionStep::Gone;
            }
            self.choose_slot(now);
            self.wall = wall.max(self.wall + 1);
            let has_news = self.has_news(now);
            let (soon, has_lost) = (now + self.options.terms.retry / 4, self.own().is_none());
            let Some(claim) = &mut self.claim else {
                if self.stage == Stage::Releasing {
                    // There is nothing to release any more.
                    self.stage = Stage::Gone;
                    return SessionStep::Gone;
                }
                return SessionStep::Wait(self.slots.not_before.max(soon));
            };
            // Others take the shards of a session at once when another one follows it. While its slot does not exist they
            // wait for a lease. An owner in it may be newer than the map that is known, as after a pause.
            if has_lost && claim.absent.is_some_and(|sent| self.map.confirmed().is_none_or(|seen| seen < sent)) {
                if self.map.is_absent() {
                    // It was returned or deleted: with another one, a slot is chosen again.
                    self.claim = None;
                } else {
                    self.map.must_read = true;
                }
                return SessionStep::Wait(soon);
            }
            if has_lost && self.slots.is_deleted(claim.slot, &self.map, |owner| owner != &*self.options.identity) {
                self.claim = None;
                return SessionStep::Wait(soon);
            }
            let would_replace = has_lost && self.runs && self.slots.is_deleted(claim.slot, &self.map, |_| true);
            if would_replace && self.mutant != Some(Mutant::ReturnsEarly) {
                return SessionStep::Wait(soon);
            }
            if has_news {
                claim.state.renew_after(self.options.terms.retry / ANNOUNCEMENTS);
            }
            match claim.state.next(now, self.wall) {
                NextStep::Read => return SessionStep::Read(claim.slot),
                NextStep::Write(write) => {
                    let slot = claim.slot;
                    let announcement = (!write.holder.is_empty()).then(|| self.announcement(now));
                    self.written = Some(now);
                    return SessionStep::Write(slot, write, announcement);
                }
                NextStep::Wait(until) => return SessionStep::Wait(until),
                // The slot is left to expire, because calls may still run.
                NextStep::Lost(_) if self.stage != Stage::Running => self.stage = Stage::Gone,
                NextStep::Lost(_) => self.changed = true,
                NextStep::Idle if self.standby.is_some() => self.claim = None,
                NextStep::Idle if self.stage == Stage::Running => claim.state.campaign(),
                NextStep::Idle => self.stage = Stage::Gone,
            }
        }
    }

    /// Returns `true` if the stored announcement lacks something that others wait for. A shard that
    /// is warm no longer is not: the announcement is corrected with the next renewal.
    fn has_news(&self, now: Moment) -> bool {
        self.stored().is_some_and(|stored| {
            stored.leaving != (self.stage != Stage::Running)
                || stored.map.as_deref() != self.announced_map(now)
                || (stored.of != self.of && !self.warm.is_empty())
                || !self.warm.is_subset(&stored.warm)
        })
    }

    /// Chooses a free slot, unless it holds one or may do so. The map and the slots must be known
    /// before: a slot that was deleted may be that of an owner. The first announcement names the
    /// map, so that nothing delays the work.
    fn choose_slot(&mut self, now: Moment) {
        let knows_all = self.map.map().is_some() && self.slots.all_read_at().is_some();
        if self.stage != Stage::Running || now < self.guarded || !knows_all {
            self.standby = None;
            return;
        }
        let has_slot = self.own().is_some();
        self.standby = self.apart(has_slot, now);
        if has_slot {
            // Calls may run that began by an earlier map: that one is announced until they have ended.
            if let Some(claim) = self.claim.as_mut().filter(|claim| claim.state.until().is_some())
                && self.standby.is_some()
                && !self.runs
            {
                claim.state.step_down(now);
            }
            return;
        }
        if self.standby.is_some() {
            self.claim = None;
            return;
        }
        let except = match &self.claim {
            Some(claim) if claim.state.holder().is_some() => Some(claim.slot),
            Some(_) => return,
            None => None,
        };
        match self.slots.free(except, &self.map) {
            Some(slot) => self.campaign_for(slot, now),
            None if self.slots.are_full(now) => self.standby = Some(Standby::Full),
            None => {}
        }
    }

    /// Handles the result of a read of the own slot that was sent at `sent`; the error is that it
    /// failed.
    pub(crate) fn handle_session_read(
        &mut self,
        slot: u8,
        sent: Duration,
        now: Duration,
        found: Result<Option<SlotRecord>, ()>,
    ) {
        if let Ok(Some(found)) = &found
            && self.slots.has_gone_back(slot, sent, found)
        {
            return self.begin_again(now);
        }
        let Some(claim) = self.claim.as_mut().filter(|claim| claim.slot == slot) else { return };
        match found {
            Ok(found) => {
                claim.state.handle_read(sent, now, found.as_ref().map(|found| found.record.clone()));
                claim.absent = found.is_none().then_some(sent);
                self.slots.observe(slot, Some(sent), now, found, &self.map);
                self.changed = true;
                self.note_announced(now);
            }
            Err(()) => claim.state.handle_read_failure(sent, now),
        }
    }

    /// Handles the result of the write of the own slot that was sent at `sent`.
    pub(crate) fn handle_session_write(
        &mut self,
        slot: u8,
        sent: Duration,
        now: Duration,
        answer: WriteResult<SlotRecord>,
    ) {
        let Some(claim) = self.claim.as_mut().filter(|claim| claim.slot == slot) else { return };
        match answer {
            WriteResult::Committed(stored) => {
                claim.state.handle_write_result(now, WriteResult::Committed(stored.record.clone()));
                if self.mutant == Some(Mutant::FromTheAnswer) {
                    claim.bonus = now.saturating_sub(sent);
                }
                self.slots.observe(slot, None, now, Some(stored), &self.map);
            }
            WriteResult::Conflict => claim.state.handle_write_result(now, WriteResult::Conflict),
            WriteResult::Failed => claim.state.handle_write_result(now, WriteResult::Failed),
        }
        self.changed = true;
        self.note_announced(now);
    }

    /// Notes that the stored announcement of this session names a map. That map is read once more
    /// before the session works by it.
    fn note_announced(&mut self, now: Moment) {
        let Some((own, uid)) = self.own().zip(self.stored().and_then(|stored| stored.map.as_deref())) else { return };
        if self.announced.as_ref().is_none_or(|(session, announced, _)| (session, &**announced) != (&own, uid)) {
            self.announced = Some((own, uid.into(), now));
            self.map.read_next = now;
        }
    }

    /// The next request for the slots.
    pub(crate) fn next_slots(&mut self, now: Duration, wall: i64) -> SlotsStep {
        self.replan(now);
        if self.stage == Stage::Gone {
            return SlotsStep::Wait(Duration::MAX);
        }
        let own = self.own_slot();
        // A read that was sent before the map was known does not tell whether the sessions of its owners have ended.
        let is_new =
            self.map.seen_since().is_some_and(|since| self.slots.all_read_at().is_none_or(|read| read < since));
        let is_urgent = is_new || self.slots.must_read(own, now);
        if now < self.slots.pause {
            return SlotsStep::Wait(self.slots.pause);
        }
        let mut next = self.next_slots_read(now);
        // Those that are read often while something is awaited have times of their own.
        if is_urgent || now >= next || self.is_due(self.slots.not_before, now) {
            let reason = match is_urgent {
                true => ReadReason::All,
                false if self.awaiting.is_some() => ReadReason::News,
                false => ReadReason::Renewals,
            };
            let slots = self.slots.to_read(reason, own, now, &self.map);
            if !slots.is_empty() {
                return SlotsStep::Read(slots);
            }
            next = now + self.options.terms.retry;
            self.slots.not_before = next;
        }
        match self.slots.tombstone(own, now, wall) {
            Some((slot, write)) => SlotsStep::Tombstone(slot, write),
            None => SlotsStep::Wait(self.slots.next_expiry(now).map_or(next, |at| at.min(next))),
        }
    }

    /// Returns `true` if something is to be read that is due at `next`: soon, if the session is written now.
    fn is_due(&self, next: Moment, now: Moment) -> bool {
        now >= next || (self.written == Some(now) && now + self.options.terms.retry / 2 >= next)
    }

    /// The time between two reads of the same. It is at least that between two renewals of the session, so that they are
    /// sent together.
    fn read_interval(&self, now: Moment) -> Duration {
        self.slots.jittered(self.options.terms.retry, now).max(self.options.terms.retry)
    }

    /// When the slots are read, if nothing else is urgent: more often while a successor is awaited,
    /// which announces that it is ready, but not for longer than a lease; and while a session is late, which
    /// another replica may end first.
    fn next_slots_read(&self, now: Moment) -> Moment {
        let terms = &self.options.terms;
        let is_awaiting =
            self.awaiting.is_some_and(|since| now < since + terms.lease) || self.slots.are_late(self.own_slot(), now);
        let soon = self.slots.last_read_at().filter(|_| is_awaiting).map(|read| read + terms.retry / AWAITING_READS);
        soon.map_or(self.slots.not_before, |soon| soon.min(self.slots.not_before))
    }

    /// Handles the result of a read of slots that was sent at `sent`.
    pub(crate) fn handle_slots_read(
        &mut self,
        sent: Duration,
        now: Duration,
        found: Result<Vec<(u8, Option<SlotRecord>)>, ()>,
    ) {
        match found {
            Ok(found) => {
                self.slots.not_before = now + self.read_interval(now);
                for (slot, found) in found {
                    if found.as_ref().is_some_and(|found| self.slots.has_gone_back(slot, sent, found)) {
                        return self.begin_again(now);
                    }
                    self.slots.read(slot, sent, now);
                    self.changed |= self.slots.observe(slot, Some(sent), now, found, &self.map);
                }
            }
            Err(()) => self.slots.read_failed(now),
        }
    }

    /// Handles the result of a tombstone: whether or not it was committed, the slots are read.
    pub(crate) fn handle_tombstone(&mut self, now: Duration, is_unknown: bool) {
        self.slots.not_before = now;
        self.slots.pause = if is_unknown { now + self.options.terms.retry / 4 } else { now };
    }

    /// The slots to watch.
    pub(crate) fn to_watch(&self) -> Vec<u8> {
        self.own_slot().map(|own| self.slots.to_watch(own, &self.map)).unwrap_or_default()
    }

    /// Watches of these slots are open.
    pub(crate) fn watches(&mut self, slots: impl Iterator<Item = u8>) {
        self.slots.watched = slots.collect();
    }

    fn own_slot(&self) -> Option<u8> {
        self.claim.as_ref().map(|claim| claim.slot)
    }

    /// A watch shows a slot. Events may be late, and older than what is known.
    pub(crate) fn handle_slot_event(&mut self, slot: u8, now: Duration, found: SlotRecord) {
        self.changed |= self.slots.observe(slot, None, now, Some(found), &self.map);
    }

    /// The next request for the map.
    pub(crate) fn next_map(&mut self, now: Duration) -> MapStep {
        self.replan(now);
        if self.stage == Stage::Gone {
            return MapStep::Wait(Duration::MAX);
        }
        if now < self.map.not_before {
            return MapStep::Wait(self.map.not_before);
        }
        if self.map.must_read || self.is_due(self.map.read_next, now) {
            return MapStep::Read;
        }
        if let Some((write, given)) = self.proposal(now) {
            self.map.sent(&write, given);
            return MapStep::Write(write);
        }
        let guards = self.guarded_until(now).into_iter().chain([self.guarded]).filter(|guarded| *guarded > now);
        MapStep::Wait(guards.chain([self.map.read_next, self.look_again]).min().unwrap_or(now))
    }

    /// Handles the result of a read of the map that was sent at `sent`; the error is that it
    /// failed.
    pub(crate) fn handle_map_read(&mut self, sent: Duration, now: Duration, found: Result<Option<MapRecord>, ()>) {
        let pause = self.slots.jittered(self.options.terms.retry / 4, now);
        let Ok(found) = found else {
            self.map.not_before = now + pause;
            return;
        };
        if found.as_ref().is_some_and(|found| self.map.has_gone_back(sent, found)) {
            return self.begin_again(now);
        }
        let news = self.map.handle_read(sent, now, found);
        self.changed |= news;
        // Its first announcement may have been stored after the read was sent.
        let is_late = self.announced.as_ref().is_some_and(|(.., since)| sent < *since);
        self.map.read_next = if is_late { now } else { now + self.read_interval(now) };
        // A write failed and nothing has changed: it is not repeated at once.
        self.map.not_before = if self.map.is_unsure && !news { now + pause } else { now };
        self.map.is_unsure = false;
    }

    /// Handles the result of the write of the map that was sent at `sent`. There is no stored map if the Lease was
    /// returned.
    pub(crate) fn handle_map_write(&mut self, sent: Duration, now: Duration, answer: WriteResult<Option<MapRecord>>) {
        self.map.not_before = now;
        self.changed = true;
        match answer {
            WriteResult::Committed(record) => {
                self.map.committed(sent, now, record);
            }
            WriteResult::Conflict => {}
            WriteResult::Failed => self.map.failed(),
        }
    }

    /// A watch shows that the map was deleted.
    pub(crate) fn handle_map_deleted(&mut self, now: Duration) {
        self.map.read_next = now;
    }

    /// A watch shows the map. Events may be late, and older than what is known.
    pub(crate) fn handle_map_event(&mut self, now: Duration, found: MapRecord) {
        self.changed |= self.map.learn(now, found);
    }
}

#[cfg(test)]
mod tests {
    use kooper_base::leader::lease_state::Terms;
    use kooper_base::leader::scope::WatchedNamespaces;

    use std::sync::Arc;

    use super::*;
    use crate::hash::{ShardCount, ShardField};
    use crate::map::ShardMap;
    use crate::member::Options;

    #[test]
    fn a_map_that_is_returned_before_a_replica_has_a_session_is_not_read_again_and_again() {
        let seconds = Duration::from_secs;
        let (scope, count) = (WatchedNamespaces::of(&[]), ShardCount::try_from(4).expect("a power of two"));
        let mut member = Member::new(
            Options {
                identity: "a".into(),
                mark: "shop/shops/shards".into(),
                scope: scope.clone(),
                slots: 2,
                count,
                by: ShardField::Uid,
                terms: Terms::new(seconds(15), seconds(10), seconds(2)),
            },
            seconds(1000),
        );
        let map = ShardMap::new(ShardField::Uid, count, 0);
        let (uid, version, map, overrides) = ("1".into(), "7".into(), Arc::new(map), Arc::default());
        let map = MapRecord { uid, version, map, overrides, scope: Some(scope) };
        let now = seconds(1001);
        assert!(matches!(member.next_map(now), MapStep::Read));
        member.handle_map_read(now, now, Ok(Some(map)));
        let now = seconds(1002);
        let SlotsStep::Read(slots) = member.next_slots(now, 0) else { panic!("it does not know the slots") };
        member.handle_slots_read(now, now, Ok(slots.into_iter().map(|slot| (slot, None)).collect()));
        let now = seconds(1003);
        let SessionStep::Read(slot) = member.next_session(now, 0) else { panic!("it does not choose a slot") };
        member.handle_session_read(slot, now, now, Ok(None));
        assert!(matches!(member.next_session(now, 0), SessionStep::Wait(_)), "the map may have a newer owner");
        assert!(matches!(member.next_map(now), MapStep::Read));
        member.handle_map_read(now, now, Ok(None));
        assert!(matches!(member.next_session(now, 0), SessionStep::Wait(_)));
        assert!(matches!(member.next_map(now), MapStep::Write(_)), "it creates another one");
    }
}
