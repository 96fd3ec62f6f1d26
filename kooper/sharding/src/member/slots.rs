//! The slots as this replica has observed them, and which sessions have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kooper_base::leader::lease_state::{LeaseWrite, Terms};
use kooper_base::leader::scope::WatchedNamespaces;
use kooper_runtime::internal::object::older;

use super::map_view::MapView;
use super::{Moment, Standby};
use crate::hash::fraction;
use crate::mutant::Mutant;
use crate::session::{Announcement, Session, SlotRecord};

/// So many of the free slots are acquired next: they are watched, or read as often as those in use.
const SPARE: usize = 3;

/// Each session is watched by so many others, which learn at once that it was renewed or has ended.
const WATCHED: usize = 3;

/// All slots are read once in so many retry periods: a replica that was ended may come back to its slot, and a watch may
/// be silent because it is cut off.
const WHOLE_READ: u32 = 10;

#[derive(Debug, Clone)]
struct Slot {
    record: Option<SlotRecord>,
    /// When the record was last received.
    found: Moment,
    /// When a change of the record was last observed.
    changed: Moment,
    /// When the last successful read of it was sent; `None` before the first one.
    read_at: Option<Moment>,
    /// The time for which its session lasts without a renewal: the own one, or a longer one that its last record stated.
    lease: Duration,
    /// The last read has found an older record.
    was_older: bool,
}

impl Slot {
    /// Returns `true` if what is known is newer than a record.
    fn is_newer(&self, found: &SlotRecord) -> bool {
        self.record.as_ref().is_some_and(|known| older(&found.record.version, &known.record.version))
    }
}

/// The reason for which slots are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadReason {
    /// Sessions may have been renewed.
    Renewals,
    /// A successor is awaited, which may have news.
    News,
    /// All of them must be known.
    All,
}

/// All slots.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    terms: Terms,
    slots: Vec<Slot>,
    /// The slots with an open watch.
    pub(super) watched: BTreeSet<u8>,
    /// No read is sent before this.
    pub(super) not_before: Moment,
    /// No request is sent before this, because one has failed.
    pub(super) pause: Moment,
    /// Owners in the map whose sessions have ended.
    ended: BTreeSet<Session>,
    /// Owners in the map whose slots do not exist, and since when.
    missing: BTreeMap<Session, Moment>,
    random: u64,
    mutant: Option<Mutant>,
}

impl Slots {
    pub(super) fn new(count: u8, terms: Terms, random: u64, now: Moment, mutant: Option<Mutant>) -> Self {
        let lease = terms.lease;
        let slot = Slot { record: None, found: now, changed: now, read_at: None, lease, was_older: false };
        let slots = vec![slot; count.into()];
        let (ended, missing) = (BTreeSet::new(), BTreeMap::new());
        let watched = BTreeSet::new();
        Self { terms, slots, watched, not_before: now, pause: now, ended, missing, random, mutant }
    }

    pub(super) fn get(&self, slot: u8) -> Option<&SlotRecord> {
        self.slots.get(usize::from(slot))?.record.as_ref()
    }

    /// Returns `true` if two reads in a row of a slot have found an older record, as those of the map.
    pub(super) fn has_gone_back(&mut self, slot: u8, sent: Moment, found: &SlotRecord) -> bool {
        self.slots.get_mut(usize::from(slot)).is_some_and(|known| {
            let is_older = known.found < sent && known.is_newer(found);
            std::mem::replace(&mut known.was_older, is_older) && is_older
        })
    }

    fn indexed(&self) -> impl Iterator<Item = (u8, &Slot)> {
        (0..).zip(&self.slots)
    }

