//! What handler calls wrote, until the caches have seen it.
//!
//! A handler that runs before the cache has its last write would decide by an
//! old state; and its own write is no news that should cut a back-off short.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::key::ObjectKey;
use crate::object::{Object, older};
use crate::plan::CacheId;

#[cfg(test)]
mod tests;

/// No call waits longer for its cache, and no echo is waited for longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// So many events during a call are compared with its writes; of more, one is
/// taken to be somebody else's.
const COMPARED: usize = 64;

/// So many writes of one object are remembered.
const KEPT: usize = 8;

/// The writes of one controller's calls.
#[derive(Debug)]
pub(crate) struct Writes {
    /// The cache of the controller's own kind. An object that is not in it is
    /// gone, or has left its selector: nothing is to be waited for.
    primary: CacheId,
    keys: Mutex<HashMap<ObjectKey, Known>>,
    progress: Notify,
}

/// One object as a write left it, or as an event tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) cache: CacheId,
    pub(crate) object: ObjectKey,
    pub(crate) uid: String,
    /// `None` where it is no more.
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
    /// Somebody else's.
    Foreign,
}

/// What is known of one key's writes.
#[derive(Debug, Default)]
struct Known {
    writes: Vec<Wrote>,
    /// A call runs, and these events were heard since it began.
    call: Option<Vec<Write>>,
    overflown: bool,
}

#[derive(Debug)]
struct Wrote {
    write: Write,
    at: Instant,
    silent: bool,
    /// Its event was heard.
    heard: bool,
    /// Its cache has it, or something newer.
    seen: bool,
}

impl Wrote {
    /// An object that is no more shows no write any more: none is waited for.
    fn end(&mut self, event: &Write) {
        let Write { cache, object, uid, .. } = &self.write;
        if event.version.is_none() && (cache, object, uid) == (&event.cache, &event.object, &event.uid) {
            self.seen = true;
            self.heard |= self.write.version.is_some();
        }
    }
}

impl Known {
    /// What an event is, by the writes that are known.
    fn echo(&self, event: &Write) -> Echo {
        match self.writes.iter().find(|wrote| wrote.write == *event) {
            // That something is no more is news, whoever did it.
            Some(wrote) if wrote.silent && event.version.is_some() => Echo::Silent,
            Some(_) => Echo::Own,
            None => Echo::Foreign,
        }
    }

    /// Forgets what needs no more to be known.
    fn tidy(&mut self) {
        self.writes.retain(|wrote| !(wrote.heard && wrote.seen) && wrote.at.elapsed() < PATIENCE);
    }

    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.call.is_none()
    }
}

impl Writes {
    pub(crate) fn new(primary: CacheId) -> Self {
        Self { primary, keys: Mutex::default(), progress: Notify::new() }
    }

    /// A worker has the key: from now on its events are remembered. `touched`
    /// says whether one came between the worker and this.
    pub(crate) fn begin(&self, key: &ObjectKey, touched: impl FnOnce() -> bool) {
        let mut keys = self.lock();
        let known = keys.entry(key.clone()).or_default();
        known.call = Some(Vec::new());
        known.overflown = touched();
    }

    /// A worker gives the key back, by `give`, which is told what the events
    /// that came meanwhile were, all of them at least. No event comes between.
    pub(crate) fn end<T>(&self, key: &ObjectKey, give: impl FnOnce(Echo) -> T) -> T {
        let mut keys = self.lock();
        let mut echo = Echo::Foreign;
        if let Some(known) = keys.get_mut(key) {
            let events = known.call.take().unwrap_or_default();
            if !known.overflown {
                echo = events.iter().map(|event| known.echo(event)).max().unwrap_or(Echo::Foreign);
            }
            known.tidy();
            if known.is_empty() {
                keys.remove(key);
            }
        }
        give(echo)
    }

