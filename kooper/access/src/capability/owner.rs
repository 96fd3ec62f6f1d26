//! Owners of children, and their references.

use std::any::TypeId;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kooper_runtime::ObjectKey;
pub use kooper_runtime::internal::object::OWNER;
use kooper_runtime::internal::object::as_object::AsObject;
use kooper_runtime::object::Metadata;
use kube::Resource;
use kube::core::ClusterResourceScope;
use serde_json::Value;

/// A label of objects that were adopted: they may hold the data of another client.
#[doc(hidden)]
pub const ADOPTED: &str = "kooper.rs/adopted";

/// Why an object cannot be the child of another one. It is not retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The owner has no name or no uid: it was not read from the API server.
    #[error("the owner, a {owner}, has no name or no uid: pass the object that the handler was called for")]
    Unborn {
        /// The owner's kind.
        owner: String,
    },
    /// The owner is in another namespace.
    #[error(
        "{child} in namespace `{namespace}` cannot be owned by {owner}: a namespaced owner and its children must be \
         in the same namespace; declare it in `children` with `deletion = ordered`, or delete it in `cleanup`"
    )]
    OtherNamespace {
        /// The child, as `Kind name`.
        child: String,
        /// The child's namespace.
        namespace: String,
        /// The owner, as `Kind namespace/name`.
        owner: String,
    },
    /// The owner is in a namespace, and the child is cluster-scoped.
    #[error(
        "{child} is cluster-scoped and cannot be owned by {owner}, which is namespaced: declare it in `children` with \
         `deletion = ordered`, or delete it in `cleanup`"
    )]
    ChildOfCluster {
        /// The child, as `Kind name`.
        child: String,
        /// The owner, as `Kind namespace/name`.
        owner: String,
    },
    /// The child has another controlling owner.
    #[error("{child} already has the controller {controller}: an object can have only one")]
    Controlled {
        /// The child, as `Kind name`.
        child: String,
        /// The other owner, as `Kind name`.
        controller: String,
    },
}

/// Sets the owner reference of a child: the owner controls it, and it is deleted
/// with the owner. A child without a namespace gets its owner's.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kooper::capability::owned_by;
///
/// # let mut owner = ConfigMap::default();
/// # owner.metadata.name = Some("shop".to_owned());
/// # owner.metadata.namespace = Some("web".to_owned());
/// # owner.metadata.uid = Some("1".to_owned());
/// let mut child = Secret::default();
/// child.metadata.name = Some("shop-password".to_owned());
/// let child = owned_by(&owner, child)?;
/// assert_eq!(child.metadata.namespace.as_deref(), Some("web"));
/// # Ok::<(), kooper::capability::OwnerError>(())
/// ```
///
/// # Errors
/// If the owner is in another namespace than the child or was not read from the
/// API server, or if the child has another controlling owner.
pub fn owned_by<O, M, T>(owner: &O, child: T) -> Result<T, OwnerError>
where
    O: AsObject<M>,
    T: Resource<DynamicType = (), Scope: 'static>,
{
    own(owner.as_object(), child)
}

pub(super) fn own<O, T>(owner: &O, mut child: T) -> Result<T, OwnerError>
where
    O: Resource<DynamicType = (), Scope: 'static>,
    T: Resource<DynamicType = (), Scope: 'static>,
{
    let reference = reference(owner)?;
    let named = format!("{} `{}`", T::kind(&()), child.meta().name.as_deref().unwrap_or_default());
    let parent = describe(owner);
    if let Some(namespace) = owner.meta().namespace.as_deref().filter(|_| !is_cluster::<O>()) {
        if is_cluster::<T>() {
            return Err(OwnerError::ChildOfCluster { child: named, owner: parent });
        }
        match child.meta().namespace.clone() {
            Some(other) if !other.is_empty() && other != namespace => {
                return Err(OwnerError::OtherNamespace { child: named, namespace: other, owner: parent });
            }
            _ => child.meta_mut().namespace = Some(namespace.to_owned()),
        }
    }
    let references = child.meta().owner_references.as_deref().unwrap_or_default();
    let other = references.iter().find(|one| one.controller == Some(true) && one.uid != reference.uid);
    if let Some(other) = other {
        return Err(OwnerError::Controlled { child: named, controller: format!("{} `{}`", other.kind, other.name) });
    }
    let references = child.meta_mut().owner_references.get_or_insert_default();
    references.retain(|one| one.uid != reference.uid);
    references.push(reference);
    Ok(child)
}