    /// Learns the record of a slot: from a read that was sent at that time, or from a watch or a
    /// write of its holder. Returns `true` if it changes more than the time of a renewal.
    pub(super) fn observe(
        &mut self,
        slot: u8,
        sent: Option<Moment>,
        now: Moment,
        found: Option<SlotRecord>,
        map: &MapView,
    ) -> bool {
        let Some(known) = self.slots.get_mut(usize::from(slot)) else { return false };
        if found.as_ref().is_some_and(|found| known.is_newer(found)) {
            return false;
        }
        // Nor is a read that was sent before the slot was found, and did not find it: such as that of the own slot, while
        // it was acquired.
        if known.record.is_some() && found.is_none() && sent.is_some_and(|sent| sent < known.found) {
            return false;
        }
        let (before, after) = (known.record.as_ref(), found.as_ref());
        let renewed = before.zip(after).is_some_and(|(before, after)| before.record.is_same_term(&after.record));
        let held = |record: Option<&SlotRecord>| record.and_then(|record| record.session(slot));
        let (old, new) = (held(before), held(after));
        let announced = |record: Option<&SlotRecord>| record.and_then(|record| record.announcement.clone());
        let mut matters = old != new || announced(before) != announced(after) || before.is_some() != after.is_some();
        // A slot that was deleted says nothing about its session, nor does one whose holder was
        // removed by hand.
        let is_replaced = new.is_some() || after.is_some_and(|after| after.record.is_released());
        if let Some(old) = old
            && is_replaced
            && new.as_ref() != Some(&old)
        {
            self.ended.insert(old);
        }
        if let Some(sent) = sent {
            // A read from before the owner was known may be older than the owner's session.
            for owner in map.named_before(sent).filter(|owner| owner.slot == slot) {
                if after.is_none() {
                    self.missing.entry(owner.clone()).or_insert(now);
                } else if is_replaced && new.as_ref() != Some(owner) {
                    matters |= self.ended.insert(owner.clone());
                }
            }
        }
        if after.is_some() {
            self.missing.retain(|owner, _| owner.slot != slot);
        }
        if !renewed {
            known.changed = now;
        }
        if let Some(found) = &found {
            known.found = now;
            known.lease = found.record.lease.unwrap_or_default().max(self.terms.lease);
        }
        known.record = found;
        matters
    }

    /// When the oldest of the last reads of each slot was sent; `None` before all were read.
    pub(super) fn all_read_at(&self) -> Option<Moment> {
        self.slots.iter().map(|slot| slot.read_at).min().flatten()
    }

    /// When the last successful read was sent.
    pub(super) fn last_read_at(&self) -> Option<Moment> {
        self.slots.iter().filter_map(|slot| slot.read_at).max()
    }

    /// The slots to read: those of others whose sessions may work, unless a watch has just shown a renewal, and those that
    /// are acquired next, unless they are watched; all of them from time to time.
    pub(super) fn to_read(&self, reason: ReadReason, own: Option<u8>, now: Moment, map: &MapView) -> Vec<u8> {
        let whole = self.terms.retry * WHOLE_READ;
        let is_whole = reason == ReadReason::All || self.all_read_at().is_none_or(|read| now >= read + whole);
        let spare: Vec<u8> = self.spare(map).filter(|slot| !self.watched.contains(slot)).collect();
        let session = |slot: u8| self.get(slot).and_then(|record| record.session(slot));
        // Also in the own slot: whether that session has ended is known from a read only.
        let is_anothers =
            |slot: u8| map.owners().any(|owner| owner.slot == slot && Some(owner) != session(slot).as_ref());
        let is_renewed = |index: u8, slot: &Slot| {
            let is_recent = now < slot.changed + self.terms.retry * 3 / 2;
            reason == ReadReason::Renewals && is_recent && self.watched.contains(&index)
        };
        let is_used = |index: u8, slot: &Slot| {
            is_anothers(index) || (Some(index) != own && !self.is_free(index, map) && !is_renewed(index, slot))
        };
        let is_needed = |index: u8, slot: &Slot| is_whole || spare.contains(&index) || is_used(index, slot);
        let needed = self.indexed().filter(|(index, slot)| is_needed(*index, slot));
        let mut needed: Vec<(Option<Moment>, u8)> = needed.map(|(index, slot)| (slot.read_at, index)).collect();
        // If there is no time for all of them, the others come first the next time.
        needed.sort_unstable();
        needed.into_iter().map(|(_, slot)| slot).collect()
    }

    /// The free slots that are acquired next.
    fn spare(&self, map: &MapView) -> impl Iterator<Item = u8> {
        self.all_free(map).take(SPARE)
    }

    /// The slots to watch: those of the sessions that follow the own slot, and those that are acquired next.
    pub(super) fn to_watch(&self, own: u8, map: &MapView) -> Vec<u8> {
        let mut others: Vec<u8> = self.used().map(|(slot, _)| slot).filter(|slot| *slot != own).collect();
        others.sort_unstable_by_key(|slot| slot.wrapping_sub(own));
        others.truncate(WATCHED);
        others.extend(self.spare(map));
        others
    }

    /// Returns `true` if another session was not renewed for so long that its token is not valid any more.
    pub(super) fn are_late(&self, own: Option<u8>, now: Moment) -> bool {
        self.used().any(|(index, slot)| Some(index) != own && now >= slot.changed + slot.lease / 3 * 2)
    }

