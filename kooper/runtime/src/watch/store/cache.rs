//! The stores of one kind.

use std::sync::Arc;

use super::{IndexHit, Indexer, Store};
use crate::object::Object;
use crate::object::key::ObjectKey;

/// The stores of one kind: one for all namespaces, or one for each watched
/// namespace.
#[derive(Debug, Clone, Default)]
pub struct Cache {
    stores: Vec<(Option<String>, Arc<Store>)>,
}

impl Cache {
    /// A cache of these stores, each with its namespace; `None` for all namespaces.
    pub fn new(stores: impl IntoIterator<Item = (Option<String>, Arc<Store>)>) -> Self {
        Self { stores: stores.into_iter().collect() }
    }

    /// Returns `true` if the cache contains the objects of a namespace, or with
    /// `None` those of a cluster-scoped kind.
    #[must_use]
    pub fn covers(&self, namespace: Option<&str>) -> bool {
        self.stores.iter().any(|(watched, _)| watched.is_none() || watched.as_deref() == namespace)
    }

    /// The watched namespaces; `None` stands for all of them, and for the place of a cluster-scoped kind.
    pub fn namespaces(&self) -> impl Iterator<Item = Option<&str>> {
        self.stores.iter().map(|(namespace, _)| namespace.as_deref())
    }

    /// Returns `true` if the other cache has the same stores, so that neither can be behind the other.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.stores.iter().zip(&other.stores);
        self.stores.len() == other.stores.len() && pairs.all(|((_, one), (_, other))| Arc::ptr_eq(one, other))
    }

    /// Returns `true` while the server does not serve the kind.
    #[must_use]
    pub fn is_unserved(&self) -> bool {
        self.stores.iter().any(|(_, store)| store.is_unserved())
    }

    /// A place whose objects were not listed, such as one of several namespaces: keys of the others are handled meanwhile.
    #[must_use]
    pub fn unlisted(&self) -> Option<String> {
        let (namespace, _) = self.stores.iter().find(|(_, store)| store.is_unlisted())?;
        Some(
            namespace
                .as_ref()
                .map_or_else(|| "the cluster".to_owned(), |namespace| format!("the namespace `{namespace}`")),
        )
    }

    /// The object with this key; `None` if no store contains it.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.of(key.namespace()).find_map(|(_, store)| store.get(key))
    }

    /// All objects of a namespace, or of all, in no particular order.
    #[must_use]
    pub fn all(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let all = |(watched, store): &(Option<String>, Arc<Store>)| match namespace {
            // An index has them, so that the objects of other namespaces are not visited.
            Some(namespace) if watched.is_none() => store.of_namespace(namespace),
            _ => store.all(),
        };
        self.of(namespace).flat_map(all).collect()
    }

    /// All objects, in no particular order, shard by shard.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Vec<Arc<Object>>> {
        self.stores.iter().flat_map(|(_, store)| store.parts())
    }

    /// The objects of a namespace, or of all, that have one of the values, and those
    /// that cannot be read, in no particular order.
    #[must_use]
    pub fn find(&self, by: Indexer, values: &[String], namespace: Option<&str>) -> Vec<IndexHit> {
        self.of(namespace).flat_map(|(_, store)| store.find(by, values, namespace)).collect()
    }

    /// The stores that may contain objects of a namespace, or of all, each with its namespace.
    fn of(&self, namespace: Option<&str>) -> impl Iterator<Item = &(Option<String>, Arc<Store>)> {
        let may_hold = move |watched: Option<&str>| namespace.is_none() || watched.is_none() || watched == namespace;
        self.stores.iter().filter(move |(watched, _)| may_hold(watched.as_deref()))
    }
}
