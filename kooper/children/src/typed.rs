//! The children of a slot by their type, behind a trait without it.

mod live;

use std::any::TypeId;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kooper_access::capability::{PatchBody, by};
use kooper_access::extract::{Argument, Context};
use kooper_access::internal::{Manner, OWNER, note_marked};
use kooper_access::plan::Plan;
use kooper_access::{Deleter, OwnedApplier, Patcher, Reader};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::store::Cache;
use kooper_runtime::object::Object;
use kooper_runtime::{BoxError, Kind};
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::core::metadata::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::function::{AnyObject, CallFn, ChildFn, ChildKind, Form, Made};
use crate::graph::{Recreate, SlotSpec};
use crate::labels;
use crate::memory::{Digest, KnownChildren, SlotMemory, address};
use crate::observed::{Child, ChildId, SlotLabel};
use crate::plan::Cause;
use crate::readiness::Readiness;
use crate::record::{
    ChildObject, Found, controls, decode, found, id_of, is_apart, judge, key_of, label_of, marks, owner, recorded,
};
use crate::slot::{FunctionId, Slot, Verbs};

/// What the function of a slot has returned.
pub(crate) enum Called {
    Children(Vec<(ChildId, AnyObject)>),
    /// An object to wait for, which may exist.
    External(ChildId, Option<(Readiness, AnyObject)>),
}

/// A slot whose kind is not known.
pub(crate) trait DynSlot<P, S>: Send + Sync {
    fn id(&self) -> &FunctionId;

    /// Returns `true` if it depends on the slot of this function.
    fn takes(&self, function: &FunctionId) -> bool;

    /// The resource of its children, such as `deployments.apps`.
    fn resource(&self) -> &str;

    fn spec(&self, names: &dyn Fn(&FunctionId) -> String) -> SlotSpec;

    /// Returns `true` while the cluster does not serve the kind of its children.
    fn is_absent(&self, context: &Context<P, S>) -> bool;

    /// The place where children of the slot may exist that the caches do not have yet.
    fn unlisted(&self, context: &Context<P, S>) -> Option<String>;

    /// Asks the API server for a child of this controller that has no owner reference. `has_some` if there was one.
    fn marked<'a>(&'a self, context: &'a Context<P, S>, has_some: bool) -> Request<'a, Option<ChildId>>;

    /// Asks the API server for the children of the owner, of this slot's kind and in these namespaces. `slots` are the
    /// names of all slots.
    fn live<'a>(
        &'a self,
        context: &'a Context<P, S>,
        slots: &'a [Arc<str>],
        places: &'a BTreeSet<Option<&'a str>>,
    ) -> Request<'a, Vec<Found>>;

    /// Returns `true` if the function takes more than its owner and children.
    fn reads_more(&self) -> bool;

    /// Writes a child of the slot as JSON.
    fn write(&self, child: &AnyObject, digest: &mut Digest);

    /// The same without its status and what the API server keeps in its metadata.
    fn write_desired(&self, child: &AnyObject, digest: &mut Digest);

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

    /// Calls the function of the slot, which has this index.
    fn call(&self, context: &Context<P, S>, slot: usize, inputs: &[Vec<AnyObject>]) -> Result<Called, BoxError>;

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

    /// Sets the labels of a child. Returns those that it has then, and its version.
    fn label<'a>(
        &'a self,
        context: &'a Context<P, S>,
        child: &ChildObject,
        label: &SlotLabel,
    ) -> Request<'a, (Option<SlotLabel>, Arc<str>)>;

    fn delete<'a>(&'a self, context: &'a Context<P, S>, child: &ChildId, params: DeleteParams) -> Request<'a, ()>;

    fn release<'a>(&'a self, context: &'a Context<P, S>, child: &ChildObject) -> Request<'a, ()>;
}

/// The metadata of a child: a request for it works whether the rest decodes or not.
type MetadataOf<P, F, M> = PartialObjectMeta<<<F as ChildFn<P, M>>::Form as Form>::Kind>;

pub(crate) type Request<'a, T> = BoxFuture<'a, Result<T, BoxError>>;