    /// The slots that are not free: each has a session, which may have expired.
    fn used(&self) -> impl Iterator<Item = (u8, &Slot)> {
        self.indexed().filter(|(_, slot)| slot.record.as_ref().is_some_and(|slot| !slot.record.is_released()))
    }

    /// A read of a slot succeeded. If the one before and the last event of its watch were long ago, no session was observed in
    /// the meantime: after an outage of the API server no session is treated as expired before it had
    /// a lease to be renewed.
    pub(super) fn read(&mut self, slot: u8, sent: Moment, now: Moment) {
        let gap = (self.terms.lease / 2).max(self.terms.retry * 3);
        let Some(known) = self.slots.get_mut(usize::from(slot)) else { return };
        if known.read_at.is_some_and(|last| sent.saturating_sub(last.max(known.found)) > gap) {
            known.changed = now;
            self.missing.iter_mut().filter(|(owner, _)| owner.slot == slot).for_each(|(_, since)| *since = now);
        }
        known.read_at = Some(sent);
    }

    pub(super) fn read_failed(&mut self, now: Moment) {
        self.pause = now + self.jittered(self.terms.retry / 2, now);
    }

    /// Forgets what concerns sessions that own nothing any more.
    pub(super) fn prune(&mut self, map: &MapView) {
        self.ended.retain(|owner| map.names(owner));
        self.missing.retain(|owner, _| map.names(owner));
    }

    /// Returns `true` if an owner's session was released, or another replica has ended it. That no
    /// renewal was observed is not enough: one may be on its way.
    pub(super) fn is_ended(&self, owner: &Session, now: Moment) -> bool {
        let expired = || self.slots.get(usize::from(owner.slot)).is_some_and(|slot| now >= self.expires(slot));
        self.ended.contains(owner)
            || (self.mutant == Some(Mutant::NoTombstone) && expired())
            || (self.mutant == Some(Mutant::NoGuardOfSessions) && self.missing.contains_key(owner))
    }

    /// The sessions that may own shards with the objects of these namespaces, with their announcements, in the order of
    /// their slots.
    pub(super) fn live(
        &self,
        scope: &WatchedNamespaces,
        now: Moment,
    ) -> impl Iterator<Item = (Session, &Announcement)> {
        self.unexpired(now).filter_map(move |(session, record)| Some((session, announcement_of(record, scope)?)))
    }

    /// Their announcements, and those of sessions that have expired: one that has not ended may be renewed, as after an
    /// outage of the API server.
    pub(super) fn announcements(&self, scope: &WatchedNamespaces) -> impl Iterator<Item = &Announcement> {
        self.used().filter_map(move |(_, slot)| announcement_of(slot.record.as_ref()?, scope))
    }

    /// The sessions that have not expired, in the order of their slots.
    pub(super) fn unexpired(&self, now: Moment) -> impl Iterator<Item = (Session, &SlotRecord)> {
        self.indexed().filter_map(move |(index, slot)| {
            let record = slot.record.as_ref().filter(|_| now < self.expires(slot))?;
            Some((record.session(index)?, record))
        })
    }

    /// A session of a replica that watches certain namespaces.
    pub(super) fn apart(&self, is_apart: impl Fn(&WatchedNamespaces) -> bool, now: Moment) -> Option<Standby> {
        self.unexpired(now).find_map(|(session, record)| {
            let scope = record.record.scope.clone().filter(&is_apart)?;
            Some(Standby::Apart { holder: session.identity, scope })
        })
    }

    /// Returns `true` if each slot has a session that has not expired.
    pub(super) fn are_full(&self, now: Moment) -> bool {
        self.unexpired(now).count() == self.slots.len()
    }

    /// Returns `true` if another session may work by another map.
    pub(super) fn knows_another_map(&self, me: &Session, map: &Arc<str>) -> bool {
        self.indexed().any(|(index, slot)| {
            let record = slot.record.as_ref();
            let session = record.and_then(|record| record.session(index)).filter(|session| session != me);
            let announced = record.and_then(|record| record.announcement.as_ref());
            session.is_some()
                && announced.is_none_or(|announced| announced.map.as_deref().is_some_and(|known| *known != **map))
        })
    }

    /// A slot that can be acquired: one of the first few, so that others read it, and not always the same one, so that
    /// replicas which start together seldom try again.
    pub(super) fn free(&self, except: Option<u8>, map: &MapView) -> Option<u8> {
        let free: Vec<u8> = self.all_free(map).filter(|slot| Some(*slot) != except).take(SPARE).collect();
        let chosen = self.random.checked_rem(free.len() as u64)?;
        free.get(chosen as usize).copied()
    }

