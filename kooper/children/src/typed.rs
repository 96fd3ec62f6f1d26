//! The children of a slot by their type, behind a trait without it.

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kooper_access::capability::{PatchBody, by};
use kooper_access::extract::{Argument, Context};
use kooper_access::internal::{OWNER, note_marked};
use kooper_access::plan::Plan;
use kooper_access::{Deleter, OwnedApplier, Patcher, Reader};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::object::Object;
use kooper_runtime::{BoxError, Call, Kind, ObjectKey};
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::function::{AnyObject, CallFn, ChildFn, ChildKind, Form, Made};
use crate::graph::{Recreate, SlotSpec};
use crate::labels::{self, Marks};
use crate::memory::{Digest, KnownChildren, address};
use crate::observed::{Child, ChildId, SlotLabel};
use crate::plan::Cause;
use crate::readiness::{Readiness, is_ready_once_it_exists, readiness};
use crate::slot::{FunctionId, Slot, Verbs};

/// A child, its name, and the object itself.
pub(crate) type Found = (ChildId, Child, ChildObject);

/// The object of a child.
#[derive(Clone)]
pub(crate) enum ChildObject {
    /// As a response has it.
    Decoded(AnyObject),
    /// As the cache has it. One that was decoded in an earlier pass is not decoded before it is needed.
    Cached { object: Arc<Object>, decoded: OnceLock<AnyObject>, decode: fn(&Object) -> Result<AnyObject, BoxError> },
}

impl ChildObject {
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

    pub(crate) fn cached(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Decoded(_) => None,
            Self::Cached { object, .. } => Some(object),
        }
    }
}

/// What the function of a slot has returned.
pub(crate) enum Called {
    Children(Vec<(ChildId, AnyObject)>),
    /// An object to wait for, which may exist.
    External(ChildId, Option<(Readiness, AnyObject)>),
}

/// A slot whose kind is not known.
pub(crate) trait DynSlot<P, S>: Send + Sync {
    fn id(&self) -> &FunctionId;

    /// The resource of its children, such as `deployments.apps`.
    fn resource(&self) -> &str;

    fn spec(&self, names: &dyn Fn(&FunctionId) -> String) -> SlotSpec;

    /// Returns `true` while the cluster does not serve the kind of its children.
    fn is_absent(&self, context: &Context<P, S>) -> bool;

    /// Writes a child of the slot as JSON.
    fn write(&self, child: &AnyObject, digest: &mut Digest);

    /// Returns whether a write has changed more of a child than what the API server and its controller keep in it, and the
    /// child did not have all of the wanted fields before.
    fn is_corrected(&self, before: &AnyObject, wanted: &AnyObject, after: &AnyObject) -> bool;

    /// Returns whether a child has all fields that are wanted of it. `false` if that is not certain.
    fn has_all(&self, child: &AnyObject, wanted: &AnyObject) -> bool;

    /// The judgement of the slot's own function on a child, if it has one.
    fn judge(&self, child: &ChildObject) -> Result<Option<Readiness>, BoxError>;

    /// The children of the owner, of this slot's kind. `slots` are the names of all slots. Without `deletion = ordered`
    /// all of them have owner references. Those that are `known` are not decoded.
    fn existing(
        &self,
        context: &Context<P, S>,
        slots: &[Arc<str>],
        is_ordered: bool,
        known: &KnownChildren,
    ) -> Result<Vec<Found>, BoxError>;

    fn call(&self, context: &Context<P, S>, inputs: &[Vec<AnyObject>]) -> Result<Called, BoxError>;

    /// Applies a child; `None` if it is known to be as it should be, in the version that is observed.
    fn apply<'a>(
        &'a self,
        context: &'a Context<P, S>,
        child: AnyObject,
        label: &SlotLabel,
        is_ordered: bool,
        observed: Option<&'a str>,
    ) -> Request<'a, Option<Found>>;

    /// Creates the child in a dry run, under another name.
    fn probe<'a>(&'a self, context: &'a Context<P, S>, child: AnyObject) -> Request<'a, ()>;

    fn label<'a>(&'a self, context: &'a Context<P, S>, child: AnyObject, label: &SlotLabel) -> Request<'a, Found>;

    fn delete<'a>(&'a self, context: &'a Context<P, S>, child: &ChildId, params: DeleteParams) -> Request<'a, ()>;

    fn release<'a>(&'a self, context: &'a Context<P, S>, child: AnyObject) -> Request<'a, ()>;
}

