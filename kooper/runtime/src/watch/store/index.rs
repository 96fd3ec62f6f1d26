//! Indexes: objects by label, by owner, or by the values of an
//! `Index`.
//!
//! A change only marks an object as unread. The next lookup reads it without
//! locking the store, so that informers do not wait for a decoder; an index that
//! is not used costs nothing. Each shard of a store has its own part of every
//! index.

use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Store;
use super::index_shard::{IndexShard, IndexValue};
use super::shard::{Contents, Shard};
use crate::error;
use crate::held::Held;
use crate::object::key::ObjectKey;
use crate::object::{DecodeError, Object};
use crate::watch::blocking::off_the_runtime;

/// The number of objects that are read and recorded at once, to bound the time
/// that a lock is held.
const BATCH: usize = 64;

/// Reading more objects takes so long that the other tasks of the thread are
/// moved to another one.
const MANY: usize = 1024;

/// Reads the values of an object for an index.
#[derive(Debug, Clone, Copy)]
pub struct Indexer {
    id: TypeId,
    name: &'static str,
    read: fn(&Object) -> Result<Vec<String>, DecodeError>,
}

impl Indexer {
    /// The indexer with the type `Id` as its name.
    pub fn new<Id: 'static>(read: fn(&Object) -> Result<Vec<String>, DecodeError>) -> Self {
        let name = std::any::type_name::<Id>().rsplit("::").next().unwrap_or_default();
        Self { id: TypeId::of::<Id>(), name, read }
    }

    /// Objects by their labels, each as `key=value`.
    #[must_use]
    pub fn labels() -> Self {
        enum Labels {}
        Self::new::<Labels>(|object| {
            let labels = object.metadata()?.labels;
            Ok(labels.iter().map(|(key, value)| format!("{key}={value}")).collect())
        })
    }

    /// Objects by the uids of their owners.
    #[must_use]
    pub fn owners() -> Self {
        enum Owners {}
        Self::new::<Owners>(|object| {
            let owners = object.metadata()?.owner_references;
            Ok(owners.into_iter().map(|owner| owner.uid).collect())
        })
    }

    /// The values of an object. It is unreadable if it does not decode or the index
    /// panics.
    fn values(self, object: &Object) -> Result<Vec<String>, DecodeError> {
        catch_unwind(AssertUnwindSafe(|| (self.read)(object))).unwrap_or_else(|panic| {
            let text = format!("the index panicked: {}", error::panic_text(&*panic));
            tracing::error!(index = self.name, key = %object.key(), "{text}");
            Err(DecodeError::unread(object.key().clone(), self.name, &text))
        })
    }

    /// The object, if it has one of the values or cannot be read.
    fn check(self, object: Arc<Object>, values: &[IndexValue]) -> Option<IndexHit> {
        let has = |own: &String| values.iter().any(|value| value.is(own));
        match self.values(&object) {
            Ok(own) => own.iter().any(has).then_some(IndexHit { object, error: None }),
            Err(error) => Some(IndexHit { object, error: Some(error) }),
        }
    }
}

/// An object with its values.
type ReadValues = (Result<Vec<String>, DecodeError>, Arc<Object>);

/// An object that an index found.
#[derive(Debug)]
pub struct IndexHit {
    /// The object.
    pub object: Arc<Object>,
    /// The reason if it could not be read, so that it may have any value.
    pub error: Option<DecodeError>,
}

impl Store {
    /// The objects that have one of the values, and those that cannot be read. It
    /// first reads all unread objects, which may take long; changes in that time
    /// may or may not be in the result.
    pub(crate) fn find(&self, by: Indexer, values: &[String]) -> Vec<IndexHit> {
        let values: Vec<_> = values.iter().map(|value| IndexValue::new(value)).collect();
        let (mut found, mut unread) = (Vec::new(), 0);
        for shard in &self.shards {
            let contents = shard.read();
            match contents.unread_count(by) {
                0 => contents.find(by, &values, &mut found),
                count => unread += count,
            }
        }
        if unread == 0 {
            return found;
        }
        let read = || self.shards.iter().for_each(|shard| shard.read_all(by));
        if unread > MANY {
            off_the_runtime(read);
        } else {
            read();
        }
        // Objects of other shards may have changed meanwhile.
        found.clear();
        self.shards.iter().for_each(|shard| shard.find(by, &values, &mut found));
        found
    }
}

