//! Finds objects by values that are read from them: by label, by owner, or as
//! a type's [`Index`](crate::call::capability::Index) says.
//!
//! A change only notes that an object has to be read again. The next call that
//! asks reads it, outside of the store's locks, so that no informer waits for a
//! decoder; an index that is never asked costs nothing. Each shard of a store
//! has its own part of every index.

use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use super::Store;
use super::catalogue::Catalogue;
use super::shard::{Contents, Shard};
use crate::error;
use crate::metrics::held::Held;
use crate::object::key::ObjectKey;
use crate::object::{DecodeError, Object};

/// So many objects are read and filed at once: no lock is held for longer.
const BATCH: usize = 64;

/// To read more objects than these takes long enough that other tasks of the
/// thread are given to another one.
const MANY: usize = 1024;

/// Reads the values that an object is found by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Indexer {
    id: TypeId,
    name: &'static str,
    read: fn(&Object) -> Result<Vec<String>, DecodeError>,
}

impl Indexer {
    /// The indexer that `Id` names.
    pub(crate) fn new<Id: 'static>(read: fn(&Object) -> Result<Vec<String>, DecodeError>) -> Self {
        let name = std::any::type_name::<Id>().rsplit("::").next().unwrap_or_default();
        Self { id: TypeId::of::<Id>(), name, read }
    }

    /// By labels, each as `key=value`.
    pub(crate) fn labels() -> Self {
        enum Labels {}
        Self::new::<Labels>(|object| {
            let labels = object.metadata()?.labels;
            Ok(labels.iter().map(|(key, value)| format!("{key}={value}")).collect())
        })
    }

    /// By the uids of owners.
    pub(crate) fn owners() -> Self {
        enum Owners {}
        Self::new::<Owners>(|object| {
            let owners = object.metadata()?.owner_references;
            Ok(owners.into_iter().map(|owner| owner.uid).collect())
        })
    }

    /// The values of an object. It cannot be read where it does not decode or
    /// the index panics.
    fn values(self, object: &Object) -> Result<Vec<String>, DecodeError> {
        catch_unwind(AssertUnwindSafe(|| (self.read)(object))).unwrap_or_else(|panic| {
            let text = format!("the index panicked: {}", error::panic_text(&*panic));
            tracing::error!(index = self.name, key = %object.key(), "{text}");
            Err(DecodeError::unread(object.key().clone(), self.name, &text))
        })
    }

    /// The object, where it is under one of the values or cannot be read.
    fn check(self, object: Arc<Object>, values: &[String]) -> Option<Found> {
        match self.values(&object) {
            Ok(own) => own.iter().any(|value| values.contains(value)).then_some(Found { object, error: None }),
            Err(error) => Some(Found { object, error: Some(error) }),
        }
    }
}

/// An object with the values that an index has read of it.
type Read = (Result<Vec<String>, DecodeError>, Arc<Object>);

/// An object that an index has under a value.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) object: Arc<Object>,
    /// Why it could not be read, so that it may be under any value.
    pub(crate) error: Option<DecodeError>,
}

impl Store {
    /// The objects that have one of the values, and those that cannot be read,
    /// so that it is not known. As they are when everything is read, which may
    /// take long; a change of that moment may be in the answer or not.
    pub(crate) fn find(&self, by: Indexer, values: &[String]) -> Vec<Found> {
        let unread = self.shards.iter().map(|shard| shard.read().unread_count(by)).sum::<usize>();
        let read = || self.shards.iter().for_each(|shard| shard.read_all(by));
        if unread > MANY {
            off_the_runtime(read);
        } else {
            read();
        }
        self.shards.iter().flat_map(|shard| shard.find(by, values)).collect()
    }
}

/// Does what takes long. The other tasks of a runtime's thread go on on
/// another thread, where the runtime has several.
fn off_the_runtime(work: impl FnOnce()) {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        _ => work(),
    }
}

impl Shard {
    fn find(&self, by: Indexer, values: &[String]) -> Vec<Found> {
        // What changed meanwhile is read by itself: the next call files it.
        let (mut found, late) = {
            let contents = self.read();
            (contents.find(by, values), contents.late(by))
        };
        found.extend(late.into_iter().filter_map(|object| by.check(object, values)));
        found
    }

    /// Reads what is unread, and files it.
    fn read_all(&self, by: Indexer) {
        if self.read().unread_count(by) == 0 {
            return;
        }
        let (unread, turn) = {
            let mut contents = self.write();
            (contents.catalogue(by).unread.iter().cloned().collect::<Vec<_>>(), contents.catalogue(by).turn.clone())
        };
        for batch in unread.chunks(BATCH) {
            let _turn = Held::new(turn.lock().unwrap_or_else(PoisonError::into_inner));
            // Another call may have read some of them.
            let batch = self.read().unread(by, batch);
            let batch: Vec<_> = batch.into_iter().map(|object| (by.values(&object), object)).collect();
            self.write().file(by, batch);
        }
    }
}

impl Contents {
    /// The index; a new one has read nothing.
    fn catalogue(&mut self, by: Indexer) -> &mut Catalogue {
        let objects = &self.objects;
        let all = || Catalogue {
            unread: objects.iter().map(|object| object.0.key().clone()).collect(),
            ..Catalogue::default()
        };
        self.catalogues.entry(by.id).or_insert_with(all)
    }

    /// How many objects the index has not read.
    fn unread_count(&self, by: Indexer) -> usize {
        self.catalogues.get(&by.id).map_or(self.objects.len(), |catalogue| catalogue.unread.len())
    }

    /// The present versions of those that are unread.
    fn unread(&self, by: Indexer, keys: &[ObjectKey]) -> Vec<Arc<Object>> {
        let Some(catalogue) = self.catalogues.get(&by.id) else { return Vec::new() };
        keys.iter().filter(|key| catalogue.unread.contains(*key)).filter_map(|key| self.get(key).cloned()).collect()
    }

    /// Files what was read, as far as it is still the present version.
    fn file(&mut self, by: Indexer, batch: Vec<Read>) {
        let Self { objects, catalogues } = self;
        let Some(catalogue) = catalogues.get_mut(&by.id) else { return };
        for (values, object) in batch {
            if objects.get(object.key()).is_some_and(|present| Arc::ptr_eq(&present.0, &object)) {
                catalogue.file(object.key(), values);
            }
        }
    }

    fn find(&self, by: Indexer, values: &[String]) -> Vec<Found> {
        let Some(catalogue) = self.catalogues.get(&by.id) else { return Vec::new() };
        let present = |key: &ObjectKey| self.get(key).filter(|_| !catalogue.unread.contains(key)).cloned();
        let readable = catalogue.under(values).into_iter().map(|key| (key, None));
        let unreadable = catalogue.unreadable.iter().map(|(key, error)| (key, Some(error)));
        readable
            .chain(unreadable)
            .filter_map(|(key, error)| Some(Found { object: present(key)?, error: error.cloned() }))
            .collect()
    }

    /// The objects that have changed since the index read them.
    fn late(&self, by: Indexer) -> Vec<Arc<Object>> {
        match self.catalogues.get(&by.id) {
            Some(catalogue) => catalogue.unread.iter().filter_map(|key| self.get(key).cloned()).collect(),
            None => self.objects.iter().map(|object| object.0.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
