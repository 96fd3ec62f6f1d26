//! The writes of a key's calls, until their events have been received.
//!
//! A handler that runs before the cache has its last write would act on an old
//! state. And the event of its own write should not shorten a back-off, however
//! late it is.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::EntryId;
use crate::object::key::ObjectKey;
use crate::object::{Object, older};
use crate::watch::cache_id::CacheId;

/// The longest time for which a key waits for a cache.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time for which the event of a write is expected. A watch that is
/// silent for half of it is replaced by a list.
const EXPECTED: Duration = Duration::from_secs(600);

/// The most writes of one key that are tracked. Beyond it those that a cache has
/// are dropped first, then the oldest ones.
const LIMIT: usize = 16_384;

/// A cache of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CacheRef {
    /// The cache of the objects that it handles.
    Primary,
    /// A cache of its readers or related kinds.
    Other(CacheId),
}

pub(crate) type CachedKey = (CacheRef, ObjectKey);

/// A version of an object: the response to a write, or the content of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revision {
    pub(crate) object: CachedKey,
    pub(crate) uid: String,
    /// `None` if the object was deleted.
    pub(crate) version: Option<String>,
}

/// Whose write an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteOrigin {
    /// The runtime's, such as that of a finalizer. The event does not queue the
    /// key.
    Silent,
    /// One by the key's own call. The event queues the key, but does not shorten a
    /// back-off.
    Own,
    /// Any other.
    Foreign,
}

/// The tracked writes of one key; most keys have none.
#[derive(Debug, Default)]
pub(super) struct TrackedWrites(Option<Box<Tracked>>);

/// Writes by their object.
#[derive(Debug, Default)]
struct Tracked {
    objects: HashMap<CachedKey, VecDeque<TrackedWrite>>,
    /// The number of all writes.
    count: usize,
    /// The number of those that are awaited.
    awaited: usize,
}

#[derive(Debug)]
struct TrackedWrite {
    write: Revision,
    at: Instant,
    /// The classification of its event.
    origin: WriteOrigin,
    stage: Stage,
}

/// The progress of a write on its way into the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The key waits until the cache has it.
    Awaited,
    /// The cache does not have it, and the key does not wait any longer.
    Late,
    /// The cache has this version or a newer one. Its event may still be on its way
    /// to the queue.
    Shown,
}

/// The events of writes that are expected, by their objects: by which keys, and until when.
#[derive(Debug, Default)]
pub(super) struct ExpectedEvents {
    objects: HashMap<CachedKey, Vec<EntryId>>,
    /// When keys stop waiting.
    waits: VecDeque<Expiry>,
    /// When the events of writes that are late are no longer expected.
    late: VecDeque<Expiry>,
}

/// The end of a key's wait for an object.
#[derive(Debug)]
pub(super) struct Expiry {
    at: Instant,
    pub(super) id: EntryId,
    pub(super) object: CachedKey,
    /// `true` for the second expiry, after which the event is no longer expected.
    is_last: bool,
}

impl Revision {
    /// The version that an event reports; `gone` is whether the object was deleted.
    pub(crate) fn event(cache: CacheRef, object: &Object, gone: bool) -> Self {
        let version = (!gone).then(|| object.version().to_owned());
        Self { object: (cache, object.key().clone()), uid: object.uid().to_owned(), version }
    }

    /// Returns `true` if it reports that an object was deleted that the controller handles.
    pub(super) fn is_deletion_of_handled(&self) -> bool {
        self.object.0 == CacheRef::Primary && self.version.is_none()
    }

    /// Returns `true` if a cache that has processed the event has the write.
    pub(super) fn is_shown_by(&self, event: &Self) -> bool {
        if self.object != event.object {
            return false;
        }
        match (&self.version, &event.version) {
            (_, None) => self.uid == event.uid,
            (None, Some(_)) => self.uid != event.uid,
            (Some(version), Some(now)) => !older(now, version),
        }
    }
}

