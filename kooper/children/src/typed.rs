//! The children of a slot by their type, behind a trait without it.

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::FutureExt;
use kooper_access::capability::PatchBody;
use kooper_access::extract::{Argument, Context};
use kooper_access::internal::OwnedApplyOptions;
use kooper_access::plan::Plan;
use kooper_access::{AccessError, Deleter, OwnedApplier, Patcher, Reader};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::{BoxError, Kind};
use kube::core::metadata::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::function::{AnyObject, CallFn, ChildFn, ChildKind, Form, Made};
use crate::graph::SlotSpec;
use crate::kind::{DynKind, Request, TypedKind, is_absent};
use crate::labels;
use crate::memory::SlotMemory;
use crate::observed::{ChildId, SlotLabel};
use crate::readiness::Readiness;
use crate::record::{ChildObject, Found, found, id_of, is_apart, is_outdated, judge, key_of, label_of, marks, owner};
use crate::slot::{FunctionId, Slot, Verbs};

/// The result of the function of a slot.
pub(crate) enum SlotOutput {
    Children(Vec<(ChildId, AnyObject)>),
    /// An object to wait for, which may exist.
    External(ChildId, Option<(Readiness, AnyObject)>),
}

/// A slot whose kind is not known, without the types of its owner and state.
pub(crate) trait UntypedSlot: Send + Sync {
    fn id(&self) -> &FunctionId;

    /// Returns `true` if the function takes more than its owner and children.
    fn reads_more(&self) -> bool;

    /// Writes a child of the slot as JSON.
    fn write(&self, child: &AnyObject, to: &mut Vec<u8>);

    /// The same without its status and what the API server keeps in its metadata.
    fn write_desired(&self, child: &AnyObject, to: &mut Vec<u8>);

    /// Returns whether a write has changed more of a child than what the API server and its controller keep in it, and the
    /// child did not have all of the wanted fields before.
    fn is_corrected(&self, before: &AnyObject, wanted: &AnyObject, after: &AnyObject) -> bool;

    /// Returns whether a child has all fields that are wanted of it. `false` if that is not certain.
    fn has_all(&self, child: &AnyObject, wanted: &AnyObject) -> bool;

    /// The judgement of the slot's own function on a child, if it has one.
    fn judge(&self, child: &ChildObject) -> Result<Option<Readiness>, BoxError>;
}

/// A slot whose kind is not known.
pub(crate) trait DynSlot<P, S>: UntypedSlot {
    /// Returns `true` if it depends on the slot of this function.
    fn takes(&self, function: &FunctionId) -> bool;

    fn spec(&self, names: &dyn Fn(&FunctionId) -> String) -> SlotSpec;

    /// Returns `true` while the cluster does not serve the kind of its children.
    fn is_absent(&self, context: &Context<P, S>) -> bool;

    /// The kind of its children; `None` if they are never written.
    fn kind(&self) -> Option<Box<dyn DynKind<P, S>>>;

    /// Calls the function of the slot, which has this index.
    fn call(&self, context: &Context<P, S>, slot: usize, inputs: &[Vec<AnyObject>]) -> Result<SlotOutput, BoxError>;

    /// Applies a child; `None` if it is known to be as it should be, in the version that is observed.
    fn apply<'a>(
        &'a self,
        context: &'a Context<P, S>,
        child: AnyObject,
        label: &SlotLabel,
        is_ordered: bool,
        observed: Option<&'a str>,
    ) -> Request<'a, Option<Found>>;

    /// Creates the child in a dry run, under another name. Returns `true` if it is certain that only the change of the existing
    /// child was `refused`.
    fn probe<'a>(&'a self, context: &'a Context<P, S>, child: AnyObject, refused: &'a AccessError)
    -> Request<'a, bool>;

    /// Sets the labels of a child. Returns those that it has then, and its version.
    fn label<'a>(
        &'a self,
        context: &'a Context<P, S>,
        child: &ChildObject,
        label: &SlotLabel,
    ) -> Request<'a, (Option<SlotLabel>, Arc<str>)>;
}

