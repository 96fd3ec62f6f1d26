//! The objects, in memory: one counter of versions, a copy-on-write tree and a log for each kind.
//!
//! A write takes the next version, changes the kind's tree and appends to the
//! kind's log, all under one lock. A list copies the tree, which copies no
//! object. A watch reads the log from its own position, so that watchers cost
//! nothing to those who write.

mod compaction;
mod object;
mod tree;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use tokio::time::Instant;

use self::compaction::Compaction;
pub(crate) use self::object::{Draft, Object, Traits};
pub(crate) use self::tree::Tree;

/// The changes of one kind that are kept for watches and lists of an earlier version.
const KEPT_CHANGES: usize = 100_000;
/// The bytes of superseded states that one kind's log keeps.
const KEPT_BYTES: usize = 32 << 20;

/// The bytes that a watcher takes at once, about: what its frame holds until the client has read it.
pub(crate) const FRAME: usize = 64 << 10;

/// The counter that all tables of a server share.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    version: Arc<Clock>,
    /// The tables that are in use.
    tables: Arc<Mutex<Vec<Weak<Table>>>>,
}

#[derive(Debug)]
struct Clock {
    /// Serialises writes, so that each log is in the order of the versions.
    writing: Mutex<()>,
    current: AtomicU64,
    compaction: Mutex<Compaction>,
    /// Wakes those who wait for any version to come.
    advanced: Notify,
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Table {
    clock: Arc<Clock>,
    state: RwLock<State>,
    /// Wakes the watchers of this kind.
    changed: Notify,
    watchers: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    tree: Tree<Arc<Object>>,
    log: VecDeque<Change>,
    /// Bytes of states in the log that the tree no longer has.
    superseded: usize,
    /// The log holds every change after this version.
    since: u64,
    /// The version of the last change that the log has dropped.
    dropped: u64,
    /// The kind is not served any more.
    closed: bool,
}

/// One entry of a log.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) name: Arc<str>,
    pub(crate) before: Option<Arc<Object>>,
    pub(crate) after: After,
}

/// Result of a change.
#[derive(Clone, Debug)]
pub(crate) enum After {
    Written(Arc<Object>),
    /// The last state, with the version of the deletion.
    Deleted(Arc<Object>),
}

/// All objects of a kind at one version.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) version: u64,
    pub(crate) tree: Tree<Arc<Object>>,
}

/// Error of a commit: the state that it was made from is outdated.
#[derive(Debug)]
pub(crate) struct Conflict;

/// The version asked for is no longer in the log.
#[derive(Debug)]
pub(crate) struct TooOld {
    /// The oldest version that could be asked for.
    pub(crate) oldest: u64,
}

/// Result of reading the log for a watch.
#[derive(Debug)]
pub(crate) enum Next {
    Changes(Vec<Change>),
    /// Nothing new up to this version.
    Nothing(u64),
    TooOld(TooOld),
    Closed,
}

impl Store {
    pub(crate) fn new() -> Self {
        let clock = Clock {
            writing: Mutex::new(()),
            current: AtomicU64::new(1),
            compaction: Mutex::new(Compaction::new(1)),
            advanced: Notify::new(),
        };
        Self { version: Arc::new(clock), tables: Arc::default() }
    }

    /// A table for another kind.
    pub(crate) fn table(&self) -> Arc<Table> {
        let _writing = self.version.writing.lock();
        let state = State { since: self.version(), ..State::default() };
        let table = Arc::new(Table {
            clock: Arc::clone(&self.version),
            state: RwLock::new(state),
            changed: Notify::new(),
            watchers: AtomicUsize::new(0),
        });
        let mut tables = self.tables.lock();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(Arc::downgrade(&table));
        table
    }

    /// Forgets the changes of the past, as a compaction does.
    pub(crate) fn compact(&self) {
        let tables = self.tables.lock().clone();
        for table in tables.iter().filter_map(Weak::upgrade) {
            table.compact();
        }
    }

    /// The version of the last write.
    pub(crate) fn version(&self) -> u64 {
        self.version.current.load(Ordering::Acquire)
    }

    /// Waits until a version is there.
    pub(crate) async fn reach(&self, version: u64) {
        loop {
            let advanced = self.version.advanced.notified();
            if self.version() >= version {
                return;
            }
            advanced.await;
        }
    }
}

impl Clock {
    /// The oldest version that etcd would still have.
    fn compacted(&self) -> u64 {
        // Loaded under the lock: a write notes its time before it takes a version.
        let mut compaction = self.compaction.lock();
        compaction.at(Instant::now(), self.current.load(Ordering::Acquire))
    }
}

impl Table {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Object>> {
        self.read().tree.get(name).cloned()
    }

    /// The version of the last change of any of its objects.
    pub(crate) fn changed_at(&self) -> u64 {
        let state = self.read();
        state.log.back().map_or(state.since, |change| change.version)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.read().tree.len() == 0
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.read();
        // A write to this table holds its lock while it advances the counter.
        Snapshot { version: self.clock.current.load(Ordering::Acquire), tree: state.tree.clone() }
    }

