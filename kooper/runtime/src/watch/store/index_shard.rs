//! The parts of an index: the keys by value, and for each shard of a store what its objects have been read as.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::held::LockGuard;
use crate::object::DecodeError;
use crate::object::key::ObjectKey;

/// The number of parts for different values, each with locks of its own: informers do not wait for each other.
const VALUES: usize = 16;

/// The number of parts for the keys of one value. A million objects may have the same label.
const KEYS: usize = 8;

/// The keys of a store's objects, by value.
#[derive(Debug)]
pub(super) struct Index {
    parts: Box<[[RwLock<BTreeSet<Entry>>; KEYS]]>,
    /// Locked while values are recorded, and shared by lookups: none of them misses an object that is recorded meanwhile.
    /// It is locked before shards.
    pub(super) recording: RwLock<()>,
    /// The objects in all shards that were not read yet, or cannot be read. While there are none, a lookup looks at
    /// nothing but the objects that have the value.
    pending: AtomicUsize,
}

/// A value and an object that has it. The order of the keys keeps the objects of a namespace together, so a lookup in one
/// visits no others.
type Entry = (Arc<str>, ObjectKey);

impl Default for Index {
    fn default() -> Self {
        let parts = (0..VALUES).map(|_| Default::default()).collect();
        Self { parts, recording: RwLock::default(), pending: AtomicUsize::new(0) }
    }
}

impl Index {
    pub(super) fn pending(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

    /// The objects of a namespace, or of all, that have one of the values.
    pub(super) fn under(&self, values: &[String], namespace: Option<&str>) -> Vec<ObjectKey> {
        let mut found = Vec::new();
        for value in values {
            let first: Entry = (value.as_str().into(), first_key(namespace));
            for part in self.parts(value) {
                let part = LockGuard::new(part.read());
                let entries = part.range::<Entry, _>(&first..);
                let entries = entries.take_while(|(kept, key)| **kept == **value && key.is_in(namespace));
                found.extend(entries.map(|(_, key)| key.clone()));
            }
        }
        if values.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// Adds the key of an object that has a value; returns the value as it is kept.
    fn add(&self, value: &str, key: &ObjectKey) -> Arc<str> {
        let mut part = LockGuard::new(self.part(value, key).write());
        let first: Entry = (value.into(), first_key(None));
        let known = part.range::<Entry, _>(&first..).next().filter(|(kept, _)| **kept == *value);
        let kept = known.map_or_else(|| first.0.clone(), |(kept, _)| kept.clone());
        part.insert((kept.clone(), key.clone()));
        kept
    }

    fn remove(&self, value: &Arc<str>, key: &ObjectKey) {
        LockGuard::new(self.part(value, key).write()).remove(&(value.clone(), key.clone()));
    }

    fn parts(&self, value: &str) -> &[RwLock<BTreeSet<Entry>>; KEYS] {
        &self.parts[part_of(value, VALUES)]
    }

    fn part(&self, value: &str, key: &ObjectKey) -> &RwLock<BTreeSet<Entry>> {
        &self.parts(value)[part_of(key, KEYS)]
    }

    fn count(&self, before: usize, after: usize) {
        self.pending.fetch_add(after, Ordering::SeqCst);
        self.pending.fetch_sub(before, Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().flatten().all(|part| part.read().is_empty()) && self.pending() == 0
    }
}

/// The key before all others of a namespace, or of all.
fn first_key(namespace: Option<&str>) -> ObjectKey {
    namespace.map_or_else(|| ObjectKey::cluster_scoped(""), |namespace| ObjectKey::namespaced(namespace, ""))
}

/// The number of one of several parts, the same each time.
pub(super) fn part_of<T: Hash + ?Sized>(what: &T, parts: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    // The remainder is below `parts`.
    (hasher.finish() % parts as u64) as usize
}

/// Returns `true` if most of the memory of a map is that of removed entries.
pub(super) fn is_sparse(capacity: usize, entries: usize) -> bool {
    capacity > 4 * entries + 32
}

/// The values of the objects of one shard, as far as they have been read.
#[derive(Debug)]
pub(super) struct IndexShard {
    index: Arc<Index>,
    values: HashMap<ObjectKey, Box<[Arc<str>]>>,
    /// Objects whose current version was not read yet.
    unread: HashSet<ObjectKey>,
    /// Objects that cannot be read: they may have any value.
    unreadable: HashMap<ObjectKey, DecodeError>,
    /// Locked while a batch is read, so that no object is read twice.
    pub(super) turn: Arc<Mutex<()>>,
}

impl IndexShard {
    /// A part in which these objects are unread.
    pub(super) fn new(index: &Arc<Index>, unread: HashSet<ObjectKey>) -> Self {
        index.count(0, unread.len());
        let (values, unreadable, turn) = (HashMap::new(), HashMap::new(), Arc::default());
        Self { index: Arc::clone(index), values, unread, unreadable, turn }
    }

    pub(super) fn unread(&self) -> &HashSet<ObjectKey> {
        &self.unread
    }

    pub(super) fn unreadable(&self) -> &HashMap<ObjectKey, DecodeError> {
        &self.unreadable
    }

    /// Returns `true` if an object has one of the values; `None` if its current version was not read yet.
    pub(super) fn has(&self, key: &ObjectKey, values: &[String]) -> Option<bool> {
        let has = |own: &[Arc<str>]| own.iter().any(|own| values.iter().any(|value| **own == **value));
        (!self.unread.contains(key)).then(|| self.values.get(key).is_some_and(|own| has(own)))
    }

    #[cfg(test)]
    pub(super) fn values(&self) -> &HashMap<ObjectKey, Box<[Arc<str>]>> {
        &self.values
    }

    /// Gives the memory of objects back that were read or removed.
    pub(super) fn shrink(&mut self) {
        if is_sparse(self.values.capacity(), self.values.len()) {
            self.values.shrink_to(2 * self.values.len());
        }
        if is_sparse(self.unread.capacity(), self.unread.len()) {
            self.unread.shrink_to(2 * self.unread.len());
        }
        if is_sparse(self.unreadable.capacity(), self.unreadable.len()) {
            self.unreadable.shrink_to(2 * self.unreadable.len());
        }
    }

    /// Marks an object as unread, because it has a new version.
    pub(super) fn mark_changed(&mut self, key: &ObjectKey) {
        if self.unread.insert(key.clone()) {
            self.index.count(0, 1);
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let values = self.values.remove(key);
        values.iter().flatten().for_each(|value| self.index.remove(value, key));
        let pending = usize::from(self.unread.remove(key)) + usize::from(self.unreadable.remove(key).is_some());
        self.index.count(pending, 0);
    }

    pub(super) fn record(&mut self, key: &ObjectKey, values: Result<Vec<String>, DecodeError>) {
        let (values, error) = values.map_or_else(|error| (Vec::new(), Some(error)), |values| (values, None));
        let after: Box<[Arc<str>]> = values.iter().map(|value| self.index.add(value, key)).collect();
        let before = match after.is_empty() {
            true => self.values.remove(key),
            false => self.values.insert(key.clone(), after.clone()),
        };
        let lost = before.iter().flatten().filter(|value| !after.contains(value));
        lost.for_each(|value| self.index.remove(value, key));
        let unreadable = usize::from(error.is_some());
        let was_unreadable = match error {
            Some(error) => self.unreadable.insert(key.clone(), error),
            None => self.unreadable.remove(key),
        };
        self.index.count(usize::from(was_unreadable.is_some()) + usize::from(self.unread.remove(key)), unreadable);
    }
}
