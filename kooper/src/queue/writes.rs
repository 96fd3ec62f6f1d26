//! The writes of a key's calls, until the caches have them.
//!
//! A handler that runs before the cache has its last write would act on an old
//! state. And the event of its own write should not shorten a back-off.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::EntryId;
use crate::object::key::ObjectKey;
use crate::object::{Object, older};
use crate::watch::cache_id::CacheId;

/// The longest time for which a key waits for a cache and an echo is expected.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The most writes of one object that are tracked.
const KEPT: usize = 8;

/// The most writes of one key that are tracked; older ones are dropped.
const LIMIT: usize = 1024;

/// A cache of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum View {
    /// The cache of the objects that it handles.
    Primary,
    /// A cache of its readers or related kinds.
    Other(CacheId),
}

/// A version of an object: the response to a write, or the content of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revision {
    pub(crate) view: View,
    pub(crate) object: ObjectKey,
    pub(crate) uid: String,
    /// `None` if the object was deleted.
    pub(crate) version: Option<String>,
}

/// Whose write an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Echo {
    /// The runtime's, such as that of a finalizer. The event does not queue the
    /// key.
    Silent,
    /// One by the key's own call. The event queues the key, but does not shorten a
    /// back-off.
    Own,
    /// Any other.
    Foreign,
}

/// The tracked writes of one key.
#[derive(Debug, Default)]
pub(super) struct TrackedWrites(Vec<TrackedWrite>);

#[derive(Debug)]
struct TrackedWrite {
    write: Revision,
    at: Instant,
    /// The classification of its event.
    echo: Echo,
    /// Whether its event was received.
    heard: bool,
    /// Whether its cache has this version or a newer one.
    seen: bool,
}

/// The keys that wait for objects in a cache, and when they stop waiting.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    objects: HashMap<(View, ObjectKey), Vec<EntryId>>,
    expiries: VecDeque<(Instant, EntryId, View, ObjectKey)>,
}

impl Revision {
    /// The version that an event reports; `gone` is whether the object was deleted.
    pub(crate) fn event(view: View, object: &Object, gone: bool) -> Self {
        let version = (!gone).then(|| object.version().to_owned());
        Self { view, object: object.key().clone(), uid: object.uid().to_owned(), version }
    }

    /// Whether a cache that has processed the event has the write.
    fn is_shown_by(&self, event: &Self) -> bool {
        if (self.view, &self.object) != (event.view, &event.object) {
            return false;
        }
        match (&self.version, &event.version) {
            (_, None) => self.uid == event.uid,
            (None, Some(_)) => self.uid != event.uid,
            (Some(version), Some(now)) => self.uid != event.uid || !older(now, version),
        }
    }
}

impl TrackedWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tracks a write by its response. `heard` are the events that were received
    /// during the call.
    pub(super) fn add<'a>(
        &mut self,
        write: Revision,
        echo: Echo,
        heard: impl Iterator<Item = &'a Revision>,
        now: Instant,
    ) {
        // The response to a write that changes nothing has the version of an earlier one.
        if let Some(tracked) = self.0.iter_mut().find(|tracked| tracked.write == write) {
            tracked.echo = tracked.echo.min(echo);
            return;
        }
        // Keep a few for each object: the echo of an earlier one may still arrive.
        let same = |tracked: &TrackedWrite| (tracked.write.view, &tracked.write.object) == (write.view, &write.object);
        if self.0.iter().filter(|tracked| same(tracked)).count() >= KEPT
            && let Some(oldest) = self.0.iter().position(same)
        {
            self.0.remove(oldest);
        }
        if self.0.len() >= LIMIT {
            self.0.remove(0);
        }
        let mut tracked = TrackedWrite { write, at: now, echo, heard: false, seen: false };
        heard.for_each(|event| tracked.record_event(event));
        self.0.push(tracked);
    }

    /// Classifies an event by the tracked writes.
    pub(super) fn classify(&self, event: &Revision) -> Echo {
        // The deletion of a handled object always queues its key, even if a call deleted it.
        if (event.view, &event.version) == (View::Primary, &None) {
            return Echo::Foreign;
        }
        match self.0.iter().find(|tracked| tracked.write == *event) {
            Some(tracked) if tracked.echo == Echo::Silent && event.version.is_none() => Echo::Own,
            Some(tracked) => tracked.echo,
            None => Echo::Foreign,
        }
    }

    /// Records an event.
    pub(super) fn record_event(&mut self, event: &Revision) {
        self.0.iter_mut().for_each(|tracked| tracked.record_event(event));
    }

    /// Records that a cache has processed an event. Returns whether the caches now
    /// have all tracked writes.
    pub(super) fn cache_reached(&mut self, event: &Revision) -> bool {
        for tracked in &mut self.0 {
            tracked.seen |= tracked.write.is_shown_by(event);
        }
        !self.is_awaiting()
    }

    /// Whether a cache lacks any write.
    pub(super) fn is_awaiting(&self) -> bool {
        self.0.iter().any(|tracked| !tracked.seen)
    }

    /// Whether a cache lacks a write of this object.
    fn awaits(&self, view: View, object: &ObjectKey) -> bool {
        self.0.iter().any(|tracked| !tracked.seen && (tracked.write.view, &tracked.write.object) == (view, object))
    }

    /// Drops the writes whose event was received and that the cache has.
    pub(super) fn prune(&mut self) {
        self.0.retain(|tracked| !(tracked.heard && tracked.seen));
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// Drops the writes that are too old. Returns whether the key waits for none any
    /// more; an event may have been the last before.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        self.0.retain(|tracked| now < tracked.at + PATIENCE);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
        !self.is_awaiting()
    }
}

impl TrackedWrite {
    fn record_event(&mut self, event: &Revision) {
        self.heard |= self.write == *event;
        // A deleted object has no more events: none is expected.
        if event.version.is_none() && self.write.is_shown_by(event) {
            self.seen = true;
            self.heard |= self.write.version.is_some();
        }
    }
}

impl Awaited {
    /// Records that a key waits for a write.
    pub(super) fn add(&mut self, id: EntryId, write: &Revision, now: Instant) {
        let ids = self.objects.entry((write.view, write.object.clone())).or_default();
        if !ids.contains(&id) {
            ids.push(id);
        }
        self.expiries.push_back((now + PATIENCE, id, write.view, write.object.clone()));
    }

    /// Whether no key waits; that is the usual case.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The keys that wait for an object.
    pub(super) fn keys_waiting_for(&self, view: View, object: &ObjectKey) -> Vec<EntryId> {
        self.objects.get(&(view, object.clone())).cloned().unwrap_or_default()
    }

    /// Records that a key does not wait for an object any longer, unless the cache
    /// lacks one of its tracked writes.
    pub(super) fn remove(&mut self, id: EntryId, view: View, object: &ObjectKey, writes: Option<&TrackedWrites>) {
        if writes.is_some_and(|writes| writes.awaits(view, object)) {
            return;
        }
        let object = (view, object.clone());
        if let Some(ids) = self.objects.get_mut(&object) {
            ids.retain(|one| *one != id);
            if ids.is_empty() {
                self.objects.remove(&object);
            }
        }
    }

    /// Takes the next wait that has expired.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<(EntryId, View, ObjectKey)> {
        self.expiries.front().filter(|(at, ..)| *at <= now)?;
        self.expiries.pop_front().map(|(_, id, view, object)| (id, view, object))
    }

    /// When the next wait expires.
    pub(super) fn next(&self) -> Option<Instant> {
        self.expiries.front().map(|(at, ..)| *at)
    }
}