pub(crate) type Request<'a, T> = BoxFuture<'a, Result<T, BoxError>>;

/// The parameters for the deletion of a child.
pub(crate) fn delete_params(uid: &str, version: Option<&str>, cause: Cause) -> DeleteParams {
    let policy = match cause {
        Cause::Recreate(Recreate::Orphan) => PropagationPolicy::Orphan,
        // So that it is gone after its dependents: pods of a Deployment still use what the next wave deletes.
        Cause::Wave(_) => PropagationPolicy::Foreground,
        Cause::Prune | Cause::Recreate(Recreate::Background) => PropagationPolicy::Background,
    };
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: version.map(str::to_owned) };
    DeleteParams { propagation_policy: Some(policy), preconditions: Some(preconditions), ..DeleteParams::default() }
}

/// A slot with the type of its function.
pub(crate) struct Typed<P, F, V, M> {
    pub(crate) slot: Slot<P, F, V>,
    pub(crate) kind: KindInfo,
    pub(crate) resource: Arc<str>,
    pub(crate) signature: PhantomData<fn(M)>,
}

/// Adds to the plan what a slot of a controller with the state `S` needs.
pub trait PlanSlot<P, S> {
    #[doc(hidden)]
    fn plan(plan: &mut Plan);
}

/// A slot by its types alone.
#[derive(Debug)]
pub struct Planned<F, V, M>(PhantomData<F>, PhantomData<V>, PhantomData<fn() -> M>);

impl<P: Kind, S, F: CallFn<P, S, M>, V: Verbs, M> PlanSlot<P, S> for Planned<F, V, M> {
    fn plan(plan: &mut Plan) {
        F::plan(plan);
        let needs = |plan: &mut Plan| {
            if F::EXTERNAL {
                reads::<P, S, <F::Form as Form>::Kind>(plan);
            } else {
                plan.reading_children(reads::<P, S, <F::Form as Form>::Kind>);
                applies::<P, S, <F::Form as Form>::Kind>(plan, V::DELETES);
            }
        };
        if V::OPTIONAL { plan.optionally(needs) } else { needs(plan) }
    }
}

fn reads<P: Kind, S, T: ChildKind>(plan: &mut Plan) {
    <Reader<T> as Argument<P, S, (T, ())>>::plan(plan);
}