    fn all_free(&self, map: &MapView) -> impl Iterator<Item = u8> {
        self.indexed().map(|(slot, _)| slot).filter(|slot| self.is_free(*slot, map))
    }

    /// Returns `true` if a slot is released, or was never used. One that was deleted may be that of
    /// an owner which is still working.
    fn is_free(&self, slot: u8, map: &MapView) -> bool {
        match self.get(slot) {
            Some(record) => record.record.is_released(),
            None => !self.is_deleted(slot, map, |_| true),
        }
    }

    /// Returns `true` if a slot does not exist, and may be that of an owner with such an identity which is still working.
    pub(super) fn is_deleted(&self, slot: u8, map: &MapView, is_one: impl Fn(&str) -> bool) -> bool {
        let works = |owner: &Session| owner.slot == slot && !self.ended.contains(owner) && is_one(&owner.identity);
        self.get(slot).is_none() && map.owners().any(works)
    }

    /// When the session in a slot expires, with some jitter so that replicas do not write at the
    /// same time.
    fn expires(&self, slot: &Slot) -> Moment {
        self.patient(slot.lease, slot.changed)
    }

    /// The longest lease of all slots: replicas of a roll-out may have different ones.
    pub(super) fn longest_lease(&self) -> Duration {
        self.slots.iter().map(|slot| slot.lease).max().unwrap_or(self.terms.lease)
    }

    /// When a session whose slot does not exist since then may be ended.
    fn unguarded(&self, owner: &Session, since: Moment) -> Moment {
        let lease = self.slots.get(usize::from(owner.slot)).map_or(self.terms.lease, |slot| slot.lease);
        self.patient(lease, since)
    }

    fn patient(&self, lease: Duration, since: Moment) -> Moment {
        let lease = if self.mutant == Some(Mutant::HalfTheWait) { lease / 2 } else { lease };
        since + lease + self.terms.retry.mul_f64(fraction(self.random ^ since.as_secs()) / 8.0)
    }

    /// The next moment at which a session expires or is no longer guarded.
    pub(super) fn next_expiry(&self, now: Moment) -> Option<Moment> {
        let expiries = self.used().map(|(_, slot)| self.expires(slot));
        let guards = self.missing.iter().map(|(owner, since)| self.unguarded(owner, *since));
        expiries.chain(guards).filter(|at| *at > now).min()
    }

    /// Returns `true` if an expired session must be observed once more before it is ended.
    pub(super) fn must_read(&self, own: Option<u8>, now: Moment) -> bool {
        self.doomed(own, now).is_some_and(|(slot, since)| !self.is_read_since(slot, since))
    }

    /// Ends a session that was not renewed for a whole observed lease, or whose slot was deleted
    /// that long ago.
    pub(super) fn tombstone(&mut self, own: Option<u8>, now: Moment, wall: i64) -> Option<(u8, LeaseWrite)> {
        let (slot, since) = self.doomed(own, now)?;
        if !self.is_read_since(slot, since) {
            return None;
        }
        let record = self.get(slot).map(|slot| &slot.record);
        let write = LeaseWrite {
            base: record.map(|record| Arc::clone(&record.version)),
            holder: "".into(),
            seconds: 1,
            acquired: record.and_then(|record| record.acquired).unwrap_or(wall),
            renewed: wall,
            transitions: record.map_or(0, |record| record.transitions),
        };
        Some((slot, write))
    }

    fn is_read_since(&self, slot: u8, since: Moment) -> bool {
        self.slots.get(usize::from(slot)).and_then(|slot| slot.read_at).is_some_and(|read| read >= since)
    }

    /// A slot with a session to end, and since when it is.
    fn doomed(&self, own: Option<u8>, now: Moment) -> Option<(u8, Moment)> {
        let expired = self.used().map(|(index, slot)| (index, self.expires(slot)));
        let guarded = self.missing.iter().map(|(owner, since)| (owner.slot, self.unguarded(owner, *since)));
        expired.chain(guarded).find(|(slot, since)| Some(*slot) != own && now >= *since)
    }

    pub(super) fn jittered(&self, pause: Duration, at: Moment) -> Duration {
        pause.mul_f64(0.8 + 0.4 * fraction(self.random ^ at.as_micros() as u64))
    }
}