impl Shard {
    fn find(&self, by: Indexer, values: &[IndexValue], found: &mut Vec<IndexHit>) {
        // Objects that changed meanwhile are checked here; the next call records them.
        let late = {
            let contents = self.read();
            contents.find(by, values, found);
            contents.late(by)
        };
        found.extend(late.into_iter().filter_map(|object| by.check(object, values)));
    }

    /// Reads the unread objects and records their values.
    fn read_all(&self, by: Indexer) {
        if self.read().unread_count(by) == 0 {
            return;
        }
        let (unread, turn) = {
            let mut contents = self.write();
            (contents.catalogue(by).unread.iter().cloned().collect::<Vec<_>>(), contents.catalogue(by).turn.clone())
        };
        for batch in unread.chunks(BATCH) {
            let _turn = Held::new(turn.lock());
            // Another call may have read some of them.
            let batch = self.read().unread(by, batch);
            let batch: Vec<_> = batch.into_iter().map(|object| (by.values(&object), object)).collect();
            self.write().record(by, batch);
        }
    }
}

impl Contents {
    /// The index; in a new one, all objects are unread.
    fn catalogue(&mut self, by: Indexer) -> &mut IndexShard {
        let objects = &self.objects;
        let all = || IndexShard {
            unread: objects.iter().map(|object| object.0.key().clone()).collect(),
            ..IndexShard::default()
        };
        self.catalogues.entry(by.id).or_insert_with(all)
    }

    /// The number of unread objects.
    fn unread_count(&self, by: Indexer) -> usize {
        self.catalogues.get(&by.id).map_or(self.objects.len(), |catalogue| catalogue.unread.len())
    }

    /// The current versions of the unread objects among `keys`.
    fn unread(&self, by: Indexer, keys: &[ObjectKey]) -> Vec<Arc<Object>> {
        let Some(catalogue) = self.catalogues.get(&by.id) else { return Vec::new() };
        keys.iter().filter(|key| catalogue.unread.contains(*key)).filter_map(|key| self.get(key).cloned()).collect()
    }

    /// Records values, unless the object has changed since they were read.
    fn record(&mut self, by: Indexer, batch: Vec<ReadValues>) {
        let Self { objects, catalogues } = self;
        let Some(catalogue) = catalogues.get_mut(&by.id) else { return };
        for (values, object) in batch {
            if objects.get(object.key()).is_some_and(|present| Arc::ptr_eq(&present.0, &object)) {
                catalogue.record(object.key(), values);
            }
        }
    }

    fn find(&self, by: Indexer, values: &[IndexValue], found: &mut Vec<IndexHit>) {
        let Some(catalogue) = self.catalogues.get(&by.id) else { return };
        let present = |key: &ObjectKey| self.get(key).filter(|_| !catalogue.unread.contains(key)).cloned();
        let readable = catalogue.under(values).into_iter().map(|key| (key, None));
        let unreadable = catalogue.unreadable.iter().map(|(key, error)| (key, Some(error)));
        let hit =
            |(key, error): (_, Option<&DecodeError>)| Some(IndexHit { object: present(key)?, error: error.cloned() });
        found.extend(readable.chain(unreadable).filter_map(hit));
    }

    /// The objects that have changed since they were read.
    fn late(&self, by: Indexer) -> Vec<Arc<Object>> {
        match self.catalogues.get(&by.id) {
            Some(catalogue) => catalogue.unread.iter().filter_map(|key| self.get(key).cloned()).collect(),
            None => self.objects.iter().map(|object| object.0.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
