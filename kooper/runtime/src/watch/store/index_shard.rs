//! The part of an index for one shard.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use crate::object::DecodeError;
use crate::object::key::ObjectKey;

/// A value with its hash. A lookup asks all shards, and hashes the value once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexValue {
    hash: u64,
    text: Arc<str>,
}

impl IndexValue {
    pub(super) fn new(text: &str) -> Self {
        static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { hash: HASHES.hash_one(text), text: text.into() }
    }

    pub(super) fn is(&self, text: &str) -> bool {
        *self.text == *text
    }
}

impl Hash for IndexValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Takes what is a hash already as it is: that of a value, or a `TypeId`.
#[derive(Debug, Default)]
pub(super) struct HashedHasher(u64);

/// A map whose keys are hashes.
pub(super) type HashedMap<K, V> = HashMap<K, V, BuildHasherDefault<HashedHasher>>;

impl Hasher for HashedHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The keys of one shard's objects, by value.
#[derive(Debug, Default)]
pub(super) struct IndexShard {
    pub(super) keys: HashedMap<IndexValue, HashSet<ObjectKey>>,
    pub(super) values: HashMap<ObjectKey, Box<[IndexValue]>>,
    /// Objects whose current version was not read yet.
    pub(super) unread: HashSet<ObjectKey>,
    /// Objects that cannot be read: they may have any value.
    pub(super) unreadable: HashMap<ObjectKey, DecodeError>,
    /// Locked while a batch is read, so that no object is read twice.
    pub(super) turn: Arc<Mutex<()>>,
}

impl IndexShard {
    /// Marks an object as unread, because it has a new version.
    pub(super) fn mark_changed(&mut self, key: &ObjectKey) {
        self.unread.insert(key.clone());
    }

    /// Removes a deleted object.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.unread.remove(key);
        self.unrecord(key);
    }

    /// Records the values of an object.
    pub(super) fn record(&mut self, key: &ObjectKey, values: Result<Vec<String>, DecodeError>) {
        self.unread.remove(key);
        self.unrecord(key);
        let values = match values {
            Ok(values) => values,
            Err(error) => {
                self.unreadable.insert(key.clone(), error);
                return;
            }
        };
        let values = values.into_iter().map(|value| {
            let value = IndexValue::new(&value);
            let value = self.keys.get_key_value(&value).map_or(value, |(known, _)| known.clone());
            self.keys.entry(value.clone()).or_default().insert(key.clone());
            value
        });
        let values: Box<[IndexValue]> = values.collect();
        if !values.is_empty() {
            self.values.insert(key.clone(), values);
        }
    }

    fn unrecord(&mut self, key: &ObjectKey) {
        self.unreadable.remove(key);
        for value in self.values.remove(key).iter().flatten() {
            if let Some(keys) = self.keys.get_mut(value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(value);
                }
            }
        }
    }

    /// The objects that have one of the values.
    pub(super) fn under(&self, values: &[IndexValue]) -> HashSet<&ObjectKey> {
        values.iter().filter_map(|value| self.keys.get(value)).flatten().collect()
    }
}
