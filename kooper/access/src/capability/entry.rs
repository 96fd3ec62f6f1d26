//! An object of a list, decoded on demand.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kooper_runtime::object::{DecodeError, Metadata, Object};
use kooper_runtime::{Kind, ObjectKey};

/// An object of [`Reader::list`](super::Access::list). Its key, uid and version
/// are known, its metadata is read on first use, and
/// [`decode`](Self::decode) decodes the whole object.
pub struct Entry<T> {
    object: Arc<Object>,
    metadata: OnceLock<Metadata>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Kind> Entry<T> {
    /// Decodes the object.
    ///
    /// # Errors
    /// If the object does not decode as the type.
    pub fn decode(&self) -> Result<Arc<T>, DecodeError> {
        self.object.decode().map(Arc::new)
    }
}

impl<T> Entry<T> {
    pub(super) fn new(object: Arc<Object>) -> Self {
        Self { object, metadata: OnceLock::new(), kind: PhantomData }
    }

    /// The namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.object.key()
    }

    /// The name within its namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        self.object.key().name()
    }

    /// The namespace, or `None` for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.object.key().namespace()
    }

    /// The uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.object.uid()
    }

    /// The resource version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.object.version()
    }

    /// The metadata. Spec and status are not decoded.
    ///
    /// # Errors
    /// If the metadata does not decode.
    pub fn metadata(&self) -> Result<&Metadata, DecodeError> {
        match self.metadata.get() {
            Some(metadata) => Ok(metadata),
            None => {
                let metadata = self.object.metadata()?;
                Ok(self.metadata.get_or_init(|| metadata))
            }
        }
    }

    /// The labels.
    ///
    /// # Errors
    /// Like [`metadata`](Self::metadata).
    pub fn labels(&self) -> Result<&BTreeMap<String, String>, DecodeError> {
        self.metadata().map(|metadata| &metadata.labels)
    }

    /// The owner references.
    ///
    /// # Errors
    /// Like [`metadata`](Self::metadata).
    pub fn owners(&self) -> Result<&[OwnerReference], DecodeError> {
        self.metadata().map(|metadata| &*metadata.owner_references)
    }

    /// The generation, if the kind has one.
    ///
    /// # Errors
    /// Like [`metadata`](Self::metadata).
    pub fn generation(&self) -> Result<Option<i64>, DecodeError> {
        self.metadata().map(|metadata| metadata.generation)
    }
}

impl<T> fmt::Debug for Entry<T> {
    /// The identity only: an object may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.object).finish()
    }
}