    /// An event of an object wakes the key, by `wake`, which is told what it
    /// is to it. No call of the key ends between. Of most keys nothing is
    /// known: then nobody asks for the `event`.
    pub(crate) fn hear<T>(&self, key: &ObjectKey, event: impl FnOnce() -> Write, wake: impl FnOnce(Echo) -> T) -> T {
        let mut keys = self.lock();
        let Some(known) = keys.get_mut(key) else { return wake(Echo::Foreign) };
        let event = event();
        let echo = known.echo(&event);
        for wrote in &mut known.writes {
            wrote.heard |= wrote.write == event;
            wrote.end(&event);
        }
        match &mut known.call {
            Some(events) if events.len() < COMPARED => events.push(event),
            Some(_) => known.overflown = true,
            None => {}
        }
        wake(echo)
    }

    /// A cache has changed.
    pub(crate) fn progress(&self) {
        self.progress.notify_waiters();
    }

    /// A call of the key wrote an object.
    pub(crate) fn wrote(&self, key: &ObjectKey, write: Write) {
        self.note(key, write, false);
    }

    /// The runtime wrote an object on the way to a call of the key: its echo
    /// wakes nobody.
    pub(crate) fn wrote_quietly(&self, key: &ObjectKey, write: Write) {
        self.note(key, write, true);
    }

    fn note(&self, key: &ObjectKey, write: Write, silent: bool) {
        let mut keys = self.lock();
        let known = keys.entry(key.clone()).or_default();
        // What was heard and seen stays until the call ends, which compares.
        known.writes.retain(|wrote| wrote.at.elapsed() < PATIENCE);
        // A few of each object, as the echo of an earlier one may be on its way.
        let same = |wrote: &Wrote| (wrote.write.cache, &wrote.write.object) == (write.cache, &write.object);
        if known.writes.iter().filter(|wrote| same(wrote)).count() >= KEPT
            && let Some(oldest) = known.writes.iter().position(same)
        {
            known.writes.remove(oldest);
        }
        let mut wrote = Wrote { write, at: Instant::now(), silent, heard: false, seen: false };
        known.call.iter().flatten().for_each(|event| wrote.end(event));
        known.writes.push(wrote);
    }

    /// Waits until the caches have what the key's last call wrote, though not
    /// for long. `find` looks an object up.
    pub(crate) async fn settled(&self, key: &ObjectKey, find: impl Fn(&Write) -> Option<Arc<Object>>) {
        loop {
            let notified = self.progress.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let Some(until) = self.behind(key, &find) else { return };
            if timeout_at(until, notified).await.is_err() {
                tracing::debug!(%key, "no cache has shown the last write of this key within {PATIENCE:?}: going on");
                return;
            }
        }
    }

    /// Until when to wait for the key's writes; `None` when none is missing.
    fn behind(&self, key: &ObjectKey, find: impl Fn(&Write) -> Option<Arc<Object>>) -> Option<Instant> {
        let mut keys = self.lock();
        let known = keys.get_mut(key)?;
        for wrote in &mut known.writes {
            wrote.seen |= match find(&wrote.write) {
                None if wrote.write.cache == self.primary => true,
                found => wrote.write.is_in(found.as_deref()),
            };
        }
        known.tidy();
        known.writes.iter().filter(|wrote| !wrote.seen).map(|wrote| wrote.at + PATIENCE).min()
    }

    /// How many keys something is known of.
    #[cfg(test)]
    fn known(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Known>> {
        // The fns that run under it are the queue's, which calls nobody back.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write {
    /// What an event says: the object as it is, or that it is no more.
    pub(crate) fn event(cache: CacheId, object: &Object, gone: bool) -> Self {
        let version = (!gone).then(|| object.version().to_owned());
        Self { cache, object: object.key().clone(), uid: object.uid().to_owned(), version }
    }

    /// Whether a cache that holds `found` knows of the write.
    fn is_in(&self, found: Option<&Object>) -> bool {
        match (found, &self.version) {
            (None, None) => true,
            (Some(found), None) => found.uid() != self.uid,
            // Its creation is not seen yet; or it is gone already, and nobody told the key.
            (None, Some(_)) => false,
            (Some(found), Some(version)) => found.uid() != self.uid || !older(found.version(), version),
        }
    }
}