/// The metadata of a child: a request for it works whether the rest decodes or not.
type MetadataOf<P, F, M> = PartialObjectMeta<<<F as ChildFn<P, M>>::Form as Form>::Kind>;

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

    /// Adds what `deletion = ordered` also needs.
    #[doc(hidden)]
    fn plan_deletion(plan: &mut Plan) {
        let _ = plan;
    }
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
                <OwnedApplier<<F::Form as Form>::Kind> as Argument<P, S, (<F::Form as Form>::Kind, ())>>::plan(plan);
                if V::DELETES {
                    deletes::<P, S, <F::Form as Form>::Kind>(plan);
                }
            }
        };
        planned::<V>(plan, needs);
    }

    /// A child that is kept is released: the admission plugin `OwnerReferencesPermissionEnforcement` allows a change of owner
    /// references only to those who may delete the object.
    fn plan_deletion(plan: &mut Plan) {
        if !V::DELETES && !F::EXTERNAL {
            planned::<V>(plan, deletes::<P, S, <F::Form as Form>::Kind>);
        }
    }
}

/// A kind of previous children by its type alone.
#[derive(Debug)]
pub struct PreviousChildren<T>(PhantomData<fn() -> T>);

impl<P: Kind, S, T: ChildKind> PlanSlot<P, S> for PreviousChildren<T> {
    fn plan(plan: &mut Plan) {
        // A cluster without the kind has none of them.
        plan.optionally(|plan| {
            plan.reading_children(reads::<P, S, T>);
            plan.watch_previous_children::<P, T>();
            deletes::<P, S, T>(plan);
        });
    }

    /// A child that is kept is released.
    fn plan_deletion(plan: &mut Plan) {
        <Patcher<T> as Argument<P, S, (T, ())>>::plan(plan);
    }
}

fn reads<P: Kind, S, T: ChildKind>(plan: &mut Plan) {
    <Reader<T> as Argument<P, S, (T, ())>>::plan(plan);
}

fn deletes<P: Kind, S, T: ChildKind>(plan: &mut Plan) {
    <Deleter<T> as Argument<P, S, (T, ())>>::plan(plan);
}

/// Adds what a slot needs, which an optional one needs only where its kind is installed.
fn planned<V: Verbs>(plan: &mut Plan, needs: impl FnOnce(&mut Plan)) {
    if V::OPTIONAL { plan.optionally(needs) } else { needs(plan) }
}

pub(crate) fn typed<T: ChildKind>(object: AnyObject) -> Result<Arc<T>, BoxError> {
    object.downcast().map_err(|_| "a child is of another kind".into())
}

