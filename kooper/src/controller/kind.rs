//! The kinds that a controller can be of.

use kube::Resource;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::de::DeserializeOwned;

/// A kind of Kubernetes objects known as a Rust type: those of `k8s-openapi`,
/// and those that derive `CustomResource`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no kind of Kubernetes objects",
    label = "not a kind",
    note = "name a type of `k8s_openapi`, such as `k8s_openapi::api::core::v1::Pod`, or one that derives `kube::CustomResource`"
)]
pub trait Kind: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<K> Kind for K where K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static {}

/// A kind whose objects are in namespaces.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is cluster-scoped: its objects are in no namespace",
    label = "a cluster-scoped kind",
    note = "remove `namespace` or `namespaces`"
)]
pub trait Namespaced: Kind {}

#[diagnostic::do_not_recommend]
impl<K: Kind + Resource<Scope = NamespaceResourceScope>> Namespaced for K {}

/// What is known of a kind at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KindInfo {
    pub(crate) kind: String,
    /// `plural`, or `plural.group`: as kubectl names it.
    pub(crate) resource: String,
    pub(crate) namespaced: bool,
}

impl KindInfo {
    pub(crate) fn of<K: Kind>() -> Self {
        let (group, plural) = (K::group(&()), K::plural(&()));
        Self {
            kind: K::kind(&()).into_owned(),
            resource: if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") },
            namespaced: std::any::TypeId::of::<K::Scope>() != std::any::TypeId::of::<ClusterResourceScope>(),
        }
    }
}
