//! The writes of a key's own calls, until the caches show them.

use tokio::time::Instant;

use super::QueueState;
use crate::object::key::ObjectKey;
use crate::queue::EntryId;
use crate::queue::writes::{CachedKey, Revision, TrackedWrites, WriteOrigin};

impl QueueState {
    /// Records a write by a call of the key. Its response was this version of an
    /// object; `origin` classifies the event of that version.
    pub(in crate::queue) fn record_write(
        &mut self,
        key: &ObjectKey,
        write: &Revision,
        origin: WriteOrigin,
        now: Instant,
    ) {
        let id = self.entries.get_or_create(key);
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.writes.add(write.clone(), origin, now);
        if let Some(run) = &mut entry.run {
            // The cache has what was observed, also if the object was deleted since.
            if let Some(observed) = run.unknown.iter().find(|observed| write.is_shown_by(&observed.event)) {
                entry.writes.cache_reached(&observed.event);
            }
            run.record_write(write, origin);
        }
        self.expected.add(id, write, now);
    }

    /// Lets a key run again soon if its run succeeds, and began before the cache had an own write.
    pub(in crate::queue) fn repeat_if_behind(&mut self, key: &ObjectKey) {
        let entry = self.entries.find(key).and_then(|id| self.entries.get_mut(id));
        if let Some(run) = entry.and_then(|entry| entry.run.as_mut()) {
            run.is_repeated = run.is_behind;
        }
    }

    /// Returns `true` if any key expects the event of a write.
    pub(in crate::queue) fn expects_events(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Records that a cache has processed an event, which may still be on its way to
    /// the queue.
    pub(in crate::queue) fn cache_reached(&mut self, event: &Revision, now: Instant) {
        self.progress(event, TrackedWrites::cache_reached, now);
    }

    /// Records that a cache has processed an event, and that it was added for all of
    /// its keys.
    pub(in crate::queue) fn event_delivered(&mut self, event: &Revision, now: Instant) {
        self.progress(event, TrackedWrites::event_delivered, now);
    }

    fn progress(&mut self, event: &Revision, record: impl Fn(&mut TrackedWrites, &Revision), now: Instant) {
        for id in self.expected.keys_waiting_for(&event.object) {
            self.update_writes(id, &event.object, |writes| record(writes, event), now);
        }
    }

    /// Changes a key's writes of an object: it no longer waits if none is awaited. Returns `true` if the event of one is
    /// still expected.
    pub(super) fn update_writes(
        &mut self,
        id: EntryId,
        object: &CachedKey,
        update: impl FnOnce(&mut TrackedWrites),
        now: Instant,
    ) -> bool {
        let mut no_writes = TrackedWrites::default();
        let writes = self.entries.get_mut(id).map_or(&mut no_writes, |entry| &mut entry.writes);
        update(writes);
        let (waits, is_expected) = (writes.is_awaiting(), writes.tracks(object));
        if !is_expected {
            self.expected.remove(id, object);
        }
        if !waits {
            self.unpark(id, now);
        }
        self.drop_if_idle(id);
        is_expected
    }
}
