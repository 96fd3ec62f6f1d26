//! Children as the planner sees them, read from their objects.

use std::sync::{Arc, OnceLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kooper_access::extract::{Argument, Context};
use kooper_access::internal::ADOPTED;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::object::Object;
use kooper_runtime::{BoxError, Call, ControllerContext, Kind, ObjectKey};
use kube::core::PartialObjectMetaExt;
use kube::core::metadata::PartialObjectMeta;
use kube::{Resource, ResourceExt};

use crate::function::{AnyObject, ChildKind};
use crate::labels::{self, Marks};
use crate::observed::{Child, ChildId, SlotLabel};
use crate::readiness::{Readiness, is_ready_once_it_exists, readiness};

/// A child, its name, and the object itself.
pub(crate) type Found = (ChildId, Child, ChildObject);

#[derive(Clone)]
pub(crate) enum ChildObject {
    /// As a response has it.
    Decoded(AnyObject),
    /// As the cache has it. One that was decoded in an earlier pass is not decoded before it is needed.
    Cached { object: Arc<Object>, decoded: OnceLock<AnyObject>, decode: fn(&Object) -> Result<AnyObject, BoxError> },
}

impl ChildObject {
    pub(crate) fn of_cache<T: ChildKind>(object: Arc<Object>, decoded: Option<AnyObject>) -> Self {
        let decode = |object: &Object| -> Result<AnyObject, BoxError> { Ok(Arc::new(object.decode::<T>()?)) };
        Self::Cached { object, decoded: decoded.map(OnceLock::from).unwrap_or_default(), decode }
    }

    pub(crate) fn get(&self) -> Result<AnyObject, BoxError> {
        match self {
            Self::Decoded(object) => Ok(object.clone()),
            Self::Cached { object, decoded, decode } => match decoded.get() {
                Some(decoded) => Ok(decoded.clone()),
                None => {
                    let object = decode(object)?;
                    Ok(decoded.get_or_init(|| object).clone())
                }
            },
        }
    }

    /// Its metadata, whether the rest decodes or not.
    pub(crate) fn metadata<T: ChildKind>(&self) -> Result<PartialObjectMeta<T>, BoxError> {
        match self {
            Self::Cached { object, .. } => Ok(object.decode()?),
            Self::Decoded(object) => {
                let object = object.downcast_ref::<T>().ok_or("a child is of another kind")?;
                Ok(object.meta().clone().into_response_partial::<T>())
            }
        }
    }

    pub(crate) fn cached(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Decoded(_) => None,
            Self::Cached { object, .. } => Some(object),
        }
    }
}

/// The owner of a call.
pub(crate) fn owner<P: Kind, S>(context: &Context<P, S>) -> Arc<P> {
    <Arc<P> as Argument<P, S, ()>>::extract(context)
}

/// The call itself.
pub(crate) fn call<P: Kind, S>(context: &Context<P, S>) -> Call {
    <Call as Argument<P, S, ()>>::extract(context)
}

/// The labels of the children of a call's owner.
pub(crate) fn marks<P: Kind, S>(context: &Context<P, S>) -> Marks {
    marks_of(context.controller(), owner(context).meta())
}

fn marks_of(controller: &ControllerContext, owner: &ObjectMeta) -> Marks {
    Marks::new(controller.installation(), &controller.controller, owner.uid.as_deref().unwrap_or_default())
}

/// The slot that a child was applied for. Children that live get the labels of new names by the next apply; those of an
/// owner that is being deleted keep the labels of the names from before.
pub(crate) fn label_of(
    controller: &ControllerContext,
    owner: &ObjectMeta,
    child: &ObjectMeta,
    slots: &[Arc<str>],
) -> Option<SlotLabel> {
    let read = |marks: Marks| marks.read(child.labels.as_ref(), slots);
    let from_before = || {
        owner.deletion_timestamp.as_ref()?;
        let uid = owner.uid.as_deref().unwrap_or_default();
        let managers = controller.previous.iter().filter_map(|manager| manager.split_once('/'));
        managers.map(|(program, controller)| Marks::new(program, controller, uid)).find_map(read)
    };
    read(marks_of(controller, owner)).or_else(from_before)
}

/// Returns `true` if the labels of a child name another controller.
pub(crate) fn is_foreign(
    controller: &ControllerContext,
    owner: &ObjectMeta,
    child: &ObjectMeta,
    slots: &[Arc<str>],
) -> bool {
    marks_of(controller, owner).are_others(child.labels.as_ref()) && label_of(controller, owner, child, slots).is_none()
}

/// The namespace of a child; an empty one counts as none.
fn namespace_of(child: &impl ResourceExt) -> Option<&str> {
    child.meta().namespace.as_deref().filter(|namespace| !namespace.is_empty())
}

/// The name of a child. Its namespace defaults to that of the owner.
pub(crate) fn id_of<P: Kind, T: ResourceExt>(owner: &P, child: &T, kind: &KindInfo, resource: Arc<str>) -> ChildId {
    let namespace = namespace_of(child).or_else(|| owner.meta().namespace.as_deref()).filter(|_| kind.namespaced);
    ChildId { resource, namespace: namespace.map(Into::into), name: child.name_any().into() }
}

