//! One shard of a store, with its own lock.

use std::any::TypeId;
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::index_shard::{IndexShard, is_sparse, part_of};
use crate::held::LockGuard;
use crate::object::Object;
use crate::object::key::ObjectKey;

/// The number of shards. With a million objects, each has about eight thousand:
/// copying, indexing or growing one takes one or two milliseconds.
pub(super) const SHARDS: usize = 128;

/// The shard of an object. It is the same in every store and list, so that they
/// are compared shard by shard.
pub(super) fn shard_of(key: &ObjectKey) -> usize {
    part_of(key, SHARDS)
}

/// An object that is hashed and compared by its key.
#[derive(Debug)]
pub(super) struct ByKey(pub(super) Arc<Object>);

impl Borrow<ObjectKey> for ByKey {
    fn borrow(&self) -> &ObjectKey {
        self.0.key()
    }
}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for ByKey {}

#[derive(Debug, Default)]
pub(super) struct Shard {
    contents: RwLock<Contents>,
}

#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) objects: HashSet<ByKey>,
    /// The indexes that have been used.
    pub(super) indexes: HashMap<TypeId, IndexShard>,
}

impl Shard {
    pub(super) fn read(&self) -> LockGuard<RwLockReadGuard<'_, Contents>> {
        LockGuard::new(self.contents.read())
    }

    pub(super) fn write(&self) -> LockGuard<RwLockWriteGuard<'_, Contents>> {
        LockGuard::new(self.contents.write())
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.read().get(key).cloned()
    }
}

impl Contents {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(key).map(|ByKey(object)| object)
    }

    /// Gives the memory of removed objects back.
    pub(super) fn shrink(&mut self) {
        if self.objects.is_empty() {
            self.objects = HashSet::new();
        } else if is_sparse(self.objects.capacity(), self.objects.len()) {
            self.objects.shrink_to(2 * self.objects.len());
        }
        self.indexes.values_mut().for_each(IndexShard::shrink);
    }

    /// Records for every index which objects have changed or were deleted.
    pub(super) fn reindex<'a>(&mut self, keys: impl IntoIterator<Item = &'a ObjectKey>, exist: bool) {
        if self.indexes.is_empty() {
            return;
        }
        for key in keys {
            for index in self.indexes.values_mut() {
                if exist { index.mark_changed(key) } else { index.remove(key) }
            }
        }
    }
}
