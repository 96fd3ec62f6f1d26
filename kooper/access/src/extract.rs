//! The arguments of a handler, each found by its type.

mod arguments;
mod daemon;
mod mistaken;
mod shard_clients;

use std::ops::Deref;
use std::sync::Arc;

use kooper_runtime::internal::call::extensions::Extensions;
use kooper_runtime::{Call, ObjectKey};
use kube::Client;

use crate::clock::Clock;
use crate::plan::Plan;
use crate::settings::{GivenSettings, Settings};

pub(crate) use arguments::{Arguments, DeletedArguments, InitArguments, arities};
pub use daemon::{DaemonArgument, DaemonArguments};
#[doc(inline)]
pub use kooper_runtime::{ControllerContext, Gone};

use shard_clients::ShardClients;

#[doc(hidden)]
#[deprecated = "use `ControllerContext`"]
pub type Backing = ControllerContext;

/// A type that a handler of objects `O` with the state `S` can take as an
/// argument.
///
/// `M` is inferred. It keeps impls apart that would overlap without it.
#[diagnostic::on_unimplemented(
    message = "a handler for `{O}` cannot take `{Self}`",
    label = "not an argument of a handler",
    note = "take `Arc<{O}>` (the object), `Call` (this call), `Client`, `Recorder`, a capability such as `Reader<T>` \
            or `Applier<T>`, `State<{S}>` (the value from `init = path`, or `()` without `init`), or `Settings<T>` \
            (the program's own settings)"
)]
pub trait Argument<O, S, M = ()>: Sized + Send + 'static {
    /// Adds to the plan what the argument needs. Called once, when the controller
    /// is built.
    fn plan(_plan: &mut Plan) {}

    /// Extracts the argument from the context of a call.
    fn extract(context: &Context<O, S>) -> Self;
}

/// A type that a function for `deleted` can take as an argument: those of
/// handlers, and [`Gone`].
#[diagnostic::on_unimplemented(
    message = "a function for `deleted` cannot take `{Self}`",
    label = "not an argument of a function for `deleted`",
    note = "take `Arc<{O}>` (the last known object), `Gone`, `Call` (this call), `Client`, `Recorder`, a capability \
            such as `Reader<T>` or `Deleter<T>`, `State<{S}>` (the value from `init = path`, or `()` without `init`), \
            or `Settings<T>` (the program's own settings)"
)]
pub trait DeletedArgument<O, S, M = ()>: Argument<Removed<O>, S, M> {}

#[diagnostic::do_not_recommend]
impl<O, S, M, A: Argument<Removed<O>, S, M>> DeletedArgument<O, S, M> for A {}

/// A type that a function for `init` can take as an argument: one that needs no
/// object.
#[diagnostic::on_unimplemented(
    message = "a function for `init` cannot take `{Self}`",
    label = "not an argument of `init`",
    note = "take `Client`, `Settings<T>`, or a capability such as `Reader<T>` or `Creator<T>`: there is no object, no call and no state yet"
)]
pub trait InitArgument<M = ()>: Sized + Send + 'static {
    /// Adds to the plan what the argument needs. Called once, when the controller
    /// is built.
    fn plan(plan: &mut Plan);

    /// Extracts the argument from what the runtime has for the controller.
    fn take(controller: &Arc<ControllerContext>) -> Self;
}

/// The context of one call, which arguments are extracted from.
pub struct Context<O, S> {
    pub(crate) object: Arc<O>,
    pub(crate) call: Call,
    pub(crate) state: State<S>,
    pub(crate) controller: Arc<ControllerContext>,
}

impl<O, S> Context<O, S> {
    #[doc(hidden)]
    #[must_use]
    pub fn new(object: Arc<O>, call: Call, state: State<S>, controller: Arc<ControllerContext>) -> Self {
        Self { object, call, state, controller }
    }

    /// Values that are kept for the controller.
    #[doc(hidden)]
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.controller.extensions
    }

    /// The key of the object.
    #[doc(hidden)]
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.call.key()
    }

    #[doc(hidden)]
    #[must_use]
    pub fn controller(&self) -> &ControllerContext {
        &self.controller
    }
}

impl<O, S> Clone for Context<O, S> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            call: self.call.clone(),
            state: self.state.clone(),
            controller: self.controller.clone(),
        }
    }
}

kooper_runtime::internal::debug_fields! { Context<O, S> { call } }

/// The last known state of a removed object, for `deleted`.
#[derive(Debug)]
pub struct Removed<O> {
    pub(crate) object: Arc<O>,
    pub(crate) gone: Gone,
}