impl<P, F, V, M> UntypedSlot for Typed<P, F, V, M>
where
    P: Kind,
    F: ChildFn<P, M>,
    V: Verbs,
    M: 'static,
{
    fn id(&self) -> &FunctionId {
        &self.slot.id
    }

    fn reads_more(&self) -> bool {
        F::READS_MORE
    }

    fn write(&self, child: &AnyObject, to: &mut Vec<u8>) {
        if let Some(child) = child.downcast_ref::<<F::Form as Form>::Kind>() {
            // The apply finds a child that cannot be written.
            let _ = serde_json::to_writer(to, child);
        }
    }

    fn write_desired(&self, child: &AnyObject, to: &mut Vec<u8>) {
        let _ = serde_json::to_writer(to, &self.desired(child));
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
}

impl<P, S, F, V, M> DynSlot<P, S> for Typed<P, F, V, M>
where
    P: Kind,
    S: Send + Sync + 'static,
    F: CallFn<P, S, M>,
    V: Verbs,
    M: 'static,
{
    fn takes(&self, function: &FunctionId) -> bool {
        self.slot.inputs.iter().chain(&self.slot.after).any(|other| other.is(function.id))
    }

    fn spec(&self, names: &dyn Fn(&FunctionId) -> String) -> SlotSpec {
        self.slot.spec(&names)
    }

    fn is_absent(&self, context: &Context<P, S>) -> bool {
        is_absent(context, &self.kind)
    }

    fn kind(&self) -> Option<Box<dyn DynKind<P, S>>> {
        (!F::EXTERNAL).then(|| Box::new(TypedKind::<<F::Form as Form>::Kind>::new()) as _)
    }

    fn call(&self, context: &Context<P, S>, slot: usize, inputs: &[Vec<AnyObject>]) -> Result<SlotOutput, BoxError> {
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
                let Some(object) = reader.get(&key)? else { return Ok(SlotOutput::External(id, None)) };
                let is_terminating = object.meta().deletion_timestamp.is_some();
                let readiness = judge(&*object)?;
                let object: AnyObject = object;
                let own = self.judge(&ChildObject::Decoded(object.clone()))?.filter(|_| !is_terminating);
                return Ok(SlotOutput::External(id, Some((own.unwrap_or(readiness), object))));
            }
        };
        let named = children.into_iter().map(|child| match child.meta().name.as_deref() {
            None | Some("") => {
                Err(format!("a child of the slot `{}` has no name: set `metadata.name`", self.slot.id.name))
            }
            Some(_) => Ok((id_of(&*owner, &child, &self.kind, self.resource.clone()), Arc::new(child) as AnyObject)),
        });
        Ok(SlotOutput::Children(named.collect::<Result<_, _>>()?))
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
            let labels = marks(context).labels(&label).into_iter();
            child.labels_mut().extend(labels.filter_map(|(key, value)| Some((key, value?))));
            let applier = <OwnedApplier<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
            // Without it the error of `apply_owned` says why the child cannot be owned.
            let is_marked = is_ordered && is_apart(&*owner, &child);
            let options = OwnedApplyOptions { adopt: self.slot.flags.adopt, once: self.slot.flags.once };
            let applied = applier.apply_declared(&*owner, &child, options, is_marked, observed).await?;
            let names = std::slice::from_ref(&label.slot);
            applied.map(|applied| found(context, Arc::new(applied), names)).transpose()
        }
        .boxed()
    }

    fn probe<'a>(
        &'a self,
        context: &'a Context<P, S>,
        child: AnyObject,
        refused: &'a AccessError,
    ) -> Request<'a, bool> {
        async move {
            let child: Arc<<F::Form as Form>::Kind> = typed(child)?;
            let applier = <OwnedApplier<<F::Form as Form>::Kind> as Argument<P, S, (_, ())>>::extract(context);
            let owner = owner(context);
            Ok(applier.probe(&*owner, &child, is_apart(&*owner, &*child), refused).await?)
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
            let (child, owner) = (child?, owner(context));
            let labels = marks(context).labels(&label).into_iter();
            let set: serde_json::Map<_, _> = labels.map(|(key, value)| (key, Value::from(value))).collect();
            let patcher = <Patcher<MetadataOf<P, F, M>> as Argument<P, S, (_, ())>>::extract(context);
            let mut metadata = json!({"labels": set});
            if is_outdated::<P>(owner.meta(), &child.metadata) {
                let mut references = child.owner_references().to_vec();
                let of_owner = references.iter_mut().filter(|one| Some(&one.uid) == owner.meta().uid.as_ref());
                of_owner.for_each(|one| one.api_version = P::api_version(&()).into_owned());
                metadata["ownerReferences"] = json!(references);
                // The list is replaced as a whole.
                metadata["resourceVersion"] = json!(child.resource_version());
            }
            let patch = PatchBody::merge(json!({"metadata": metadata}));
            let patched = patcher.patch_object(&child, patch).await?;
            let version = patched.resource_version().unwrap_or_default().into();
            let (controller, slots) = (context.controller(), std::slice::from_ref(&label.slot));
            Ok((label_of(controller, owner.meta(), &patched.metadata, slots), version))
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
