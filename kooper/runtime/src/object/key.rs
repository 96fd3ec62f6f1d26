//! The key of an object: its namespace and name.

use std::fmt;
use std::sync::Arc;

use kube::Resource as _;

use super::as_object::AsObject;

/// The namespace and name of an object. The work queue contains keys, and the logs
/// show them.
///
/// As a string it is `namespace/name`, or `name` for a cluster-scoped object, as
/// in client-go. Cloning it is cheap.
///
/// ```
/// use kooper::ObjectKey;
///
/// let pod = ObjectKey::namespaced("shop", "web-0");
/// assert_eq!((pod.namespace(), pod.name()), (Some("shop"), "web-0"));
/// assert_eq!(pod.to_string(), "shop/web-0");
///
/// let node = ObjectKey::cluster_scoped("node-1");
/// assert_eq!((node.namespace(), node.name()), (None, "node-1"));
/// ```
#[doc(alias = "namespaced name")]
#[doc(alias = "NamespacedName")]
#[doc(alias = "ObjectRef")]
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    text: Arc<str>,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self { text: [namespace, "/", name].concat().into() }
    }

    /// The key of a cluster-scoped object.
    #[must_use]
    pub fn cluster_scoped(name: &str) -> Self {
        Self { text: name.into() }
    }

    /// The key of an object that may have a namespace; an empty one counts as none.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) if !namespace.is_empty() => Self::namespaced(namespace, name),
            _ => Self::cluster_scoped(name),
        }
    }

    /// The key of an object, or of the `Arc` that a handler takes.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kooper::prelude::*;
    ///
    /// async fn read(config: Arc<ConfigMap>, secrets: Reader<Secret>) -> Result<()> {
    ///     // The Secret beside it, in the same namespace.
    ///     let key = ObjectKey::of(&config).with_name("password");
    ///     tracing::info!(found = secrets.get(&key)?.is_some());
    ///     Ok(())
    /// }
    /// # let _ = ConfigMap::controller("read").handler(read).build().unwrap();
    /// ```
    #[must_use]
    pub fn of<M>(object: &impl AsObject<M>) -> Self {
        let meta = object.as_object().meta();
        Self::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
    }

    /// The key of another object, in the same namespace if there is one.
    #[must_use]
    pub fn with_name(&self, name: &str) -> Self {
        Self::new(self.namespace(), name)
    }

    /// The namespace, or `None` for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.text.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        // Neither a namespace nor a name can contain a slash: each is one segment
        // of a URL path.
        self.text.split_once('/').map_or(&*self.text, |(_, name)| name)
    }

    /// Returns `true` if the object is in the namespace, or if any namespace will do.
    pub(crate) fn is_in(&self, namespace: Option<&str>) -> bool {
        namespace.is_none() || self.namespace() == namespace
    }

    /// The key as a string: `namespace/name` or `name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node};

    use super::*;

    #[test]
    fn an_object_has_a_key_and_others_are_beside_it() {
        let mut config = ConfigMap::default();
        config.metadata.name = Some("shop".to_owned());
        config.metadata.namespace = Some("trade".to_owned());
        assert_eq!(ObjectKey::of(&config), ObjectKey::namespaced("trade", "shop"));
        assert_eq!(ObjectKey::of(&Arc::new(config)).with_name("stall"), ObjectKey::namespaced("trade", "stall"));
        assert_eq!(ObjectKey::of(&Node::default()).with_name("a"), ObjectKey::cluster_scoped("a"));
    }

    #[test]
    fn a_key_has_the_namespace_and_name_that_it_was_created_from() {
        let key = ObjectKey::namespaced("shop", "web-0");
        assert_eq!((key.namespace(), key.name()), (Some("shop"), "web-0"));
        assert_eq!(key.to_string(), "shop/web-0");
    }

    #[test]
    fn a_cluster_scoped_key_has_no_namespace() {
        for key in
            [ObjectKey::cluster_scoped("node-1"), ObjectKey::new(None, "node-1"), ObjectKey::new(Some(""), "node-1")]
        {
            assert_eq!((key.namespace(), key.name()), (None, "node-1"));
        }
    }
}