/// Returns whether Kubernetes allows no reference from the child to its owner.
pub(crate) fn is_apart<P: Kind, T: ChildKind>(owner: &P, child: &T) -> bool {
    let own = owner.meta().namespace.as_deref();
    let is_elsewhere = namespace_of(child).is_some_and(|namespace| Some(namespace) != own);
    KindInfo::of::<P>().namespaced && (!KindInfo::of::<T>().namespaced || is_elsewhere)
}

pub(crate) fn key_of(id: &ChildId) -> ObjectKey {
    ObjectKey::new(id.namespace.as_deref(), &id.name)
}

pub(crate) fn judge<T: ChildKind>(object: &T) -> Result<Readiness, BoxError> {
    // Most children need not be written as JSON for it.
    if object.meta().deletion_timestamp.is_none() && is_ready_once_it_exists(&T::group(&()), &T::kind(&())) {
        return Ok(Readiness::Ready);
    }
    Ok(readiness(&T::group(&()), &T::kind(&()), &serde_json::to_value(object)?))
}

/// The kinds whose objects hold more than their owner can make again.
fn is_kept_by_default<T: Resource<DynamicType = ()>>() -> bool {
    let kept = [("", "PersistentVolumeClaim"), ("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")];
    kept.contains(&(&*T::group(&()), &*T::kind(&())))
}

pub(crate) fn found<P: Kind, S, T: ChildKind>(
    context: &Context<P, S>,
    child: Arc<T>,
    slots: &[Arc<str>],
) -> Result<Found, BoxError> {
    let record = recorded(context, &*child, slots, judge(&*child)?);
    let kind = KindInfo::of::<T>();
    let id = id_of(&*owner(context), &*child, &kind, kind.resource().into());
    Ok((id, record, ChildObject::Decoded(child)))
}

pub(crate) fn recorded<P: Kind, S, T: ResourceExt<DynamicType = ()>>(
    context: &Context<P, S>,
    child: &T,
    slots: &[Arc<str>],
    readiness: Readiness,
) -> Child {
    let is_kept = is_kept_by_default::<T>();
    let child = child.meta();
    let owner = owner(context);
    let is_outdated = is_outdated::<P>(owner.meta(), child);
    Child { readiness, is_outdated, ..record_of(context.controller(), owner.meta(), child, slots, is_kept) }
}

/// The record of a child that is ready, and not outdated.
fn record_of(
    controller: &ControllerContext,
    owner: &ObjectMeta,
    child: &ObjectMeta,
    slots: &[Arc<str>],
    is_kept: bool,
) -> Child {
    let annotation = child.annotations.as_ref().and_then(|annotations| annotations.get(labels::KEEP));
    Child {
        uid: child.uid.as_deref().unwrap_or_default().into(),
        version: child.resource_version.as_deref().unwrap_or_default().into(),
        is_foreign: is_foreign(controller, owner, child, slots),
        label: label_of(controller, owner, child, slots),
        readiness: Readiness::Ready,
        is_terminating: child.deletion_timestamp.is_some(),
        is_unreadable: false,
        is_kept: is_kept || child.labels.as_ref().is_some_and(|labels| labels.contains_key(ADOPTED)),
        is_protected: annotation.is_some_and(|value| value != "false"),
        is_apart: !controls(owner, child),
        is_elsewhere: owner.deletion_timestamp.is_none() && is_elsewhere(owner, child),
        is_outdated: false,
    }
}

/// Returns whether a child is in another namespace than its owner, which may be cluster-scoped.
fn is_elsewhere(owner: &ObjectMeta, child: &ObjectMeta) -> bool {
    child.namespace.is_some() && child.namespace != owner.namespace
}

/// Returns whether the child names another version of its owner's kind than the program has. Once that version is no longer
/// served, the garbage collector does not delete the child with its owner.
pub(crate) fn is_outdated<P: Kind>(owner: &ObjectMeta, child: &ObjectMeta) -> bool {
    let (uid, version) = (owner.uid.as_ref(), P::api_version(&()));
    child.owner_references.iter().flatten().any(|one| Some(&one.uid) == uid && one.api_version != version)
}

pub(crate) fn controls(owner: &ObjectMeta, child: &ObjectMeta) -> bool {
    let uid = owner.uid.as_ref();
    child.owner_references.iter().flatten().any(|one| one.controller == Some(true) && Some(&one.uid) == uid)
}

/// Returns `true` if no owner controls the child. Only then it belongs to the owner that its label names.
pub(crate) fn is_uncontrolled(child: &ObjectMeta) -> bool {
    child.owner_references.iter().flatten().all(|one| one.controller != Some(true))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    #[test]
    fn the_namespace_of_a_child_defaults_to_that_of_its_owner() {
        let mut owner = ConfigMap::default();
        owner.metadata.namespace = Some("shop".to_owned());
        for (stated, expected) in [(None, "shop"), (Some(""), "shop"), (Some("shop"), "shop"), (Some("till"), "till")] {
            let mut child = Secret::default();
            child.metadata.namespace = stated.map(str::to_owned);
            let id = id_of(&owner, &child, &KindInfo::of::<Secret>(), "secrets".into());
            assert_eq!(id.namespace.as_deref(), Some(expected), "{stated:?}");
            assert_eq!(is_apart(&owner, &child), expected == "till", "{stated:?}");
        }
    }
}
