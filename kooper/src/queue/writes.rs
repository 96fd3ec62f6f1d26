//! What the calls of a key wrote, until the caches have shown it.
//!
//! A handler that runs before the cache has its last write would decide by an
//! old state; and its own write is no news that should cut a back-off short.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::Id;
use crate::object::key::ObjectKey;
use crate::object::{Object, older};
use crate::watch::cache_id::CacheId;

/// No key waits longer for a cache, and no echo is expected for longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// So many writes of one object are remembered.
const KEPT: usize = 8;

/// So many writes of one key are remembered, the last ones.
const LIMIT: usize = 1024;

/// Where a controller sees objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum View {
    /// In the cache of the objects that it handles.
    Primary,
    /// In a cache of its readers and relations.
    Other(CacheId),
}

/// One object as a write left it, or as an event reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) view: View,
    pub(crate) object: ObjectKey,
    pub(crate) uid: String,
    /// `None` where it is gone.
    pub(crate) version: Option<String>,
}

/// What an event of an object is to the key that it wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Echo {
    /// The runtime's own write, such as that of a finalizer: nothing new.
    Silent,
    /// A write of the key's own call: it wakes the key, and is no reason to
    /// cut a back-off short.
    Own,
    /// Anything else.
    Foreign,
}

/// What is known of one key's writes.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<Note>);

#[derive(Debug)]
struct Note {
    write: Write,
    at: Instant,
    /// What its event is.
    echo: Echo,
    /// Its event was heard.
    heard: bool,
    /// Its cache has it, or something newer.
    seen: bool,
}

/// Which keys wait for which objects, and when they stop waiting.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    objects: HashMap<(View, ObjectKey), Vec<Id>>,
    fading: VecDeque<(Instant, Id, View, ObjectKey)>,
}

impl Write {
    /// What an event reports: the object as it is, or that it is gone.
    pub(crate) fn event(view: View, object: &Object, gone: bool) -> Self {
        let version = (!gone).then(|| object.version().to_owned());
        Self { view, object: object.key().clone(), uid: object.uid().to_owned(), version }
    }

    /// Whether a cache that has come to the event has the write.
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

impl Notes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A call was answered by an object as it is after a write. `heard` is what
    /// came while it ran.
    pub(super) fn add<'a>(&mut self, write: Write, echo: Echo, heard: impl Iterator<Item = &'a Write>, now: Instant) {
        // A write that changes nothing is answered by the version of an earlier one.
        if let Some(note) = self.0.iter_mut().find(|note| note.write == write) {
            note.echo = note.echo.min(echo);
            return;
        }
        // A few of each object, as the echo of an earlier one may be on its way.
        let same = |note: &Note| (note.write.view, &note.write.object) == (write.view, &write.object);
        if self.0.iter().filter(|note| same(note)).count() >= KEPT
            && let Some(oldest) = self.0.iter().position(same)
        {
            self.0.remove(oldest);
        }
        if self.0.len() >= LIMIT {
            self.0.remove(0);
        }
        let mut note = Note { write, at: now, echo, heard: false, seen: false };
        heard.for_each(|event| note.hear(event));
        self.0.push(note);
    }

    /// What an event is, by the writes that are known.
    pub(super) fn echo(&self, event: &Write) -> Echo {
        // That an object of the controller is gone is news, also where a call deleted it.
        if (event.view, &event.version) == (View::Primary, &None) {
            return Echo::Foreign;
        }
        match self.0.iter().find(|note| note.write == *event) {
            Some(note) if note.echo == Echo::Silent && event.version.is_none() => Echo::Own,
            Some(note) => note.echo,
            None => Echo::Foreign,
        }
    }

    /// An event came.
    pub(super) fn hear(&mut self, event: &Write) {
        self.0.iter_mut().for_each(|note| note.hear(event));
    }

    /// A cache has come to an event. Whether nothing is missing any more.
    pub(super) fn see(&mut self, event: &Write) -> bool {
        for note in &mut self.0 {
            note.seen |= note.write.is_shown_by(event);
        }
        !self.is_awaiting()
    }

    /// Whether a cache lacks a write.
    pub(super) fn is_awaiting(&self) -> bool {
        self.0.iter().any(|note| !note.seen)
    }

    /// Whether a cache lacks a write of this object.
    fn awaits(&self, view: View, object: &ObjectKey) -> bool {
        self.0.iter().any(|note| !note.seen && (note.write.view, &note.write.object) == (view, object))
    }

    /// Forgets what was heard and seen.
    pub(super) fn tidy(&mut self) {
        self.0.retain(|note| !(note.heard && note.seen));
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// Forgets what is too old. Whether something that was missing is.
    pub(super) fn fade(&mut self, now: Instant) -> bool {
        let before = self.is_awaiting();
        self.0.retain(|note| now < note.at + PATIENCE);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
        before && !self.is_awaiting()
    }
}

impl Note {
    fn hear(&mut self, event: &Write) {
        self.heard |= self.write == *event;
        // An object that is gone shows no write any more: none is expected.
        if event.version.is_none() && self.write.is_shown_by(event) {
            self.seen = true;
            self.heard |= self.write.version.is_some();
        }
    }
}

impl Awaited {
    /// A key waits for a write from now on.
    pub(super) fn add(&mut self, id: Id, write: &Write, now: Instant) {
        let ids = self.objects.entry((write.view, write.object.clone())).or_default();
        if !ids.contains(&id) {
            ids.push(id);
        }
        self.fading.push_back((now + PATIENCE, id, write.view, write.object.clone()));
    }

    /// Whether no key waits, as mostly.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Which keys wait for an object.
    pub(super) fn by(&self, view: View, object: &ObjectKey) -> Vec<Id> {
        self.objects.get(&(view, object.clone())).cloned().unwrap_or_default()
    }

    /// A key waits no more for an object, unless its notes say so.
    pub(super) fn remove(&mut self, id: Id, view: View, object: &ObjectKey, notes: Option<&Notes>) {
        if notes.is_some_and(|notes| notes.awaits(view, object)) {
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

    /// The next write that no one waits for any longer.
    pub(super) fn faded(&mut self, now: Instant) -> Option<(Id, View, ObjectKey)> {
        self.fading.front().filter(|(at, ..)| *at <= now)?;
        self.fading.pop_front().map(|(_, id, view, object)| (id, view, object))
    }

    /// When the next fades.
    pub(super) fn next(&self) -> Option<Instant> {
        self.fading.front().map(|(at, ..)| *at)
    }
}
