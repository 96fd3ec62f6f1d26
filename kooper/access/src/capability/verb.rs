//! The verbs that capabilities grant, each with the rules that it brings.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::Pod;
use kooper_runtime::Kind;

use super::has_status::HasStatus;
use crate::plan::Plan;
use crate::subset::{All, SubsetOf, parameters};

/// A verb that a capability grants on the kind `T`. `M` is inferred and keeps
/// impls apart.
pub trait Verb<T, M = ()>: 'static {
    /// Adds to the plan what the verb needs.
    fn plan(plan: &mut Plan);
}

/// Reads from a cache of all objects, or of those of a
/// [`Subset`](crate::capability::Subset).
pub struct Read<S = ()>(PhantomData<fn() -> S>);

/// Gets by name, possibly only objects of a [`Subset`](crate::capability::Subset).
pub struct Get<S = ()>(PhantomData<fn() -> S>);

impl<S> fmt::Debug for Read<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Read")
    }
}

impl<S> fmt::Debug for Get<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Get")
    }
}

/// Creates.
#[derive(Debug)]
pub enum Create {}

/// Applies with server-side apply.
#[derive(Debug)]
pub enum Apply {}

/// Applies children of the controller's objects.
#[derive(Debug)]
pub enum ApplyOwned {}

/// Patches.
#[derive(Debug)]
pub enum Patch {}

/// Deletes.
#[derive(Debug)]
pub enum Delete {}

/// Evicts pods.
#[derive(Debug)]
pub enum Evict {}

/// Applies the status.
#[derive(Debug)]
pub enum WriteStatus {}

impl<T: Kind, S: SubsetOf<T>> Verb<T> for Read<S> {
    fn plan(plan: &mut Plan) {
        plan.require_reader::<T, S>(format!("Reader<{}>", parameters::<T, S>()));
    }
}

/// A verb that grants reading `T` from a cache.
#[diagnostic::on_unimplemented(
    message = "this argument may not read `{T}` from a cache: take `Reader<{T}>`, which also adds the rule",
    label = "not a `Reader<{T}>`"
)]
pub trait MayRead<T> {
    /// The type that names the subset: `All<T>` for what `reads` selects, or all objects.
    #[doc(hidden)]
    fn subset() -> TypeId;
}

#[diagnostic::do_not_recommend]
impl<T: Kind, S: SubsetOf<T>> MayRead<T> for Read<S> {
    fn subset() -> TypeId {
        let own = TypeId::of::<S>();
        if own == TypeId::of::<()>() { TypeId::of::<All<T>>() } else { own }
    }
}

impl<T: Kind, S: SubsetOf<T>> Verb<T> for Get<S> {
    fn plan(plan: &mut Plan) {
        let objects = plan.subset::<T, S>();
        plan.require_get(objects, &format!("Getter<{}>", parameters::<T, S>()));
    }
}

impl<T: Kind> Verb<T> for Create {
    fn plan(plan: &mut Plan) {
        plan.require::<T>(None, &["create"], format!("Creator<{}>", T::kind(&())));
        plan.note_written::<T>();
    }
}

impl<T: Kind> Verb<T> for Apply {
    fn plan(plan: &mut Plan) {
        plan.require::<T>(None, &["create", "patch"], format!("Applier<{}>", T::kind(&())));
        plan.note_written::<T>();
    }
}

impl<T: Kind> Verb<T> for ApplyOwned {
    fn plan(plan: &mut Plan) {
        let because = format!("OwnedApplier<{}>", T::kind(&()));
        plan.require::<T>(None, &["create", "patch"], because.as_str());
        plan.note_written::<T>();
        plan.apply_children::<T>(because);
    }
}

impl<T: Kind> Verb<T> for Patch {
    fn plan(plan: &mut Plan) {
        plan.require::<T>(None, &["patch"], format!("Patcher<{}>", T::kind(&())));
    }
}

impl<T: Kind> Verb<T> for Delete {
    fn plan(plan: &mut Plan) {
        plan.require::<T>(None, &["delete"], format!("Deleter<{}>", T::kind(&())));
    }
}

impl Verb<Pod> for Evict {
    fn plan(plan: &mut Plan) {
        plan.require::<Pod>(Some("eviction"), &["create"], "Evictor");
    }
}

impl<T: HasStatus<M>, M> Verb<T, M> for WriteStatus {
    fn plan(plan: &mut Plan) {
        plan.require::<T>(Some("status"), &["patch"], format!("StatusWriter<{}>", T::kind(&())));
    }
}