/// Marks a child that cannot have an owner reference.
pub(super) fn mark<O, T>(owner: &O, mut child: T) -> Result<T, OwnerError>
where
    O: Resource<DynamicType = ()>,
    T: Resource<DynamicType = ()>,
{
    let uid = reference(owner)?.uid;
    child.meta_mut().labels.get_or_insert_default().insert(OWNER.to_owned(), uid);
    Ok(child)
}

/// A reference to a controlling owner, which blocks the owner's foreground
/// deletion.
fn reference<O: Resource<DynamicType = ()>>(owner: &O) -> Result<OwnerReference, OwnerError> {
    let unborn = || OwnerError::Unborn { owner: O::kind(&()).into_owned() };
    let reference = owner.controller_owner_ref(&()).filter(|one| !one.uid.is_empty()).ok_or_else(unborn)?;
    Ok(OwnerReference { block_owner_deletion: Some(true), ..reference })
}

/// `Kind namespace/name`, for messages.
pub(super) fn describe<O: Resource<DynamicType = ()>>(object: &O) -> String {
    let meta = object.meta();
    let key = ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    format!("{} `{key}`", O::kind(&()))
}

fn is_cluster<T: Resource<Scope: 'static>>() -> bool {
    TypeId::of::<T::Scope>() == TypeId::of::<ClusterResourceScope>()
}

/// The owner of a child.
pub(super) struct Parent {
    pub(super) name: String,
    pub(super) uid: String,
    /// `true` if the owner was being deleted when the caller read it.
    pub(super) terminating: bool,
    pub(super) reference: ObjectReference,
    /// `true` if the child has a label instead of an owner reference.
    pub(super) is_marked: bool,
}

/// The relation of an object to an owner that wants it as a child.
pub(super) enum Relation {
    Child,
    /// It belongs to no owner.
    Free,
    /// It belongs to this one.
    Other(String),
}

impl Parent {
    pub(super) fn of<O: Resource<DynamicType = ()>>(owner: &O) -> Self {
        Self {
            name: describe(owner),
            uid: owner.meta().uid.clone().unwrap_or_default(),
            terminating: owner.meta().deletion_timestamp.is_some(),
            reference: owner.object_ref(&()),
            is_marked: false,
        }
    }

    pub(super) fn relation(&self, child: &Metadata) -> Relation {
        let mark = child.labels.get(OWNER);
        match (child.controller(), mark) {
            (Some(one), mark) if one.uid == self.uid && (mark.is_none() || !self.is_marked) => Relation::Child,
            (Some(one), _) => Relation::Other(format!("{} `{}` ({})", one.kind, one.name, one.uid)),
            (None, Some(uid)) if *uid != self.uid => Relation::Other(format!("the owner with the uid {uid}")),
            (None, Some(_)) if self.is_marked => Relation::Child,
            (None, _) => Relation::Free,
        }
    }

    pub(super) fn key(&self) -> ObjectKey {
        let ObjectReference { namespace, name, .. } = &self.reference;
        ObjectKey::new(namespace.as_deref(), name.as_deref().unwrap_or_default())
    }

