//! Finds objects by values that are read from them: by label, by owner, or as
//! a type's [`Index`](crate::capability::Index) says.
//!
//! A change only notes that an object is to be read again. Whoever asks next
//! reads it, outside of the store's lock, so that no informer waits for a
//! decoder; an index that nobody asks costs nothing.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Contents, Store};
use crate::key::ObjectKey;
use crate::object::{DecodeError, Object};

/// So many objects are filed at once: the store is held for no longer.
const BATCH: usize = 512;

/// Reads the values that an object is found by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Indexer {
    id: TypeId,
    read: fn(&Object) -> Result<Vec<String>, DecodeError>,
}

impl Indexer {
    /// The indexer that `Id` names.
    pub(crate) fn new<Id: 'static>(read: fn(&Object) -> Result<Vec<String>, DecodeError>) -> Self {
        Self { id: TypeId::of::<Id>(), read }
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

    /// Whether an object may be under one of the values: one that cannot be
    /// read may.
    fn may_find(self, object: &Object, values: &[String]) -> bool {
        (self.read)(object).map_or(true, |own| own.iter().any(|value| values.contains(value)))
    }
}

/// The keys of one store's objects by their values.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    keys: HashMap<Arc<str>, HashSet<ObjectKey>>,
    values: HashMap<ObjectKey, Box<[Arc<str>]>>,
    /// Objects whose present version nobody has read.
    unread: HashSet<ObjectKey>,
    /// Objects that cannot be read: they may be under any value.
    unreadable: HashSet<ObjectKey>,
    /// Held by whoever reads, so that no object is read twice.
    turn: Arc<Mutex<()>>,
}

impl Catalogue {
    /// An object has a new version.
    pub(super) fn changed(&mut self, key: &ObjectKey) {
        self.unread.insert(key.clone());
    }

    /// An object is gone.
    pub(super) fn removed(&mut self, key: &ObjectKey) {
        self.unread.remove(key);
        self.unfile(key);
    }

    fn file(&mut self, key: &ObjectKey, values: Option<Vec<String>>) {
        self.unread.remove(key);
        self.unfile(key);
        let Some(values) = values else {
            self.unreadable.insert(key.clone());
            return;
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

    fn unfile(&mut self, key: &ObjectKey) {
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

    /// What is under one of the values, and what may be.
    fn find(&self, values: &[String]) -> HashSet<&ObjectKey> {
        let under = values.iter().filter_map(|value| self.keys.get(&**value)).flatten();
        under.chain(&self.unreadable).filter(|key| !self.unread.contains(*key)).collect()
    }
}

impl Store {
    /// The objects that have one of the values, and those that cannot be read,
    /// so that it is not known. As of one moment.
    pub(crate) fn find(&self, by: Indexer, values: &[String]) -> Vec<Arc<Object>> {
        if let Some(complete) = self.read().find_complete(by, values) {
            return complete;
        }
        let turn = self.write().catalogue(by).turn.clone();
        let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = self.read().unread(by);
        for batch in unread.chunks(BATCH) {
            let batch: Vec<_> = batch.iter().map(|object| (object, (by.read)(object).ok())).collect();
            self.write().file(by, batch);
        }
        drop(turn);
        // What changed meanwhile is read by itself: the next one to ask files
        // it.
        let (mut found, late) = {
            let contents = self.read();
            (contents.find(by, values), contents.unread(by))
        };
        found.extend(late.into_iter().filter(|object| by.may_find(object, values)));
        found
    }
}

impl Contents {
    /// The index; a new one has read nothing.
    fn catalogue(&mut self, by: Indexer) -> &mut Catalogue {
        let objects = &self.objects;
        let all = || Catalogue { unread: objects.keys().cloned().collect(), ..Catalogue::default() };
        self.catalogues.entry(by.id).or_insert_with(all)
    }

    /// Files what was read, as far as it is still the present version.
    fn file(&mut self, by: Indexer, batch: Vec<(&Arc<Object>, Option<Vec<String>>)>) {
        let Some(catalogue) = self.catalogues.get_mut(&by.id) else { return };
        for (object, values) in batch {
            if self.objects.get(object.key()).is_some_and(|present| Arc::ptr_eq(present, object)) {
                catalogue.file(object.key(), values);
            }
        }
    }

    fn find_complete(&self, by: Indexer, values: &[String]) -> Option<Vec<Arc<Object>>> {
        self.catalogues.get(&by.id)?.unread.is_empty().then(|| self.find(by, values))
    }

    fn find(&self, by: Indexer, values: &[String]) -> Vec<Arc<Object>> {
        let keys = self.catalogues.get(&by.id).map(|catalogue| catalogue.find(values)).unwrap_or_default();
        keys.into_iter().filter_map(|key| self.objects.get(key).cloned()).collect()
    }

    fn unread(&self, by: Indexer) -> Vec<Arc<Object>> {
        let keys = self.catalogues.get(&by.id).into_iter().flat_map(|catalogue| &catalogue.unread);
        keys.filter_map(|key| self.objects.get(key).cloned()).collect()
    }
}

#[cfg(test)]
mod tests;
