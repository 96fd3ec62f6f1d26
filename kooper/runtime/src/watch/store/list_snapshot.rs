//! A list that is being put into a store.

use std::collections::HashSet;
use std::sync::Arc;

use super::Store;
use super::shard::{ByKey, SHARDS, shard_of};
use crate::object::Object;
use crate::object::key::ObjectKey;

/// A list that is being put into a store, split into the same shards: no set
/// becomes so large that growing it blocks the thread.
#[derive(Debug)]
pub(crate) struct ListSnapshot {
    pub(super) shards: Vec<HashSet<ByKey>>,
    /// `true` if the list has objects that cannot be read.
    pub(crate) lacks_some: bool,
    /// The known objects that were deleted or left the selection while the list was sent.
    removed: HashSet<ObjectKey>,
}

impl Default for ListSnapshot {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashSet::new()).collect(), lacks_some: false, removed: HashSet::new() }
    }
}

impl ListSnapshot {
    /// Adds an object. If the store has this version already, it is shared, so that
    /// a relist does not duplicate objects.
    pub(crate) fn add(&mut self, object: Object, known: &Store) {
        let object = match known.get(object.key()) {
            Some(old) if old.same_version(&object) => old,
            old => Arc::new(object.packed(known.dictionaries.as_ref(), old.is_some())),
        };
        self.keep(object);
    }

    /// Adds an object of the store as it is.
    pub(crate) fn keep(&mut self, object: Arc<Object>) {
        self.shards[shard_of(object.key())].replace(ByKey(object));
    }

    /// Returns `true` if a known object that the list lacks may be one of those that cannot be read.
    pub(crate) fn may_have(&self, key: &ObjectKey) -> bool {
        self.lacks_some && !self.contains(key) && !self.removed.contains(key)
    }

    /// Removes an object that was deleted while the list was sent, or is not selected.
    pub(crate) fn remove(&mut self, key: &ObjectKey, known: &Store) {
        if known.get(key).is_some() {
            self.removed.insert(key.clone());
        }
        self.shards[shard_of(key)].remove(key);
    }

    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.shards[shard_of(key)].get(key).map(|ByKey(object)| object)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(HashSet::len).sum()
    }
}
