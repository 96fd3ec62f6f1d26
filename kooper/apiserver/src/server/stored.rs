//! Objects as they are stored, without a request.

use std::sync::Arc;

use serde_json::Value;

use crate::kinds::Kind;
use crate::store::Object;

/// An object as it is stored, from [`ApiServer::objects`](super::ApiServer::objects).
#[derive(Clone, Debug)]
pub struct StoredObject {
    kind: Arc<Kind>,
    key: Arc<str>,
    object: Arc<Object>,
}

impl StoredObject {
    /// The objects of a kind, by key.
    pub(super) fn all(kind: &Arc<Kind>) -> Vec<Self> {
        let tree = kind.table.snapshot().tree;
        let stored = |(key, object): (&Arc<str>, &Arc<Object>)| Self {
            kind: Arc::clone(kind),
            key: Arc::clone(key),
            object: Arc::clone(object),
        };
        tree.range("").map(stored).collect()
    }

    /// The object of a kind with this key.
    pub(super) fn get(kind: &Arc<Kind>, key: &str) -> Option<Self> {
        let object = kind.table.get(key)?;
        Some(Self { kind: Arc::clone(kind), key: key.into(), object })
    }

    /// Its kind, such as `Deployment`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind.kind
    }

    /// The API group of its kind; the core group is empty.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.kind.group
    }

    /// The resource, such as `deployments`.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.kind.resource
    }

    /// `namespace/name`, or its name if it is cluster-scoped.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.object.traits().uid
    }

    /// The resource version of its last change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.object.version
    }

    /// The whole object.
    #[must_use]
    pub fn json(&self) -> Value {
        self.object.value()
    }
}
