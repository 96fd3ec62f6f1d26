//! Kinds of Kubernetes objects.

use std::any::TypeId;

use kooper_grammar::access::Rule;
use kube::Resource;
use kube::core::metadata::PartialObjectMeta;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::de::DeserializeOwned;

/// A kind of Kubernetes objects as a Rust type: the types of `k8s-openapi`, and
/// those that derive `CustomResource`.
///
/// It is implemented for every such type. Generic handlers need it as a bound:
///
/// ```
/// use kooper::prelude::*;
///
/// async fn log<K: Kind>(object: Arc<K>) -> Result<()> {
///     tracing::info!(name = %object.name_any(), "seen");
///     Ok(())
/// }
/// # let _ = log::<k8s_openapi::api::core::v1::Pod>;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of Kubernetes object",
    label = "not a kind",
    note = "name a type of `k8s_openapi`, such as `k8s_openapi::api::core::v1::Pod`, or one that derives `kube::CustomResource`"
)]
pub trait Kind: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<K> Kind for K where K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static {}

/// A kind whose objects are in namespaces. It is implemented for every such type, and for the kind of tasks, which read the
/// objects of namespaces.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is cluster-scoped: its objects have no namespace",
    label = "a cluster-scoped kind",
    note = "remove `namespace` or `namespaces`; in `shards`, remove `by = namespace`"
)]
pub trait Namespaced: Kind {}

#[diagnostic::do_not_recommend]
impl<K: Kind<Scope: InNamespaces>> Namespaced for K {}

/// The scope of kinds whose objects are in namespaces: a bound by a trait, as a scope that must be equal would be a
/// mismatch of types, for which no message can be given.
#[doc(hidden)]
pub trait InNamespaces {}

impl InNamespaces for NamespaceResourceScope {}

/// The scope of a kind whose objects exist in the process only, and have no namespace. Its controller can be limited to
/// namespaces all the same: to those whose objects it reads.
#[doc(hidden)]
#[derive(Debug)]
pub struct InProcess;

impl InNamespaces for InProcess {}

/// Returns `true` if `K` is `PartialObjectMeta` of any kind, for which only metadata is fetched.
#[must_use]
pub fn is_metadata<K>() -> bool {
    // The kind within it is another type each time, so that only the name is the same.
    fn generic<T>() -> Option<&'static str> {
        std::any::type_name::<T>().split_once('<').map(|(name, _)| name)
    }
    generic::<K>().is_some_and(|name| Some(name) == generic::<PartialObjectMeta<()>>())
}

/// The name of a type without its path and its parameters, for messages.
#[must_use]
pub fn short_type_name<T>() -> &'static str {
    let path = std::any::type_name::<T>();
    path.split('<').next().and_then(|path| path.rsplit("::").next()).unwrap_or(path)
}

/// A kind at run time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindInfo {
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The API group; the core group is empty.
    pub group: String,
    /// The version within the group, such as `v1`.
    pub version: String,
    /// The resource in URLs and RBAC rules, such as `deployments`.
    pub plural: String,
    /// `true` if the objects are in namespaces, `false` if the kind is cluster-scoped.
    pub namespaced: bool,
}

impl KindInfo {
    /// The kind of `K`.
    #[must_use]
    pub fn of<K: Kind>() -> Self {
        let without_namespaces = [TypeId::of::<ClusterResourceScope>(), TypeId::of::<InProcess>()];
        Self {
            kind: K::kind(&()).into_owned(),
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            namespaced: !without_namespaces.contains(&TypeId::of::<K::Scope>()),
        }
    }

    /// Returns `true` if both have the same objects, possibly in different API versions.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        // Many kinds have the same group.
        self.plural == other.plural && self.group == other.group
    }

    /// Returns `true` if the kind is `Secret`.
    pub(crate) fn is_secret(&self) -> bool {
        self.group.is_empty() && self.plural == "secrets"
    }

    /// `plural` or `plural.group`, as kubectl takes it.
    #[must_use]
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The RBAC rule that grants verbs on the objects, or on a subresource.
    #[must_use]
    pub fn rule(&self, subresource: Option<&str>, verbs: &[&str]) -> Rule {
        Rule::new(&self.group, &self.plural, subresource, verbs)
    }

    /// The URL path of the objects in a namespace, or in all.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let namespace = namespace.map_or(String::new(), |namespace| format!("namespaces/{namespace}/"));
        format!("{root}/{}/{namespace}{}", self.api_version(), self.plural)
    }

    /// `version` or `group/version`, as in manifests.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}
