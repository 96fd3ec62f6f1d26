//! Reading from a cache.

use std::sync::Arc;

use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::CacheId;
use kooper_runtime::internal::watch::store::{Cache, Store};
use kooper_runtime::object::{DecodeError, MalformedObject, Object};
use kooper_runtime::{ControllerContext, Kind, ObjectKey};
use serde::Serialize;

use super::by::Selection;
use super::entry::Entry;
use super::verb::MayRead;
use super::{Access, BoxIterator, Reader};
use crate::subset::selected;

/// Reading from a cache, which [`Reader`] grants. The cache stores bytes: objects
/// are decoded when they are read.
impl<T: Kind, V> Access<T, V> {
    /// The object, or `None` if the cache does not have it: it does not exist, is not
    /// selected, is in a namespace that the controller does not watch, or was created a
    /// moment ago. [`Getter`](super::Getter) distinguishes these.
    ///
    /// # Errors
    /// If the object does not decode as the type.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<T>>, DecodeError>
    where
        V: MayRead<T>,
    {
        self.cached().get(key).map(|object| object.decode().map(Arc::new)).transpose()
    }

    /// All objects, in the order of their keys. Nothing is decoded until
    /// [`Entry::decode`] is called.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kooper::capability::Reader;
    ///
    /// fn names(configs: &Reader<ConfigMap>) -> Vec<String> {
    ///     configs.list().map(|entry| entry.name().to_owned()).collect()
    /// }
    /// ```
    pub fn list(&self) -> BoxIterator<Entry<T>>
    where
        V: MayRead<T>,
    {
        let mut objects = self.cached().all(None);
        objects.sort_unstable_by(|one, other| one.key().cmp(other.key()));
        Box::new(objects.into_iter().map(Entry::new))
    }

    /// The objects of a selection, see [`by`](super::by), in the order of their
    /// keys. Only these are decoded. An object that does not decode is an error
    /// in the iterator, and is not skipped.
    #[must_use]
    pub fn select(&self, by: Selection<T>) -> BoxIterator<Result<Arc<T>, DecodeError>>
    where
        V: MayRead<T>,
    {
        Box::new(self.undecoded(by).map(|object| object?.decode().map(Arc::new)))
    }

    /// The same objects, without decoding them.
    #[doc(hidden)]
    #[must_use]
    pub fn undecoded(&self, by: Selection<T>) -> BoxIterator<Result<Arc<Object>, DecodeError>>
    where
        V: MayRead<T>,
    {
        Box::new(by.of(&self.cached()).into_iter())
    }

    fn cached(&self) -> Cache
    where
        V: MayRead<T>,
    {
        self.controller.cache(CacheId::of::<T>().selecting(selected(&self.controller, V::subset())))
    }
}

impl<T: Kind> Reader<T> {
    /// A reader of these objects, for unit tests of handlers and map functions.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kooper::ObjectKey;
    /// use kooper::capability::Reader;
    ///
    /// let mut settings = ConfigMap::default();
    /// settings.metadata.name = Some("settings".into());
    /// let configs = Reader::fixed([settings])?;
    /// assert!(configs.get(&ObjectKey::cluster_scoped("settings"))?.is_some());
    /// # Ok::<_, kooper::BoxError>(())
    /// ```
    ///
    /// # Errors
    /// If an object has no name or cannot be serialized.
    pub fn fixed(objects: impl IntoIterator<Item = T>) -> Result<Self, MalformedObject>
    where
        T: Serialize,
    {
        let store = Store::default();
        for object in objects {
            store.put(Object::from_typed(&object)?);
        }
        Ok(Self::over(Cache::new([(None, Arc::new(store))])))
    }

    /// The keys of the objects of a selection, without those that its index cannot read.
    /// No object is decoded for its key.
    pub(super) fn keys(&self, by: Selection<T>) -> impl Iterator<Item = ObjectKey> + use<T> {
        by.of(&self.cached()).into_iter().flatten().map(|object| object.key().clone())
    }

    /// A reader of the objects that the controller handles, unless it has only their metadata, or its readers of the kind
    /// have the same cache.
    pub(crate) fn of_handled(controller: &Arc<ControllerContext>) -> Option<Self> {
        let is_apart =
            controller.own_id == CacheId::of::<T>() && !controller.own.is_same(&Self::of(controller).cached());
        is_apart.then(|| Self::over(controller.own.clone()))
    }

    fn over(cache: Cache) -> Self {
        let (id, kind) = (CacheId::of::<T>(), KindInfo::of::<T>());
        let caches = [(id, kind.clone(), cache)].into_iter().collect();
        Self::of(&Arc::new(ControllerContext::detached(kind, id, caches)))
    }
}

#[cfg(test)]
mod tests;