/// The state of a controller, shared by all calls.
///
/// It dereferences to the state; [`into_inner`](Self::into_inner) is the `Arc` of it.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::prelude::*;
///
/// async fn counter() -> Result<AtomicU64> {
///     Ok(AtomicU64::new(0))
/// }
///
/// #[kooper::controller(resource = Pod, init = counter, main = false)]
/// async fn count(calls: State<AtomicU64>) {
///     calls.fetch_add(1, Ordering::Relaxed);
/// }
/// ```
///
/// A field of the state is a field of the argument, also of a tuple:
///
/// ```
/// use kooper::prelude::*;
///
/// fn limit(settings: &State<(u32, String)>) -> String {
///     format!("{} of {}", settings.0, settings.1)
/// }
/// assert_eq!(limit(&State::new((3, "pods".to_owned()))), "3 of pods");
/// ```
#[derive(Debug)]
pub struct State<S> {
    // Not public, nor of a tuple: `.0` is that of the state.
    shared: Arc<S>,
}

impl<S> State<S> {
    /// Wraps a state, as to call a handler in a unit test.
    #[must_use]
    pub fn new(state: S) -> Self {
        Self { shared: Arc::new(state) }
    }

    /// The state itself, as to pass it to a task. It is not a method, as it could hide
    /// one of the state.
    #[must_use]
    pub fn into_inner(this: Self) -> Arc<S> {
        this.shared
    }
}

impl<S> From<Arc<S>> for State<S> {
    fn from(shared: Arc<S>) -> Self {
        Self { shared }
    }
}

impl<S> Clone for State<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S> Deref for State<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.shared
    }
}

#[diagnostic::do_not_recommend]
impl<O: Send + Sync + 'static, S> Argument<O, S> for Arc<O> {
    fn extract(context: &Context<O, S>) -> Self {
        context.object.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<O: Send + Sync + 'static, S> Argument<Removed<O>, S> for Arc<O> {
    fn extract(context: &Context<Removed<O>, S>) -> Self {
        context.object.object.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<O: Send + Sync + 'static, S> Argument<Removed<O>, S> for Gone {
    fn extract(context: &Context<Removed<O>, S>) -> Self {
        context.object.gone
    }
}

#[diagnostic::do_not_recommend]
impl<O, S> Argument<O, S> for Call {
    fn extract(context: &Context<O, S>) -> Self {
        context.call.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<O, S> Argument<O, S> for Clock {
    fn extract(_: &Context<O, S>) -> Self {
        Self::default()
    }
}

#[diagnostic::do_not_recommend]
impl InitArgument for Clock {
    fn plan(_: &mut Plan) {}

    fn take(_: &Arc<ControllerContext>) -> Self {
        Self::default()
    }
}

/// The type of a controller's state, which is `S`.
#[diagnostic::on_unimplemented(
    message = "the state of this controller is `{S}`, not `{Self}`: add an `init` that builds `{Self}`",
    label = "not the state of this controller",
    note = "`init = path` names an `async fn path(…) -> Result<{Self}, E>`; without it the state is `()`"
)]
pub trait StateOf<S>: Sized {
    /// The state as this type.
    fn of(state: &State<S>) -> State<Self>;
}

impl<S> StateOf<S> for S {
    fn of(state: &State<S>) -> State<S> {
        state.clone()
    }
}

// Recommended, so that the compiler names a state type that no `init` builds.
impl<O, S, T: StateOf<S> + Send + Sync + 'static> Argument<O, S> for State<T> {
    fn extract(context: &Context<O, S>) -> Self {
        T::of(&context.state)
    }
}

#[diagnostic::do_not_recommend]
impl<O, S> Argument<O, S> for Client {
    fn plan(plan: &mut Plan) {
        plan.require_client("`Client`");
    }

    fn extract(context: &Context<O, S>) -> Self {
        let client = context.controller.client();
        match context.call.term() {
            Some(term) => context.controller.extensions.get::<ShardClients>().of(term, client),
            None => client,
        }
    }
}

#[diagnostic::do_not_recommend]
impl InitArgument for Client {
    fn plan(plan: &mut Plan) {
        plan.require_client("`Client`");
    }

    fn take(controller: &Arc<ControllerContext>) -> Self {
        controller.client()
    }
}

#[diagnostic::do_not_recommend]
impl<O, S, T: Send + Sync + 'static> Argument<O, S> for Settings<T> {
    fn plan(plan: &mut Plan) {
        plan.require_settings::<T>();
    }

    fn extract(context: &Context<O, S>) -> Self {
        settings(&context.controller)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> InitArgument for Settings<T> {
    fn plan(plan: &mut Plan) {
        plan.require_settings::<T>();
    }

    fn take(controller: &Arc<ControllerContext>) -> Self {
        settings(controller)
    }
}

/// The program's settings of a type. A controller that takes them is not started without them.
fn settings<T: Send + Sync + 'static>(controller: &ControllerContext) -> Settings<T> {
    let name = std::any::type_name::<T>();
    let none = || panic!("there are no settings of the type `{name}`: pass them to the cluster with `settings`");
    controller.extensions.get::<GivenSettings>().get().unwrap_or_else(none)
}
