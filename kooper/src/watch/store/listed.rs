//! A list on its way into a store.

use std::collections::HashSet;
use std::sync::Arc;

use super::Store;
use super::shard::{Keyed, SHARDS, shard_of};
use crate::object::Object;
use crate::object::key::ObjectKey;

/// A list on its way into a store, in the store's own shards: no set of it is
/// ever so large that its growth stops a thread.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(super) shards: Vec<HashSet<Keyed>>,
}

impl Default for Listed {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashSet::new()).collect() }
    }
}

impl Listed {
    /// Adds an object of the list. One that the store has in this version
    /// already is shared, so that a relist holds nothing twice.
    pub(crate) fn add(&mut self, object: Object, known: &Store) {
        let object = match known.get(object.key()) {
            Some(old) if old.same_version(&object) => old,
            _ => Arc::new(object.packed(&known.dictionary)),
        };
        if let Some(shard) = self.shards.get_mut(shard_of(object.key())) {
            shard.replace(Keyed(object));
        }
    }

    /// An object was deleted while the list was sent.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        if let Some(shard) = self.shards.get_mut(shard_of(key)) {
            shard.remove(key);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(HashSet::len).sum()
    }
}
