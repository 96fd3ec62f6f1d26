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

/// No call waits longer for its cache.
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

/// One object as a write left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) cache: CacheId,
    pub(crate) object: ObjectKey,
    pub(crate) uid: String,
    /// `None` where the write removed it.
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
    /// A call runs, and saw these events.
    call: Option<Vec<(CacheId, ObjectKey, String)>>,
    overflown: bool,
}

#[derive(Debug)]
struct Wrote {
    write: Write,
    at: Instant,
    silent: bool,
}

impl Known {
    /// What an event is, by the writes that are known.
    fn echo(&self, event: &(CacheId, ObjectKey, String)) -> Echo {
        match self.writes.iter().find(|wrote| wrote.write.is(event)) {
            Some(wrote) if wrote.silent => Echo::Silent,
            Some(_) => Echo::Own,
            None => Echo::Foreign,
        }
    }
}

impl Writes {
    pub(crate) fn new(primary: CacheId) -> Self {
        Self { primary, keys: Mutex::default(), progress: Notify::new() }
    }

    /// A call of the key begins.
    pub(crate) fn begin(&self, key: &ObjectKey) {
        let mut keys = self.lock();
        let known = keys.entry(key.clone()).or_default();
        known.call = Some(Vec::new());
        known.overflown = false;
    }

    /// A call of the key has ended: what the events that came meanwhile were,
    /// all of them at least.
    pub(crate) fn end(&self, key: &ObjectKey) -> Echo {
        let mut keys = self.lock();
        let Some(known) = keys.get_mut(key) else { return Echo::Foreign };
        let events = known.call.take().unwrap_or_default();
        let echo = events.iter().map(|event| known.echo(event)).max().unwrap_or(Echo::Foreign);
        let echo = if known.overflown { Echo::Foreign } else { echo };
        if known.writes.is_empty() {
            keys.remove(key);
        }
        echo
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
        // A few of each object, as the echo of an earlier one may be on its way.
        let same = |wrote: &Wrote| (wrote.write.cache, &wrote.write.object) == (write.cache, &write.object);
        if known.writes.iter().filter(|wrote| same(wrote)).count() >= KEPT
            && let Some(oldest) = known.writes.iter().position(same)
        {
            known.writes.remove(oldest);
        }
        known.writes.push(Wrote { write, at: Instant::now(), silent });
    }

    /// An event of an object that wakes the key: what it is to it.
    pub(crate) fn saw(&self, key: &ObjectKey, cache: CacheId, object: &Object) -> Echo {
        let mut keys = self.lock();
        let Some(known) = keys.get_mut(key) else { return Echo::Foreign };
        let event = (cache, object.key().clone(), object.version().to_owned());
        let echo = known.echo(&event);
        match &mut known.call {
            Some(events) if events.len() < COMPARED => events.push(event),
            Some(_) => known.overflown = true,
            None => {}
        }
        drop(keys);
        self.progress.notify_waiters();
        echo
    }

    /// A cache has something new that wakes nobody.
    pub(crate) fn moved(&self) {
        self.progress.notify_waiters();
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
                tracing::debug!(%key, "the cache has not seen the last write of this key within {PATIENCE:?}: going on");
                self.lock().remove(key);
                return;
            }
        }
    }

    /// Until when to wait for the key's writes; `None` when none is missing.
    fn behind(&self, key: &ObjectKey, find: impl Fn(&Write) -> Option<Arc<Object>>) -> Option<Instant> {
        let mut keys = self.lock();
        let known = keys.get_mut(key)?;
        known.writes.retain(|Wrote { write, .. }| match find(write) {
            None if write.cache == self.primary => false,
            found => !write.is_in(found.as_deref()),
        });
        let since = known.writes.iter().map(|wrote| wrote.at).min();
        if since.is_none() && known.call.is_none() {
            keys.remove(key);
        }
        since.map(|at| at + PATIENCE)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Known>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write {
    fn is(&self, (cache, object, version): &(CacheId, ObjectKey, String)) -> bool {
        self.cache == *cache && self.object == *object && self.version.as_ref().is_none_or(|own| own == version)
    }

    /// Whether a cache that holds `found` knows of the write.
    fn is_in(&self, found: Option<&Object>) -> bool {
        match (found, &self.version) {
            (None, None) => true,
            (Some(found), None) => found.uid() != self.uid,
            // Its creation is not seen yet; or it is gone already, which only time tells.
            (None, Some(_)) => false,
            (Some(found), Some(version)) => found.uid() != self.uid || !older(found.version(), version),
        }
    }
}