/// The announcement of a session that may own shards with the objects of these namespaces.
fn announcement_of<'a>(record: &'a SlotRecord, scope: &WatchedNamespaces) -> Option<&'a Announcement> {
    let announcement = record.announcement.as_ref().filter(|announcement| !announcement.leaving)?;
    record.record.scope.as_ref().is_none_or(|other| other == scope).then_some(announcement)
}

#[cfg(test)]
mod tests {
    use kooper_base::leader::lease_state::Record;

    use super::*;

    const RETRY: Duration = Duration::from_secs(2);

    fn held(acquired: i64) -> SlotRecord {
        let write =
            LeaseWrite { base: None, holder: "other".into(), seconds: 15, acquired, renewed: acquired, transitions: 0 };
        SlotRecord { record: Record::stored(&write, &"mark".into(), "1".into()), announcement: None }
    }

    #[test]
    fn the_slots_in_use_and_a_few_free_ones_are_read_and_all_of_them_from_time_to_time() {
        let terms = Terms::new(Duration::from_secs(15), Duration::from_secs(10), RETRY);
        let (mut slots, map) = (Slots::new(16, terms, 7, Moment::ZERO, None), MapView::new(Moment::ZERO, None));
        let all: Vec<u8> = (0..16).collect();
        assert_eq!(slots.to_read(ReadReason::Renewals, None, Moment::ZERO, &map), all, "none was read yet");
        all.iter().for_each(|slot| slots.read(*slot, Moment::ZERO, Moment::ZERO));
        slots.observe(1, Some(Moment::ZERO), Moment::ZERO, Some(held(1)), &map);
        slots.observe(9, Some(Moment::ZERO), Moment::ZERO, Some(held(2)), &map);
        assert_eq!(slots.to_read(ReadReason::Renewals, Some(9), RETRY, &map), [0, 1, 2, 3], "not the own one");
        slots.watched.extend([0, 1, 2]);
        assert_eq!(
            slots.to_read(ReadReason::Renewals, None, RETRY, &map),
            [3, 9],
            "neither free ones nor renewed ones that are watched"
        );
        assert_eq!(slots.to_read(ReadReason::News, None, RETRY, &map), [1, 3, 9]);
        assert_eq!(slots.to_read(ReadReason::Renewals, None, RETRY * 2, &map), [1, 3, 9], "the watch may be cut off");
        assert!((0..8).filter_map(|random| Slots { random, ..slots.clone() }.free(None, &map)).all(|slot| slot < 4));
        assert_eq!(slots.to_read(ReadReason::All, None, RETRY, &map), all);
        assert_eq!(slots.to_watch(9, &map), [1, 0, 2, 3], "one other session, and the first free ones");
        for slot in [4, 12, 14] {
            slots.observe(slot, Some(Moment::ZERO), Moment::ZERO, Some(held(3)), &map);
        }
        assert_eq!(slots.to_watch(9, &map)[..3], [12, 14, 1], "those that follow, and then from the first one");
        slots.read(1, RETRY * 9, RETRY * 9);
        let needed = slots.to_read(ReadReason::Renewals, None, RETRY * 10, &map);
        assert_eq!(needed.len(), all.len(), "the others were read ten retry periods ago");
        assert_eq!(needed.last(), Some(&1), "they come first: there may be no time for all of them");
    }

    #[test]
    fn a_session_of_other_namespaces_is_apart_and_slots_are_full_while_all_sessions_live() {
        let terms = Terms::new(Duration::from_secs(15), Duration::from_secs(10), RETRY);
        let (mut slots, map) = (Slots::new(2, terms, 7, Moment::ZERO, None), MapView::new(Moment::ZERO, None));
        let (own, other) = ["a", "b"].map(|name| WatchedNamespaces::of(&[name.to_owned()])).into();
        let mut held = held(1);
        held.record.scope = Some(other.clone());
        slots.observe(0, None, Moment::ZERO, Some(held.clone()), &map);
        let apart = Standby::Apart { holder: "other".into(), scope: other.clone() };
        assert_eq!(slots.apart(|scope| *scope != own, RETRY), Some(apart));
        assert_eq!(slots.apart(|scope| *scope != other, RETRY), None);
        assert_eq!(slots.apart(|scope| *scope != own, terms.lease * 2), None, "it has expired");
        assert!(!slots.are_full(RETRY));
        slots.observe(1, None, RETRY, Some(held), &map);
        assert!(slots.are_full(RETRY) && !slots.are_full(terms.lease * 2));
    }
}