/// The parameters for the deletion of a child.
pub(crate) fn delete_params(uid: &str, version: Option<&str>, cause: Cause) -> DeleteParams {
    let policy = match cause {
        Cause::Recreate(Recreate::Orphan) => PropagationPolicy::Orphan,
        // So that it is gone after its dependents: pods of a Deployment still use what the next wave deletes, or the volume of
        // the one that is created instead.
        Cause::Wave(_) | Cause::Recreate(Recreate::Foreground) => PropagationPolicy::Foreground,
        Cause::Prune => PropagationPolicy::Background,
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
                plan.queue_indexed::<<F::Form as Form>::Kind>(
                    SlotMemory::owners_by_external::<<F::Form as Form>::Kind>,
                );
            } else {
                if !V::DELETES {
                    plan.keep_children(&FunctionId::of::<F>().name);
                }
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

    fn takes(&self, function: &FunctionId) -> bool {
        self.slot.inputs.iter().chain(&self.slot.after).any(|other| other.is(function.id))
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

    fn unlisted(&self, context: &Context<P, S>) -> Option<String> {
        self.caches(context).find_map(Cache::unlisted)
    }

    fn marked<'a>(&'a self, context: &'a Context<P, S>, has_some: bool) -> Request<'a, Option<ChildId>> {
        self.find_marked(context, has_some).boxed()
    }

    fn live<'a>(
        &'a self,
        context: &'a Context<P, S>,
        slots: &'a [Arc<str>],
        places: &'a BTreeSet<Option<&'a str>>,
    ) -> Request<'a, Vec<Found>> {
        self.list_children(context, slots, places).boxed()
    }

    fn reads_more(&self) -> bool {
        F::READS_MORE
    }

    fn write(&self, child: &AnyObject, digest: &mut Digest) {
        if let Some(child) = child.downcast_ref::<<F::Form as Form>::Kind>() {
            // What cannot be written is found by the apply.
            let _ = serde_json::to_writer(digest, child);
        }
    }

    fn write_desired(&self, child: &AnyObject, digest: &mut Digest) {
        let _ = serde_json::to_writer(digest, &self.desired(child));
    }

    fn is_corrected(&self, before: &AnyObject, wanted: &AnyObject, after: &AnyObject) -> bool {
        let (was, is) = (self.desired(before), self.desired(after));
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
            let (namespace, name) = (object.key().namespace().map(Into::into), object.key().name().into());
            let id = ChildId { resource: self.resource.clone(), namespace, name };
            if let Some((_, child)) = known.get(address(&object)) {
                return Ok(Some((id, child.clone(), ChildObject::Cached { object, decoded: OnceLock::new(), decode })));
            }
            let child = match object.decode::<<F::Form as Form>::Kind>() {
                Ok(child) => child,
                // Only its own slot waits, and a deletion needs its metadata alone.
                Err(error) => {
                    let child: PartialObjectMeta<<F::Form as Form>::Kind> = object.decode()?;
                    if !controls(&*owner, &child) && !is_marked {
                        return Ok(None);
                    }
                    let record = Child {
                        is_unreadable: true,
                        ..recorded(context, &child, slots, Readiness::Waiting(format!("it does not decode: {error}")))
                    };
                    return Ok(Some((id, record, ChildObject::Cached { object, decoded: OnceLock::new(), decode })));
                }
            };
            if !controls(&*owner, &child) && !is_marked {
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

    fn call(&self, context: &Context<P, S>, slot: usize, inputs: &[Vec<AnyObject>]) -> Result<Called, BoxError> {
        let owner = owner(context);
        let children = match self.slot.function.call(&owner, context, inputs)? {
            Made::Children(children) => children,
            Made::External(key) => {
                let namespace = key.namespace().map(Into::into).or_else(|| owner.namespace().map(Into::into));
                let namespace = namespace.filter(|_| self.kind.namespaced);
                let id = ChildId { resource: self.resource.clone(), namespace, name: key.name().into() };
                let reader = <Reader<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
                let key = key_of(&id);
                // Before the cache is read, so that no change is missed.
                let memory = context.extensions().get::<SlotMemory>();
                memory.stands_for((context.key(), slot), (self.resource.clone(), key.clone()));
                let Some(object) = reader.get(&key)? else { return Ok(Called::External(id, None)) };
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
            let manner = Manner { adopt: self.slot.flags.adopt, once: self.slot.flags.once };
            let applied = applier.apply_declared(&*owner, &child, manner, is_marked, observed).await?;
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

    fn label<'a>(
        &'a self,
        context: &'a Context<P, S>,
        child: &ChildObject,
        label: &SlotLabel,
    ) -> Request<'a, (Option<SlotLabel>, Arc<str>)> {
        let (label, child) = (label.clone(), child.metadata::<<F::Form as Form>::Kind>());
        async move {
            let child = child?;
            let labels = marks(context).labels(&label).into_iter();
            let set: serde_json::Map<_, _> = labels.map(|(key, value)| (key, Value::from(value))).collect();
            let patcher = <Patcher<MetadataOf<P, F, M>> as Argument<P, S, (_, ())>>::extract(context);
            let patch = PatchBody::merge(json!({"metadata": {"labels": set}}));
            let patched = patcher.patch_object(&child, patch).await?;
            let version = patched.resource_version().unwrap_or_default().into();
            Ok((label_of(context, &patched, std::slice::from_ref(&label.slot)), version))
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

    fn release<'a>(&'a self, context: &'a Context<P, S>, child: &ChildObject) -> Request<'a, ()> {
        let child = child.metadata::<<F::Form as Form>::Kind>();
        async move {
            let child = child?;
            let uid = owner(context).uid();
            let others: Vec<_> = child.owner_references().iter().filter(|one| Some(&one.uid) != uid.as_ref()).collect();
            let labels = json!({(OWNER): null});
            let metadata =
                json!({"ownerReferences": others, "labels": labels, "resourceVersion": child.resource_version()});
            let patcher = <Patcher<MetadataOf<P, F, M>> as Argument<P, S, (_, ())>>::extract(context);
            patcher.patch_object(&child, PatchBody::merge(json!({"metadata": metadata}))).await?;
            Ok(())
        }
        .boxed()
    }
}

impl<P, F: ChildFn<P, M>, V, M> Typed<P, F, V, M> {
    fn json(&self, child: &AnyObject) -> Value {
        serde_json::to_value(child.downcast_ref::<<F::Form as Form>::Kind>()).unwrap_or_default()
    }

    /// A child without its status and what the API server keeps in its metadata.
    fn desired(&self, child: &AnyObject) -> Value {
        let mut child = self.json(child);
        child["status"].take();
        for field in ["generation", "managedFields", "resourceVersion"] {
            child["metadata"][field].take();
        }
        child
    }

    /// The caches of whole objects of the slot's kind.
    fn caches<'a, S>(&'a self, context: &'a Context<P, S>) -> impl Iterator<Item = &'a Cache> {
        let caches = context.controller().caches.of_kind(&self.kind);
        caches.filter(|(id, _)| id.selected.is_none() && !id.metadata_only).map(|(_, cache)| cache)
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