    /// All objects as they were at an earlier version.
    pub(crate) fn snapshot_at(&self, version: u64) -> Result<Snapshot, TooOld> {
        let compacted = self.clock.compacted();
        let state = self.read();
        let oldest = state.since.max(compacted);
        if version < oldest {
            return Err(TooOld { oldest });
        }
        let mut tree = state.tree.clone();
        let later = state.log.partition_point(|change| change.version <= version);
        for change in state.log.range(later..).rev() {
            match &change.before {
                Some(before) => tree.insert(&change.name, Arc::clone(before)),
                None => tree.remove(&change.name),
            };
        }
        Ok(Snapshot { version, tree })
    }

    /// Writes a state, if the object still is as `expected` says.
    pub(crate) fn put(&self, name: &str, expected: Option<u64>, draft: Draft) -> Result<Arc<Object>, Conflict> {
        self.commit(name, expected, |version| After::Written(Arc::new(draft.at(version))))
    }

    /// Removes an object, if it still is as `expected` says; the answer is its last state with the deletion's version.
    pub(crate) fn remove(&self, name: &str, expected: &Arc<Object>) -> Result<Arc<Object>, Conflict> {
        let last = Arc::clone(expected);
        self.commit(name, Some(expected.version), |version| After::Deleted(Arc::new(last.with_version(version))))
    }

    fn commit(
        &self,
        name: &str,
        expected: Option<u64>,
        write: impl FnOnce(u64) -> After,
    ) -> Result<Arc<Object>, Conflict> {
        let result = {
            let _writing = self.clock.writing.lock();
            let mut state = self.state.write();
            let before = state.tree.get(name).cloned();
            if state.closed || before.as_ref().map(|object| object.version) != expected {
                return Err(Conflict);
            }
            self.clock.compacted();
            let version = self.clock.current.load(Ordering::Acquire) + 1;
            let after = write(version);
            let result = match &after {
                After::Written(object) => {
                    state.tree.insert(name, Arc::clone(object));
                    Arc::clone(object)
                }
                After::Deleted(object) => {
                    state.tree.remove(name);
                    Arc::clone(object)
                }
            };
            state.superseded += before.as_ref().map_or(0, |object| object.len());
            state.log.push_back(Change { version, name: name.into(), before, after });
            state.trim(KEPT_CHANGES, KEPT_BYTES);
            self.clock.current.store(version, Ordering::Release);
            result
        };
        self.changed.notify_waiters();
        self.clock.advanced.notify_waiters();
        Ok(result)
    }

    /// Checks that a watch can begin at a version. If it is not `cached`, it reads the history of
    /// etcd, which is compacted.
    pub(crate) fn begin(&self, version: u64, cached: bool) -> Result<(), TooOld> {
        let compacted = if cached { 0 } else { self.clock.compacted() };
        let oldest = self.read().since.max(compacted);
        if version < oldest { Err(TooOld { oldest }) } else { Ok(()) }
    }

    /// The changes after a version that a watch began at or has read up to, at most some hundred at a time, and not many more bytes than a frame has.
    pub(crate) fn changes_after(&self, version: u64) -> Next {
        let state = self.read();
        if version < state.dropped {
            return Next::TooOld(TooOld { oldest: state.since });
        }
        let from = state.log.partition_point(|change| change.version <= version);
        let mut bytes = 0;
        let few = |change: &&Change| {
            let fits = bytes < FRAME;
            bytes += change.len();
            fits
        };
        let changes: Vec<_> = state.log.range(from..).take(256).take_while(few).cloned().collect();
        if !changes.is_empty() {
            Next::Changes(changes)
        } else if state.closed {
            Next::Closed
        } else {
            Next::Nothing(self.clock.current.load(Ordering::Acquire))
        }
    }

    /// Is done at the next change of this kind, from the moment of the call.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Counts a watcher; the answer is how many there are with it.
    pub(crate) fn enter(&self) -> usize {
        self.watchers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn leave(&self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Forgets the log, as a compaction does.
    pub(crate) fn compact(&self) {
        let _writing = self.clock.writing.lock();
        let mut state = self.state.write();
        state.trim(0, 0);
        state.since = self.clock.current.load(Ordering::Acquire);
    }

    /// Ends the watches, after all changes, and refuses writes: the kind is not served any more.
    pub(crate) fn close(&self) {
        self.state.write().closed = true;
        self.changed.notify_waiters();
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }
}

impl Change {
    fn len(&self) -> usize {
        match &self.after {
            After::Written(object) | After::Deleted(object) => object.len(),
        }
    }
}

impl State {
    fn trim(&mut self, changes: usize, bytes: usize) {
        while self.log.len() > changes || self.superseded > bytes {
            let Some(change) = self.log.pop_front() else { break };
            (self.since, self.dropped) = (change.version, change.version);
            self.superseded = self.superseded.saturating_sub(change.before.as_ref().map_or(0, |object| object.len()));
        }
    }
}
