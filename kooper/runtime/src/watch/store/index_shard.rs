//! The part of an index for one shard.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::object::DecodeError;
use crate::object::key::ObjectKey;

/// The keys of one shard's objects, by value.
#[derive(Debug, Default)]
pub(super) struct IndexShard {
    pub(super) keys: HashMap<Arc<str>, HashSet<ObjectKey>>,
    pub(super) values: HashMap<ObjectKey, Box<[Arc<str>]>>,
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
            let value = self.keys.get_key_value(&*value).map_or_else(|| value.into(), |(known, _)| known.clone());
            self.keys.entry(value.clone()).or_default().insert(key.clone());
            value
        });
        let values: Box<[Arc<str>]> = values.collect();
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
    pub(super) fn under(&self, values: &[String]) -> HashSet<&ObjectKey> {
        values.iter().filter_map(|value| self.keys.get(&**value)).flatten().collect()
    }
}
