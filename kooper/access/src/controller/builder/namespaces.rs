//! The namespaces that a controller watches.

use kooper_runtime::{Kind, Namespaced};
use serde::de::DeserializeOwned;

use super::Builder;

/// The setting that needs the labels of namespaces.
pub(crate) const NAMESPACE_SELECTOR: &str = "namespaces(labels)";

/// The setting that needs the metadata of objects that are not selected.
pub(crate) const UNSELECTED: &str = "cleanup of objects that are not selected";

/// The setting that needs to know whether an object was deleted, or has left the controller.
pub(crate) const DELETED: &str = "deleted";

/// The namespace of an operator that has no client, as that of Leases.
const UNKNOWN_NAMESPACE: &str = "default";

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// The namespaces to watch; those of a [`Task`](crate::controller::Task) are the ones that it reads. Default: all.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self
    where
        K: Namespaced,
    {
        self.common.config.namespaces = namespaces.into_iter().map(Into::into).collect();
        self.common.config.own_namespace = false;
        self
    }

    /// Watches the namespace of the operator only: that of its pod, or, outside of a cluster, that of the
    /// kubeconfig's context.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::KindExt;
    ///
    /// let mut controller = Pod::controller("echo").own_namespace().handler(async || {}).build()?;
    /// controller.set_own_namespace("shop");
    /// assert_eq!(controller.namespaces(), ["shop"]);
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn own_namespace(mut self) -> Self
    where
        K: Namespaced,
    {
        // Until the namespace is known, it is not an empty list, which would be all namespaces.
        self.common.config.namespaces = vec![UNKNOWN_NAMESPACE.to_owned()];
        self.common.config.own_namespace = true;
        self
    }

    /// Watches the namespaces that match a label selector. When the labels of a namespace change so that it matches, its
    /// objects are handled like new ones; when it no longer matches, nothing is called for them any more, and no
    /// [`deleted`](Self::deleted). A call that runs then is not interrupted. Readers and the caches of children have the objects
    /// of all namespaces.
    ///
    /// The namespaces are watched, so the role contains `list` and `watch` for them. It excludes
    /// [`namespaces`](Self::namespaces) and [`shards`](Self::shards). `--namespace` on the command line replaces the selector.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::KindExt;
    ///
    /// let controller = Pod::controller("echo").namespace_selector("team=a").handler(async || {}).build()?;
    /// # let _ = controller;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn namespace_selector(mut self, selector: impl Into<String>) -> Self
    where
        K: Namespaced,
    {
        self.common.config.namespace_selector = Some(selector.into());
        self
    }
}
