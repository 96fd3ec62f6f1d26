//! The objects that a watch has seen last, as raw bytes.

mod index;

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::key::ObjectKey;
use crate::object::{Dictionary, Object};
use index::Catalogue;
pub(crate) use index::Indexer;

/// What one watch knows: written by its informer alone, read by everybody.
#[derive(Debug, Default)]
pub(crate) struct Store {
    contents: RwLock<Contents>,
    dictionary: Dictionary,
}

#[derive(Debug, Default)]
struct Contents {
    objects: HashMap<ObjectKey, Arc<Object>>,
    bytes: usize,
    /// The indexes that somebody has asked.
    catalogues: HashMap<TypeId, Catalogue>,
}

impl Contents {
    fn reindex(&mut self, key: &ObjectKey, is_there: bool) {
        for catalogue in self.catalogues.values_mut() {
            if is_there { catalogue.changed(key) } else { catalogue.removed(key) }
        }
    }
}

/// One object's step from one state to the next.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) old: Option<Arc<Object>>,
    pub(crate) new: Option<Arc<Object>>,
}

impl Change {
    /// The object as it is now, or was last.
    pub(crate) fn last(&self) -> Option<&Arc<Object>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    pub(crate) fn key(&self) -> Option<&ObjectKey> {
        self.last().map(|object| object.key())
    }
}

impl Store {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.read().objects.get(key).cloned()
    }

    /// Every object, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        self.read().objects.values().cloned().collect()
    }

    /// How many objects, and how many bytes they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        let contents = self.read();
        (contents.objects.len(), contents.bytes)
    }

    /// Puts an object in the place of its older version.
    pub(crate) fn put(&self, object: Object) -> Change {
        let new = Arc::new(object.packed(&self.dictionary));
        let mut contents = self.write();
        contents.bytes += new.size();
        let old = contents.objects.insert(new.key().clone(), new.clone());
        contents.bytes -= old.as_ref().map_or(0, |old| old.size());
        contents.reindex(new.key(), true);
        Change { old, new: Some(new) }
    }

    /// Takes an object out. What vanished is its last state as the source
    /// tells it, or else as the store knew it.
    pub(crate) fn remove(&self, object: Object) -> Change {
        let mut contents = self.write();
        if let Some(old) = contents.objects.remove(object.key()) {
            contents.bytes -= old.size();
        }
        contents.reindex(object.key(), false);
        Change { old: Some(Arc::new(object)), new: None }
    }

    /// Puts a whole list in the place of everything, at once. The changes
    /// that this makes come back, those of vanished objects too.
    pub(crate) fn replace(&self, list: Listed) -> Vec<Change> {
        let mut contents = self.write();
        let before = std::mem::replace(&mut contents.objects, list.objects);
        contents.bytes = list.bytes;
        let mut changes = Vec::new();
        for (key, new) in &contents.objects {
            let old = before.get(key).cloned();
            if old.as_ref().is_none_or(|old| !Arc::ptr_eq(old, new)) {
                changes.push(Change { old, new: Some(new.clone()) });
            }
        }
        let gone = before.into_iter().filter(|(key, _)| !contents.objects.contains_key(key));
        changes.extend(gone.map(|(_, old)| Change { old: Some(old), new: None }));
        if !contents.catalogues.is_empty() {
            for change in &changes {
                change.key().into_iter().for_each(|key| contents.reindex(key, change.new.is_some()));
            }
        }
        changes
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A list on its way into the store.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    objects: HashMap<ObjectKey, Arc<Object>>,
    bytes: usize,
}

impl Listed {
    /// Adds an object of the list. One that the store has in this version
    /// already is shared, so that a relist holds nothing twice.
    pub(crate) fn add(&mut self, object: Object, known: &Store) {
        let object = match known.get(object.key()) {
            Some(old) if old.same_version(&object) => old,
            _ => Arc::new(object.packed(&known.dictionary)),
        };
        self.bytes += object.size();
        if let Some(twice) = self.objects.insert(object.key().clone(), object) {
            self.bytes -= twice.size();
        }
    }

    /// An object vanished while the list was sent.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        if let Some(object) = self.objects.remove(key) {
            self.bytes -= object.size();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }
}

/// The stores of one kind: one for all namespaces, or one for each that is
/// watched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache {
    stores: Vec<(Option<String>, Arc<Store>)>,
}

impl Cache {
    pub(crate) fn new(stores: impl IntoIterator<Item = (Option<String>, Arc<Store>)>) -> Self {
        Self { stores: stores.into_iter().collect() }
    }

    /// The stores.
    #[cfg(test)]
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Arc<Store>> {
        self.stores.iter().map(|(_, store)| store)
    }

    /// Whether objects of a namespace, or of none, are in it if they exist.
    pub(crate) fn covers(&self, namespace: Option<&str>) -> bool {
        self.stores.iter().any(|(watched, _)| watched.is_none() || watched.as_deref() == namespace)
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.stores
            .iter()
            .filter(|(namespace, _)| namespace.is_none() || namespace.as_deref() == key.namespace())
            .find_map(|(_, store)| store.get(key))
    }

    /// Every object of a namespace, or of all, in no order.
    pub(crate) fn all(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        self.of(namespace).flat_map(|store| store.all()).filter(|object| is_in(object, namespace)).collect()
    }

    /// The objects of a namespace, or of all, that have one of the values, and
    /// those that cannot be read, so that it is not known. In no order.
    pub(crate) fn find(&self, by: Indexer, values: &[String], namespace: Option<&str>) -> Vec<Arc<Object>> {
        self.of(namespace).flat_map(|store| store.find(by, values)).filter(|object| is_in(object, namespace)).collect()
    }

    /// The stores where objects of a namespace, or of all, may be.
    fn of(&self, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Store>> {
        let may_hold = move |watched: Option<&str>| namespace.is_none() || watched.is_none() || watched == namespace;
        self.stores.iter().filter(move |(watched, _)| may_hold(watched.as_deref())).map(|(_, store)| store)
    }

    /// How many objects, and how many bytes they take, in all stores.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        self.stores.iter().map(|(_, store)| store.size()).fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }
}

fn is_in(object: &Object, namespace: Option<&str>) -> bool {
    namespace.is_none() || object.key().namespace() == namespace
}

#[cfg(test)]
mod tests;