impl TrackedWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Tracks a write by its response.
    pub(super) fn add(&mut self, write: Revision, origin: WriteOrigin, now: Instant) {
        let tracked = self.0.get_or_insert_default();
        // The response to a write that changes nothing has the version of an earlier one.
        let known =
            tracked.objects.get_mut(&write.object).and_then(|all| all.iter_mut().rfind(|one| one.write == write));
        if let Some(known) = known {
            known.origin = known.origin.min(origin);
            return;
        }
        if tracked.count >= LIMIT {
            tracked.drop_one();
        }
        let all = tracked.objects.entry(write.object.clone()).or_default();
        all.push_back(TrackedWrite { write, at: now, origin, stage: Stage::Awaited });
        tracked.count += 1;
        tracked.awaited += 1;
    }

    /// Classifies an event by the tracked writes.
    pub(super) fn classify(&self, event: &Revision) -> WriteOrigin {
        // The deletion of a handled object always queues its key, even if a call deleted it.
        if event.is_deletion_of_handled() {
            return WriteOrigin::Foreign;
        }
        let all = self.0.as_ref().and_then(|tracked| tracked.objects.get(&event.object));
        match all.and_then(|all| all.iter().find(|one| one.write == *event)) {
            Some(tracked) if tracked.origin == WriteOrigin::Silent && event.version.is_none() => WriteOrigin::Own,
            Some(tracked) => tracked.origin,
            None => WriteOrigin::Foreign,
        }
    }

    /// Records that a cache has processed an event, which may still be on its way to
    /// the queue.
    pub(super) fn cache_reached(&mut self, event: &Revision) {
        self.edit(&event.object, |all| {
            all.iter_mut().filter(|one| one.write.is_shown_by(event)).for_each(|one| one.stage = Stage::Shown);
        });
    }

    /// Drops the writes that an event has shown: no earlier one follows it.
    pub(super) fn event_delivered(&mut self, event: &Revision) {
        self.edit(&event.object, |all| all.retain(|one| !one.write.is_shown_by(event)));
    }

    /// Returns `true` if the key waits for a cache that lacks a write.
    pub(super) fn is_awaiting(&self) -> bool {
        self.0.as_ref().is_some_and(|tracked| tracked.awaited > 0)
    }

    /// Returns `true` if an event of this object is expected.
    pub(super) fn tracks(&self, object: &CachedKey) -> bool {
        self.0.as_ref().is_some_and(|tracked| tracked.objects.contains_key(object))
    }

    /// Returns `true` if the cache lacks a write to the handled object, for which its key has waited long enough.
    pub(super) fn are_late(&self, key: &ObjectKey) -> bool {
        let all = self.0.as_ref().and_then(|tracked| tracked.objects.get(&(CacheRef::Primary, key.clone())));
        all.is_some_and(|all| all.iter().any(|one| one.stage == Stage::Late))
    }

    /// Stops waiting for the writes of an object that are too old. Those that the cache
    /// does not have are dropped much later, because their event would shorten a back-off.
    pub(super) fn expire(&mut self, object: &CachedKey, now: Instant) {
        self.edit(object, |all| {
            all.retain_mut(|one| {
                if one.stage == Stage::Awaited && now >= one.at + TIMEOUT {
                    one.stage = Stage::Late;
                }
                let expected = if one.stage == Stage::Shown { TIMEOUT } else { TIMEOUT + EXPECTED };
                now < one.at + expected
            });
        });
    }

    fn edit(&mut self, object: &CachedKey, change: impl FnOnce(&mut VecDeque<TrackedWrite>)) {
        let Some(tracked) = &mut self.0 else { return };
        let Some(all) = tracked.objects.get_mut(object) else { return };
        let awaited = |all: &VecDeque<TrackedWrite>| all.iter().filter(|one| one.stage == Stage::Awaited).count();
        let before = (all.len(), awaited(all));
        change(all);
        let after = (all.len(), awaited(all));
        tracked.count -= before.0 - after.0;
        tracked.awaited -= before.1 - after.1;
        if after.0 == 0 {
            tracked.objects.remove(object);
        }
        if tracked.count == 0 {
            self.0 = None;
        }
    }
}

impl Tracked {
    /// Drops a write that a cache has, or else the oldest one.
    fn drop_one(&mut self) {
        let all = self.objects.iter().flat_map(|(place, all)| {
            all.iter().enumerate().map(move |(index, one)| ((one.stage != Stage::Shown, one.at), place, index))
        });
        let Some((place, index)) = all.min_by_key(|(order, ..)| *order).map(|(_, place, index)| (place.clone(), index))
        else {
            return;
        };
        let Some(all) = self.objects.get_mut(&place) else { return };
        let dropped = all.remove(index);
        if all.is_empty() {
            self.objects.remove(&place);
        }
        self.count -= 1;
        self.awaited -= usize::from(dropped.is_some_and(|one| one.stage == Stage::Awaited));
    }
}

impl ExpectedEvents {
    /// Records that a key expects the event of a write.
    pub(super) fn add(&mut self, id: EntryId, write: &Revision, now: Instant) {
        let ids = self.objects.entry(write.object.clone()).or_default();
        if !ids.contains(&id) {
            ids.push(id);
        }
        self.waits.push_back(Expiry { at: now + TIMEOUT, id, object: write.object.clone(), is_last: false });
    }

    /// Returns `true` if no key expects an event, which is the usual case.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The keys that expect an event of an object.
    pub(super) fn keys_waiting_for(&self, object: &CachedKey) -> Vec<EntryId> {
        self.objects.get(object).cloned().unwrap_or_default()
    }

    /// Records that a key does not expect an event of an object any longer.
    pub(super) fn remove(&mut self, id: EntryId, object: &CachedKey) {
        if let Some(ids) = self.objects.get_mut(object) {
            ids.retain(|one| *one != id);
            if ids.is_empty() {
                self.objects.remove(object);
            }
        }
        if self.objects.is_empty() {
            self.objects = HashMap::new();
        }
    }

    /// Takes the next wait that has expired.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<Expiry> {
        let queues = [&mut self.waits, &mut self.late];
        let queue = queues.into_iter().find(|queue| queue.front().is_some_and(|front| front.at <= now))?;
        let expiry = queue.pop_front();
        if queue.is_empty() {
            *queue = VecDeque::new();
        }
        expiry
    }

    /// Expects the events of writes whose wait has expired for some more time.
    pub(super) fn extend(&mut self, expiry: Expiry) {
        if !expiry.is_last {
            self.late.push_back(Expiry { at: expiry.at + EXPECTED, is_last: true, ..expiry });
        }
    }

    /// When the next wait expires. Unless a key is held back by one, those that expire meanwhile only free memory, so
    /// many do it together: a timer for each write would wake a thread as often as the writes themselves.
    pub(super) fn next(&self, holds_back: bool) -> Option<Instant> {
        let ends = self.waits.front().zip(self.waits.back());
        let wait = ends.map(|(first, last)| if holds_back { first.at } else { last.at.min(first.at + TIMEOUT) });
        wait.into_iter().chain(self.late.front().map(|first| first.at)).min()
    }
}
