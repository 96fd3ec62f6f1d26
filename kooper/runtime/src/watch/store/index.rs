//! Indexes: objects by label, by owner, or by the values of an
//! `Index`.
//!
//! A change only marks an object as unread. The next lookup reads it without
//! locking the store, so that informers do not wait for a decoder; an index that
//! is not used costs nothing. The keys are kept by value. Each shard of a store
//! knows what its objects have been read as.

use std::any::TypeId;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Store;
use super::index_shard::{Index, IndexShard};
use super::shard::{Contents, Shard};
use crate::error;
use crate::held::LockGuard;
use crate::object::key::ObjectKey;
use crate::object::kind::short_type_name;
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
        Self { id: TypeId::of::<Id>(), name: short_type_name::<Id>(), read }
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

    /// Objects by their namespaces.
    pub(super) fn namespaces() -> Self {
        enum Namespaces {}
        Self::new::<Namespaces>(|object| Ok(object.key().namespace().map(str::to_owned).into_iter().collect()))
    }

    /// Objects by the uids of their owners.
    #[must_use]
    pub fn owners() -> Self {
        enum Owners {}
        Self::new::<Owners>(|object| {
            let owners = object.owner_references()?;
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
    fn check(self, object: Arc<Object>, values: &[String]) -> Option<IndexHit> {
        match self.values(&object) {
            Ok(own) => own.iter().any(|value| values.contains(value)).then_some(IndexHit { object, error: None }),
            Err(error) => Some(IndexHit { object, error: Some(error) }),
        }
    }
}

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
    /// The objects of a namespace, or of all, that have one of the values, and those
    /// that cannot be read. It first reads all unread objects, which may take long;
    /// changes in that time may or may not be in the result.
    pub(crate) fn find(&self, by: Indexer, values: &[String], namespace: Option<&str>) -> Vec<IndexHit> {
        let index = self.index(by);
        let read = || self.shards.iter().for_each(|shard| shard.read_all(by, &index));
        match index.pending() {
            0 => {}
            // Those that cannot be read stay pending, and are not read again.
            pending if pending > MANY && self.unread(by) > MANY => off_the_runtime(read),
            _ => read(),
        }
        let (mut found, late) = self.look_up(by, &index, values, namespace);
        // Objects that have changed meanwhile are checked here; the next call records them.
        found.extend(late.into_iter().filter_map(|object| by.check(object, values)));
        found
    }

    /// The objects of a namespace, or of all, that have one of the values or cannot be read, and those that have changed
    /// since they were read.
    fn look_up(
        &self,
        by: Indexer,
        index: &Index,
        values: &[String],
        namespace: Option<&str>,
    ) -> (Vec<IndexHit>, Vec<Arc<Object>>) {
        let _same = LockGuard::new(index.recording.read());
        let (mut found, mut late) = (Vec::new(), HashMap::new());
        for key in index.under(values, namespace) {
            match self.shard(&key).read().find(by, &key, values) {
                Some((object, Some(true))) => found.push(IndexHit { object, error: None }),
                Some((object, None)) => drop(late.insert(key, object)),
                Some((_, Some(false))) | None => {}
            }
        }
        if index.pending() > 0 {
            for shard in &self.shards {
                let contents = shard.read();
                found.extend(contents.unreadable(by, namespace));
                late.extend(contents.late(by, namespace).into_iter().map(|object| (object.key().clone(), object)));
            }
            // One that was found may have changed since.
            found.retain(|hit| !late.contains_key(hit.object.key()));
        }
        (found, late.into_values().collect())
    }

    /// The number of objects that were not read.
    fn unread(&self, by: Indexer) -> usize {
        self.shards.iter().filter_map(|shard| Some(shard.read().indexes.get(&by.id)?.unread().len())).sum()
    }

    pub(super) fn of_namespace(&self, namespace: &str) -> Vec<Arc<Object>> {
        let found = self.find(Indexer::namespaces(), &[namespace.to_owned()], Some(namespace));
        found.into_iter().map(|hit| hit.object).collect()
    }

    /// The index; in a new one, all objects are unread.
    fn index(&self, by: Indexer) -> Arc<Index> {
        if let Some(index) = self.indexes.read().get(&by.id) {
            return index.clone();
        }
        let mut indexes = self.indexes.write();
        if let Some(index) = indexes.get(&by.id) {
            return index.clone();
        }
        let index = Arc::default();
        self.shards.iter().for_each(|shard| shard.write().index(by, &index));
        indexes.insert(by.id, Arc::clone(&index));
        index
    }
}

impl Shard {
    /// Reads the unread objects and records their values.
    fn read_all(&self, by: Indexer, index: &Index) {
        let Some((unread, turn)) = self.read().turn(by) else { return };
        for batch in unread.chunks(BATCH) {
            let _turn = LockGuard::new(turn.lock());
            // Another call may have read some of them.
            let batch = self.read().unread(by, batch);
            let batch: Vec<_> = batch.into_iter().map(|object| (by.values(&object), object)).collect();
            let _recording = LockGuard::new(index.recording.write());
            self.write().record(by, batch);
        }
    }
}

impl Contents {
    /// Adds the part of a new index.
    fn index(&mut self, by: Indexer, index: &Arc<Index>) {
        let unread = self.objects.iter().map(|object| object.0.key().clone()).collect();
        self.indexes.insert(by.id, IndexShard::new(index, unread));
    }

    /// The unread objects, and the lock of those who read them.
    fn turn(&self, by: Indexer) -> Option<(Vec<ObjectKey>, Arc<Mutex<()>>)> {
        let index = self.indexes.get(&by.id)?;
        Some((index.unread().iter().cloned().collect(), index.turn.clone()))
    }

    /// The current versions of the unread objects among `keys`.
    fn unread(&self, by: Indexer, keys: &[ObjectKey]) -> Vec<Arc<Object>> {
        let Some(index) = self.indexes.get(&by.id) else { return Vec::new() };
        keys.iter().filter(|key| index.unread().contains(*key)).filter_map(|key| self.get(key).cloned()).collect()
    }

    /// Records values, unless the object has changed since they were read.
    fn record(&mut self, by: Indexer, batch: Vec<ReadValues>) {
        let Self { objects, indexes } = self;
        let Some(index) = indexes.get_mut(&by.id) else { return };
        for (values, object) in batch {
            if objects.get(object.key()).is_some_and(|present| Arc::ptr_eq(&present.0, &object)) {
                index.record(object.key(), values);
            }
        }
        index.shrink();
    }

    /// The object with this key, and whether it has one of the values, if that was read.
    fn find(&self, by: Indexer, key: &ObjectKey, values: &[String]) -> Option<(Arc<Object>, Option<bool>)> {
        let index = self.indexes.get(&by.id)?;
        Some((self.get(key)?.clone(), index.has(key, values)))
    }

    /// The objects of a namespace, or of all, that cannot be read.
    fn unreadable(&self, by: Indexer, namespace: Option<&str>) -> Vec<IndexHit> {
        let Some(index) = self.indexes.get(&by.id) else { return Vec::new() };
        let unreadable = index.unreadable().iter().filter(|(key, _)| key.is_in(namespace));
        let current = unreadable.filter(|(key, _)| !index.unread().contains(*key));
        let hit = |(key, error): (&ObjectKey, &DecodeError)| {
            Some(IndexHit { object: self.get(key)?.clone(), error: Some(error.clone()) })
        };
        current.filter_map(hit).collect()
    }

    /// The objects of a namespace, or of all, that have changed since they were read.
    fn late(&self, by: Indexer, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let Some(index) = self.indexes.get(&by.id) else { return Vec::new() };
        let late = index.unread().iter().filter(|key| key.is_in(namespace));
        late.filter_map(|key| self.get(key).cloned()).collect()
    }
}

#[cfg(test)]
mod tests;
