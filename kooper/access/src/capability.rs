//! Capabilities: arguments that each grant a handler one verb on one kind, and add
//! the permission to the controller's rules.

mod author;
pub mod by;
mod children;
mod conditions;
mod conflicting_fields;
mod count;
mod edit;
mod entry;
mod error;
mod foreign;
mod grant;
mod has_status;
mod hidden;
mod history;
mod owned;
mod owner;
mod patch;
mod previous;
mod probe;
mod reader;
mod recorder;
mod request;
mod status;
mod status_table;
mod statuses;
mod verb;
mod write;

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kooper_runtime::{Call, ControllerContext};

use crate::extract::{Argument, Context, InitArgument};
use crate::plan::Plan;

pub use crate::subset::{All, Subset, SubsetOf};
pub use by::{Index, Selection};
pub(crate) use children::Children;
#[expect(deprecated, reason = "its previous name")]
pub use conditions::Holds;
pub use conditions::{ConditionStatus, Conditions, set_condition};
pub use count::count_once;
pub use entry::Entry;
pub use error::{AccessError, Rejection};
pub use grant::{MayApply, MayApplyOwned, MayCreate, MayDelete, MayEvict, MayGet, MayPatch, MayWriteStatus};
pub use has_status::{BuiltIn, Custom, HasStatus};
pub use history::beyond_history_limit;
pub use kooper_runtime::internal::object::as_object::AsObject;
pub(crate) use owned::NEVER;
#[doc(hidden)]
pub use owned::{OwnedApplyOptions, has_marked, note_marked};
#[doc(hidden)]
pub use owner::ADOPTED;
pub use owner::{OWNER, OwnerError, owned_by};
pub use patch::PatchBody;
pub use recorder::Recorder;
#[doc(hidden)]
pub use statuses::ReservedStatus;
pub use verb::{MayRead, Verb};

/// Access to objects of the kind `T` with the verb `V`. Handlers take one of the
/// aliases as an argument.
pub struct Access<T, V> {
    pub(crate) controller: Arc<ControllerContext>,
    /// The current call; `None` in `init` and map functions.
    pub(crate) call: Option<Call>,
    /// `true` if entries that other clients add to a child are removed.
    exclusive: bool,
    kind: PhantomData<fn() -> (T, V)>,
}

/// Reads from a cache, which is synced before the first call:
/// [`get`](Access::get), [`list`](Access::list), [`select`](Access::select).
#[doc(alias = "lister")]
#[doc(alias = "informer")]
#[doc(alias = "indexer")]
///
/// `Reader<T>` has all objects, or those that [`reads`](crate::controller::Builder::reads)
/// selects, and `Reader<T, S>` those of a [`Subset`]: no others are fetched. With
/// `Reader<PartialObjectMeta<T>>` only metadata is fetched.
pub type Reader<T, S = ()> = Access<T, verb::Read<S>>;

/// Gets an object from the API server: [`fetch`](Access::fetch).
///
/// `Getter<T, S>` gets the objects of a [`Subset`] only, and the role allows no
/// others.
pub type Getter<T, S = ()> = Access<T, verb::Get<S>>;

/// Creates objects: [`create`](Access::create).
pub type Creator<T> = Access<T, verb::Create>;

/// Applies objects with server-side apply: [`apply`](Access::apply). The field
/// manager is `program/controller`, and conflicts are forced.
#[doc(alias = "server-side apply")]
pub type Applier<T> = Access<T, verb::Apply>;

/// Applies children of the controller's objects like [`Applier`], and watches
/// them like `owns`: [`apply_owned`](Access::apply_owned),
/// [`adopt`](Access::adopt).
pub type OwnedApplier<T> = Access<T, verb::ApplyOwned>;

/// Patches objects: [`patch`](Access::patch),
/// [`patch_object`](Access::patch_object), [`edit`](Access::edit) to read, change and
/// write one atomically.
pub type Patcher<T> = Access<T, verb::Patch>;

/// Deletes objects, and their dependents in the background:
/// [`delete_object`](Access::delete_object),
/// [`delete_unchanged`](Access::delete_unchanged), [`delete`](Access::delete),
/// [`delete_with`](Access::delete_with).
pub type Deleter<T> = Access<T, verb::Delete>;

/// Evicts pods: [`evict`](Access::evict).
pub type Evictor = Access<Pod, verb::Evict>;

/// Applies the status of objects: [`apply_status`](Access::apply_status).
pub type StatusWriter<T> = Access<T, verb::WriteStatus>;

/// A request to the API server. It is sent when it is awaited.
// Boxed, so that the compiler reports a verb that is not granted once, and not again for the
// opaque type of each call.
pub type Request<'a, T> = BoxFuture<'a, Result<T, AccessError>>;

/// An iterator over what a reader found, boxed like a [`Request`].
pub type BoxIterator<T> = Box<dyn Iterator<Item = T> + Send>;

impl<T, V> Access<T, V> {
    /// The access of a controller outside of a call.
    pub(crate) fn of(controller: &Arc<ControllerContext>) -> Self {
        Self { controller: controller.clone(), call: None, exclusive: false, kind: PhantomData }
    }
}

impl<T, V> Clone for Access<T, V> {
    fn clone(&self) -> Self {
        Self {
            controller: self.controller.clone(),
            call: self.call.clone(),
            exclusive: self.exclusive,
            kind: PhantomData,
        }
    }
}

kooper_runtime::internal::debug_fields! { Access<T, V> { controller, call } }

// Recommended, so that the compiler names a kind that does not have the verb.
impl<O, S, T: 'static, V: Verb<T, M>, M> Argument<O, S, (T, M)> for Access<T, V> {
    fn plan(plan: &mut Plan) {
        V::plan(plan);
    }

    fn extract(context: &Context<O, S>) -> Self {
        Self { call: Some(context.call.clone()), ..Self::of(&context.controller) }
    }
}

impl<T: 'static, V: Verb<T, M>, M> InitArgument<(T, M)> for Access<T, V> {
    fn plan(plan: &mut Plan) {
        V::plan(plan);
    }

    fn take(controller: &Arc<ControllerContext>) -> Self {
        Self::of(controller)
    }
}

#[cfg(test)]
mod tests;