fn applies<P: Kind, S, T: ChildKind>(plan: &mut Plan, deletes: bool) {
    <OwnedApplier<T> as Argument<P, S, (T, ())>>::plan(plan);
    if deletes {
        <Deleter<T> as Argument<P, S, (T, ())>>::plan(plan);
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
fn marks<P: Kind, S>(context: &Context<P, S>) -> Marks {
    let controller = context.controller();
    Marks::new(controller.installation(), &controller.controller, &owner(context).uid().unwrap_or_default())
}

/// The slot that a child was applied for. Children that live get the labels of new names by the next apply; those of an
/// owner that is being deleted keep the labels of the names from before.
fn label_of<P: Kind, S, T: ChildKind>(context: &Context<P, S>, child: &T, slots: &[Arc<str>]) -> Option<SlotLabel> {
    let read = |marks: Marks| marks.read(child.meta().labels.as_ref(), slots.iter().map(|slot| &**slot));
    let owner = owner(context);
    let from_before = || {
        owner.meta().deletion_timestamp.as_ref()?;
        let uid = owner.uid().unwrap_or_default();
        let managers = context.controller().previous.iter().filter_map(|manager| manager.split_once('/'));
        managers.map(|(program, controller)| Marks::new(program, controller, &uid)).find_map(read)
    };
    read(marks(context)).or_else(from_before)
}

/// The name of a child. Its namespace defaults to that of the owner.
fn id_of<P: Kind, T: ChildKind>(owner: &P, child: &T, kind: &KindInfo, resource: Arc<str>) -> ChildId {
    let namespace = child.namespace().or_else(|| owner.namespace()).filter(|_| kind.namespaced);
    ChildId { resource, namespace: namespace.map(Into::into), name: child.name_any().into() }
}

/// Returns whether Kubernetes allows no reference from the child to its owner.
fn is_apart<P: Kind, T: ChildKind>(owner: &P, child: &T) -> bool {
    let is_elsewhere = child.meta().namespace.is_some() && child.meta().namespace != owner.meta().namespace;
    KindInfo::of::<P>().namespaced && (!KindInfo::of::<T>().namespaced || is_elsewhere)
}

fn key_of(id: &ChildId) -> ObjectKey {
    ObjectKey::new(id.namespace.as_deref(), &id.name)
}

fn judge<T: ChildKind>(object: &T) -> Result<Readiness, BoxError> {
    // Most children need not be written as JSON for it.
    if object.meta().deletion_timestamp.is_none() && is_ready_once_it_exists(&T::group(&()), &T::kind(&())) {
        return Ok(Readiness::Ready);
    }
    Ok(readiness(&T::group(&()), &T::kind(&()), &serde_json::to_value(object)?))
}

/// The kinds whose objects hold more than their owner can make again.
fn is_kept_by_default<T: ChildKind>() -> bool {
    let kept = [("", "PersistentVolumeClaim"), ("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")];
    kept.contains(&(&*T::group(&()), &*T::kind(&())))
}

fn found<P: Kind, S, T: ChildKind>(
    context: &Context<P, S>,
    child: Arc<T>,
    slots: &[Arc<str>],
) -> Result<Found, BoxError> {
    let record = Child {
        uid: child.uid().unwrap_or_default().into(),
        version: child.resource_version().unwrap_or_default().into(),
        label: label_of(context, &*child, slots),
        readiness: judge(&*child)?,
        is_terminating: child.meta().deletion_timestamp.is_some(),
        is_kept: is_kept_by_default::<T>() || child.annotations().contains_key(labels::KEEP),
    };
    let kind = KindInfo::of::<T>();
    let id = id_of(&*owner(context), &*child, &kind, kind.resource().into());
    Ok((id, record, ChildObject::Decoded(child)))
}

fn decode<T: ChildKind>(object: &Object) -> Result<AnyObject, BoxError> {
    Ok(Arc::new(object.decode::<T>()?))
}

pub(crate) fn typed<T: ChildKind>(object: AnyObject) -> Result<Arc<T>, BoxError> {
    object.downcast().map_err(|_| "a child is of another kind".into())
}

impl<P, S, F, V, M> DynSlot<P, S> for Typed<P, F, V, M>
where
    P: Kind,
    S: Send + Sync + 'static,
    F: CallFn<P, S, M>,
    V: Verbs,
    M: 'static,
{
    fn id(&self) -> &FunctionId {
        &self.slot.id
    }

    fn resource(&self) -> &str {
        &self.resource
    }

    fn spec(&self, names: &dyn Fn(&FunctionId) -> String) -> SlotSpec {
        self.slot.spec(&names)
    }

    fn is_absent(&self, context: &Context<P, S>) -> bool {
        context.controller().caches.of_kind(&self.kind).any(|(_, cache)| cache.is_unserved())
    }

    fn write(&self, child: &AnyObject, digest: &mut Digest) {
        if let Some(child) = child.downcast_ref::<<F::Form as Form>::Kind>() {
            // What cannot be written is found by the apply.
            let _ = serde_json::to_writer(digest, child);
        }
    }

    fn is_corrected(&self, before: &AnyObject, wanted: &AnyObject, after: &AnyObject) -> bool {
        let written = |child: &AnyObject| {
            let mut child = self.json(child);
            child["status"].take();
            for field in ["generation", "managedFields", "resourceVersion"] {
                child["metadata"][field].take();
            }
            child
        };
        let (was, is) = (written(before), written(after));
        let [marks_before, marks_after] = [&was, &is].map(|child| labels::of_kooper(&child["metadata"]["labels"]));
        was != is && (marks_before != marks_after || !self.has_all(before, wanted))
    }

    fn has_all(&self, child: &AnyObject, wanted: &AnyObject) -> bool {
        contains(&self.json(child), &self.json(wanted))
    }

    fn judge(&self, child: &ChildObject) -> Result<Option<Readiness>, BoxError> {
        let Some(judge) = &self.slot.ready else { return Ok(None) };
        Ok((judge.0)(&*child.get()?))
    }

    fn existing(
        &self,
        context: &Context<P, S>,
        slots: &[Arc<str>],
        is_ordered: bool,
        known: &KnownChildren,
    ) -> Result<Vec<Found>, BoxError> {
        let owner = owner(context);
        let reader = <Reader<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
        let read = |object: Arc<Object>, is_marked: bool| -> Result<Option<Found>, BoxError> {
            let decode = decode::<<F::Form as Form>::Kind>;
            if let Some((_, child)) = known.get(&address(&object)) {
                let (namespace, name) = (object.key().namespace().map(Into::into), object.key().name().into());
                let id = ChildId { resource: self.resource.clone(), namespace, name };
                return Ok(Some((id, child.clone(), ChildObject::Cached { object, decoded: OnceLock::new(), decode })));
            }
            let child: <F::Form as Form>::Kind = object.decode()?;
            let uid = owner.meta().uid.as_ref();
            let mut references = child.owner_references().iter();
            let controls = references.any(|one| one.controller == Some(true) && Some(&one.uid) == uid);
            if !controls && !is_marked {
                return Ok(None);
            }
            let (id, child, decoded) = found(context, Arc::new(child), slots)?;
            Ok(Some((id, child, ChildObject::Cached { object, decoded: decoded.get()?.into(), decode })))
        };
        let mut children = Vec::new();
        for child in reader.undecoded(by::owner(&*owner)) {
            children.extend(read(child?, false)?);
        }
        if let Some(uid) = owner.uid().filter(|_| is_ordered) {
            for child in reader.undecoded(by::marked(&uid)) {
                children.extend(read(child?, true)?);
                note_marked(context.extensions(), &uid, context.key());
            }
        }
        Ok(children)
    }

    fn call(&self, context: &Context<P, S>, inputs: &[Vec<AnyObject>]) -> Result<Called, BoxError> {
        let owner = owner(context);
        let children = match self.slot.function.call(&owner, context, inputs)? {
            Made::Children(children) => children,
            Made::External(key) => {
                let namespace = key.namespace().map(Into::into).or_else(|| owner.namespace().map(Into::into));
                let namespace = namespace.filter(|_| self.kind.namespaced);
                let id = ChildId { resource: self.resource.clone(), namespace, name: key.name().into() };
                let reader = <Reader<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
                let Some(object) = reader.get(&key_of(&id))? else { return Ok(Called::External(id, None)) };
                let is_terminating = object.meta().deletion_timestamp.is_some();
                let readiness = judge(&*object)?;
                let object: AnyObject = object;
                let own = self.judge(&ChildObject::Decoded(object.clone()))?.filter(|_| !is_terminating);
                return Ok(Called::External(id, Some((own.unwrap_or(readiness), object))));
            }
        };
        let named = children.into_iter().map(|child| match child.meta().name.as_deref() {
            None | Some("") => {
                Err(format!("a child of the slot `{}` has no name: set `metadata.name`", self.slot.id.name))
            }
            Some(_) => Ok((id_of(&*owner, &child, &self.kind, self.resource.clone()), Arc::new(child) as AnyObject)),
        });
        Ok(Called::Children(named.collect::<Result<_, _>>()?))
    }

    fn apply<'a>(
        &'a self,
        context: &'a Context<P, S>,
        child: AnyObject,
        label: &SlotLabel,
        is_ordered: bool,
        observed: Option<&'a str>,
    ) -> Request<'a, Option<Found>> {
        let label = label.clone();
        async move {
            let owner = owner(context);
            let mut child: <F::Form as Form>::Kind = Arc::unwrap_or_clone(typed(child)?);
            child.labels_mut().extend(marks(context).labels(&label));
            let applier = <OwnedApplier<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
            // Without it the error of `apply_owned` says why the child cannot be owned.
            let is_marked = is_ordered && is_apart(&*owner, &child);
            let kind = (self.slot.flags.adopt, is_marked);
            let applied = applier.apply_declared(&*owner, &child, kind, observed).await?;
            let names = std::slice::from_ref(&label.slot);
            applied.map(|applied| found(context, Arc::new(applied), names)).transpose()
        }
        .boxed()
    }

    fn probe<'a>(&'a self, context: &'a Context<P, S>, child: AnyObject) -> Request<'a, ()> {
        async move {
            let child: Arc<<F::Form as Form>::Kind> = typed(child)?;
            let applier = <OwnedApplier<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
            let owner = owner(context);
            applier.probe(&*owner, &child, is_apart(&*owner, &*child)).await?;
            Ok(())
        }
        .boxed()
    }

    fn label<'a>(&'a self, context: &'a Context<P, S>, child: AnyObject, label: &SlotLabel) -> Request<'a, Found> {
        let label = label.clone();
        async move {
            let child: Arc<<F::Form as Form>::Kind> = typed(child)?;
            let labels = marks(context).labels(&label).into_iter();
            let set: serde_json::Map<_, _> = labels.map(|(key, value)| (key, Value::from(value))).collect();
            let patcher = <Patcher<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
            let patch = PatchBody::merge(json!({"metadata": {"labels": set}}));
            let patched = patcher.patch_object(&*child, patch).await?;
            found(context, Arc::new(patched), std::slice::from_ref(&label.slot))
        }
        .boxed()
    }

    fn delete<'a>(&'a self, context: &'a Context<P, S>, child: &ChildId, params: DeleteParams) -> Request<'a, ()> {
        let key = key_of(child);
        async move {
            let deleter = <Deleter<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
            match deleter.delete_with(&key, params).await {
                // It has changed: its event begins another pass.
                Err(error) if error.is_conflict() => Ok(()),
                result => Ok(result?),
            }
        }
        .boxed()
    }

    fn release<'a>(&'a self, context: &'a Context<P, S>, child: AnyObject) -> Request<'a, ()> {
        async move {
            let child: Arc<<F::Form as Form>::Kind> = typed(child)?;
            let uid = owner(context).uid();
            let others: Vec<_> = child.owner_references().iter().filter(|one| Some(&one.uid) != uid.as_ref()).collect();
            let labels = json!({(OWNER): null});
            let metadata =
                json!({"ownerReferences": others, "labels": labels, "resourceVersion": child.resource_version()});
            let patcher = <Patcher<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
            patcher.patch_object(&*child, PatchBody::merge(json!({"metadata": metadata}))).await?;
            Ok(())
        }
        .boxed()
    }
}

impl<P, F: ChildFn<P, M>, V, M> Typed<P, F, V, M> {
    fn json(&self, child: &AnyObject) -> Value {
        serde_json::to_value(child.downcast_ref::<<F::Form as Form>::Kind>()).unwrap_or_default()
    }
}

/// Returns whether a value has all fields of another one. Lists are compared element by element. The API server does not
/// store empty ones.
fn contains(value: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Null => true,
        Value::Object(wanted) => wanted.iter().all(|(name, wanted)| contains(&value[name], wanted)),
        Value::Array(wanted) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            items.len() == wanted.len() && items.iter().zip(wanted).all(|(item, wanted)| contains(item, wanted))
        }
        _ => value == wanted,
    }
}

impl FunctionId {
    pub(crate) fn is(&self, id: TypeId) -> bool {
        self.id == id
    }
}
