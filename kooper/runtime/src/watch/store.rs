//! The last known objects of a watch, as raw bytes.

mod cache;
mod change;
mod index;
mod index_shard;
mod list_snapshot;
mod shard;

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::object::key::ObjectKey;
use crate::object::{Dictionaries, Object};
pub use cache::Cache;
pub use change::Change;
pub use index::{IndexHit, Indexer};
use index_shard::Index;
pub(crate) use list_snapshot::ListSnapshot;
use shard::{ByKey, SHARDS, Shard, shard_of};

/// The objects of one watch. Only its informer writes to it, and a dry run after the informer's only list.
///
/// It is split into shards, each with its own lock. Operations whose time is
/// proportional to the number of objects lock one shard at a time.
#[derive(Debug)]
pub struct Store {
    shards: Box<[Shard]>,
    /// The indexes that have been used.
    indexes: RwLock<HashMap<TypeId, Arc<Index>>>,
    objects: AtomicUsize,
    bytes: AtomicUsize,
    /// `None` for secret objects. What a text has in common with a dictionary makes it
    /// shorter, so a client that writes one object and knows its size could guess the others.
    dictionaries: Option<Dictionaries>,
    /// `true` while the server does not serve the kind.
    unserved: AtomicBool,
    /// `true` while objects that are not here may exist, because they were not listed.
    unlisted: AtomicBool,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Store {
    /// A store of objects that may be `secret`.
    pub(crate) fn new(secret: bool) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            indexes: RwLock::default(),
            objects: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            dictionaries: (!secret).then(Dictionaries::default),
            unserved: AtomicBool::new(false),
            unlisted: AtomicBool::new(false),
        }
    }

    /// Notes whether the server serves the kind. Returns `true` if it does, and did not before.
    pub(crate) fn note_served(&self, is_served: bool) -> bool {
        // Only its informer writes to it, for each event.
        let is_news = self.unserved.load(Ordering::Relaxed) == is_served;
        if is_news {
            self.unserved.store(!is_served, Ordering::Relaxed);
        }
        is_news && is_served
    }

    /// Returns `true` while the server does not serve the kind.
    pub(crate) fn is_unserved(&self) -> bool {
        self.unserved.load(Ordering::Relaxed)
    }

    /// Notes whether the objects were listed.
    pub(crate) fn note_listed(&self, are_listed: bool) {
        self.unlisted.store(!are_listed, Ordering::Release);
    }

    /// Returns `true` if an object that is not here may exist, because the objects were not listed.
    pub(crate) fn is_unlisted(&self) -> bool {
        self.unlisted.load(Ordering::Acquire) && !self.is_unserved()
    }

    /// Returns `true` if not even the size of the objects may be published.
    pub(crate) fn is_secret(&self) -> bool {
        self.dictionaries.is_none()
    }

    /// The object with this key; `None` if the store does not contain it.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.shard(key).get(key)
    }

    /// All objects, in no particular order.
    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        self.parts().flatten().collect()
    }

    /// All objects, in no particular order, shard by shard.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Vec<Arc<Object>>> {
        self.shards.iter().map(|shard| shard.read().objects.iter().map(|ByKey(object)| object.clone()).collect())
    }

    /// The number of objects, and their size in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.objects.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Adds an object, or replaces its older version.
    pub fn put(&self, object: Object) -> Change {
        let shard = self.shard(object.key());
        let known = shard.read().get(object.key()).is_some();
        let new = Arc::new(object.packed(self.dictionaries.as_ref(), known));
        let old = {
            let mut contents = shard.write();
            contents.reindex([new.key()], true);
            contents.objects.replace(ByKey(new.clone())).map(|ByKey(old)| old)
        };
        let change = Change::new(old, Some(new));
        self.measure(&change);
        change
    }

    /// Removes an object. The change has its last state as the source sent it.
    pub fn remove(&self, object: impl Into<Arc<Object>>) -> Change {
        let object = object.into();
        let known = {
            let mut contents = self.shard(object.key()).write();
            contents.reindex([object.key()], false);
            let known = contents.objects.take(object.key()).map(|ByKey(known)| known);
            contents.shrink();
            known
        };
        self.measure(&Change::new(known, None));
        Change::new(Some(object), None)
    }

    /// Drops all objects that `keep` refuses, one shard in each step of the iterator.
    pub(crate) fn retain(&self, keep: impl Fn(&Object) -> bool) -> impl Iterator<Item = Vec<Arc<Object>>> {
        self.shards.iter().map(move |shard| {
            let dropped: Vec<_> =
                shard.read().objects.iter().map(|ByKey(object)| object.clone()).filter(|one| !keep(one)).collect();
            let mut contents = shard.write();
            contents.reindex(dropped.iter().map(|object| object.key()), false);
            for object in &dropped {
                contents.objects.remove(object.key());
                self.measure(&Change::new(Some(object.clone()), None));
            }
            contents.shrink();
            dropped
        })
    }

    /// Replaces everything by a list, one shard in each step of the iterator. A step
    /// yields its changes, deletions included; it holds the lock only while it
    /// swaps the objects.
    pub(crate) fn replace(&self, list: ListSnapshot) -> impl Iterator<Item = Vec<Change>> {
        self.shards.iter().zip(list.shards).map(|(shard, objects)| {
            // There is no other writer: what is compared here is unchanged until the
            // swap.
            let mut changes: Vec<Change> = objects
                .iter()
                .map(|ByKey(new)| (shard.get(new.key()), new))
                .filter(|(old, new)| old.as_ref().is_none_or(|old| !Arc::ptr_eq(old, new)))
                .map(|(old, new)| Change::new(old, Some(new.clone())))
                .collect();
            let before = {
                let mut contents = shard.write();
                contents.reindex(changes.iter().filter_map(Change::key), true);
                std::mem::replace(&mut contents.objects, objects)
            };
            let gone: Vec<_> =
                before.into_iter().filter(|ByKey(old)| shard.get(old.key()).is_none()).map(|ByKey(old)| old).collect();
            {
                let mut contents = shard.write();
                contents.reindex(gone.iter().map(|old| old.key()), false);
                contents.shrink();
            }
            changes.extend(gone.into_iter().map(|old| Change::new(Some(old), None)));
            changes.iter().for_each(|change| self.measure(change));
            changes
        })
    }

    /// Updates the number and size of objects.
    fn measure(&self, change: &Change) {
        if let Some(new) = &change.new {
            self.objects.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(new.size(), Ordering::Relaxed);
        }
        if let Some(old) = &change.old {
            self.objects.fetch_sub(1, Ordering::Relaxed);
            self.bytes.fetch_sub(old.size(), Ordering::Relaxed);
        }
    }

    fn shard(&self, key: &ObjectKey) -> &Shard {
        &self.shards[shard_of(key)]
    }
}

#[cfg(test)]
mod tests;
