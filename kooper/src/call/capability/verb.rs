//! The verbs that capabilities grant, each with the rules that it brings.

use k8s_openapi::api::core::v1::Pod;

use super::has_status::HasStatus;
use crate::call::plan::Plan;
use crate::object::kind::Kind;

/// A verb that a capability grants on the kind `T`. `M` is inferred and keeps
/// impls apart.
pub trait Verb<T, M = ()>: 'static {
    /// Adds to the plan what the verb needs.
    fn plan(plan: &mut Plan);
}

/// Reads from a cache.
#[derive(Debug)]
pub enum Read {}

/// Gets by name.
#[derive(Debug)]
pub enum Get {}

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

impl<T: Kind> Verb<T> for Read {
    fn plan(plan: &mut Plan) {
        plan.require_cache::<T>(format!("Reader<{}>", T::kind(&())));
    }
}

/// A verb that grants reading `T` from a cache.
#[diagnostic::on_unimplemented(
    message = "this argument may not read `{T}` from a cache: take `Reader<{T}>`, which also adds the rule",
    label = "not a `Reader<{T}>`"
)]
pub trait MayRead<T> {}

#[diagnostic::do_not_recommend]
impl<T: Kind> MayRead<T> for Read {}

impl<T: Kind> Verb<T> for Get {
    fn plan(plan: &mut Plan) {
        plan.require::<T>(None, &["get"], format!("Getter<{}>", T::kind(&())));
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
        plan.watch_children::<T>(because);
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