    /// Returns whether the live object has another controlling owner.
    pub(super) fn has_lost(&self, live: &Value) -> bool {
        let owners = live["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|owner| owner["controller"] == true && owner["uid"] != *self.uid)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Secret};

    use super::*;

    fn named<T: Resource + Default>(namespace: Option<&str>, uid: &str) -> T {
        let mut object = T::default();
        object.meta_mut().name = Some("one".to_owned());
        object.meta_mut().namespace = namespace.map(str::to_owned);
        object.meta_mut().uid = (!uid.is_empty()).then(|| uid.to_owned());
        object
    }

    #[test]
    fn a_child_gets_the_namespace_of_its_owner_and_one_reference() {
        let owner: ConfigMap = named(Some("shop"), "7");
        let child = owned_by(&owner, named::<Secret>(Some(""), "")).unwrap();
        assert_eq!(child.metadata.namespace.as_deref(), Some("shop"), "an empty one counts as none");
        let child = owned_by(&owner, named::<Secret>(None, "")).and_then(|child| owned_by(&owner, child)).unwrap();
        assert_eq!(child.metadata.namespace.as_deref(), Some("shop"));
        let [reference] = child.metadata.owner_references.unwrap().try_into().unwrap();
        assert_eq!((reference.kind.as_str(), reference.uid.as_str()), ("ConfigMap", "7"));
        assert_eq!((reference.controller, reference.block_owner_deletion), (Some(true), Some(true)));
    }

    #[test]
    fn a_cluster_scoped_owner_has_children_in_any_namespace() {
        let owner: Node = named(None, "7");
        assert!(owned_by(&owner, named::<Secret>(Some("shop"), "")).is_ok());
        assert!(owned_by(&owner, named::<Namespace>(None, "")).is_ok());
    }

    #[test]
    fn a_child_that_the_garbage_collector_would_delete_is_rejected() {
        let owner: ConfigMap = named(Some("shop"), "7");
        let error = owned_by(&owner, named::<Secret>(Some("bank"), "")).unwrap_err();
        assert!(matches!(error, OwnerError::OtherNamespace { .. }), "{error}");
        let error = owned_by(&owner, named::<Node>(None, "")).unwrap_err();
        assert!(matches!(error, OwnerError::ChildOfCluster { .. }), "{error}");
        let error = owned_by(&named::<ConfigMap>(Some("shop"), ""), named::<Secret>(None, "")).unwrap_err();
        assert!(matches!(error, OwnerError::Unborn { .. }), "{error}");
        let child = owned_by(&owner, named::<Secret>(None, "")).unwrap();
        let error = owned_by(&named::<ConfigMap>(Some("shop"), "8"), child).unwrap_err();
        assert!(matches!(error, OwnerError::Controlled { .. }), "{error}");
    }

    #[test]
    fn an_object_with_the_label_of_another_owner_is_that_ones_unless_an_owner_controls_it() {
        let owner: ConfigMap = named(Some("shop"), "7");
        let relation = |is_marked: bool, label: Option<&str>, controller: Option<&str>| {
            let mut child: Secret = named(Some("shop"), "9");
            if let Some(uid) = controller {
                child = owned_by(&named::<ConfigMap>(Some("shop"), uid), child).unwrap();
            }
            child.metadata.labels = label.map(|uid| [(OWNER.to_owned(), uid.to_owned())].into());
            let object = serde_json::to_value(&child).unwrap();
            let metadata: Metadata = serde_json::from_value(object["metadata"].clone()).unwrap();
            match (Parent { is_marked, ..Parent::of(&owner) }).relation(&metadata) {
                Relation::Child => "child",
                Relation::Free => "free",
                Relation::Other(_) => "other",
            }
        };
        for is_marked in [false, true] {
            assert_eq!(relation(is_marked, None, None), "free");
            assert_eq!(relation(is_marked, Some("8"), None), "other", "its controller may be elsewhere");
            assert_eq!(relation(is_marked, None, Some("7")), "child");
            assert_eq!(relation(is_marked, None, Some("8")), "other");
            assert_eq!(relation(is_marked, Some("7"), Some("8")), "other");
        }
        assert_eq!((relation(false, Some("7"), None), relation(true, Some("7"), None)), ("free", "child"));
        assert_eq!(relation(false, Some("8"), Some("7")), "child");
    }
}
