//! The arguments of a handler, each found by its type.

mod arguments;
mod backing;
mod contested;
mod former;
mod kept;
mod mistaken;

use std::ops::Deref;
use std::sync::Arc;

use kube::Client;

use crate::call::Call;
use crate::call::plan::Plan;

pub(crate) use arguments::{Arguments, DeletedArguments, InitArguments, arities};
pub use backing::Backing;
pub(crate) use contested::Contested;
pub(crate) use former::Former;
pub(crate) use kept::Kept;

/// Something that a handler of the object type `O` and the state type `S` can
/// take as an argument.
///
/// `M` only keeps impls apart that would overlap without it; it is inferred.
#[diagnostic::on_unimplemented(
    message = "a handler for `{O}` cannot take `{Self}`",
    label = "not an argument of a handler",
    note = "take `Arc<{O}>` (the object), `Call` (this call), `Client`, `Recorder`, a capability such as `Reader<T>` or `Applier<T>`, or `State<{S}>` (what `init = path` builds, `()` without it)"
)]
pub trait Argument<O, S, M = ()>: Sized + Send + 'static {
    /// Notes what the argument needs; asked once, before anything runs.
    fn plan(_plan: &mut Plan) {}

    /// Takes the argument out of what the runtime has for the call.
    fn extract(context: &Context<O, S>) -> Self;
}

/// Something that the fn of `deleted` can take: what a handler can, and [`Gone`].
#[diagnostic::on_unimplemented(
    message = "a function for `deleted` cannot take `{Self}`",
    label = "not an argument of a function for `deleted`",
    note = "take `Arc<{O}>` (the last known object), `Gone`, `Call` (this call), `Client`, `Recorder`, a capability such as `Reader<T>` or `Deleter<T>`, or `State<{S}>` (what `init = path` builds, `()` without it)"
)]
pub trait DeletedArgument<O, S, M = ()>: Argument<Removed<O>, S, M> {}

#[diagnostic::do_not_recommend]
impl<O, S, M, A: Argument<Removed<O>, S, M>> DeletedArgument<O, S, M> for A {}

/// Something that `init` can take: an argument that needs no object.
#[diagnostic::on_unimplemented(
    message = "a function for `init` cannot take `{Self}`",
    label = "not an argument of `init`",
    note = "take `Client`, or a capability such as `Reader<T>` or `Creator<T>`: there is no object, no call and no state yet"
)]
pub trait InitArgument<M = ()>: Sized + Send + 'static {
    /// Notes what the argument needs; asked once, before anything runs.
    fn plan(plan: &mut Plan);

    /// Takes the argument out of what the runtime has for the controller.
    fn take(backing: &Arc<Backing>) -> Self;
}

/// What the runtime has for one call; arguments are taken out of it.
pub struct Context<O, S> {
    pub(crate) object: Arc<O>,
    pub(crate) call: Call,
    pub(crate) state: State<S>,
    pub(crate) backing: Arc<Backing>,
}

impl<O, S> std::fmt::Debug for Context<O, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("call", &self.call).finish_non_exhaustive()
    }
}

/// The last known state of an object that is no more, for the fn of `deleted`.
#[derive(Debug)]
pub struct Removed<O> {
    pub(crate) object: Arc<O>,
    pub(crate) gone: Gone,
}

/// How an object vanished, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gone {
    /// It was deleted.
    Deleted,
    /// It lives, and left the selector of the controller.
    Left,
    /// It was there before a gap in the watch and not after it.
    Unknown,
}

/// The state that `init` built, shared by all calls.
///
/// It dereferences to the state. `State(db): State<Db>` as an argument takes
/// the `Arc<Db>` out of it.
#[derive(Debug)]
pub struct State<S>(pub Arc<S>);

impl<S> State<S> {
    /// Shares a state.
    pub fn new(state: S) -> Self {
        Self(Arc::new(state))
    }

    pub(crate) fn shared(state: Arc<S>) -> Self {
        Self(state)
    }
}

impl<S> Clone for State<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> Deref for State<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
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

/// The state of a controller whose `init` builds `S`: `S` alone.
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

// Recommended, so that a state that nothing builds is named by its type.
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
        context.backing.client()
    }
}

#[diagnostic::do_not_recommend]
impl InitArgument for Client {
    fn plan(plan: &mut Plan) {
        plan.require_client("`Client`");
    }

    fn take(backing: &Arc<Backing>) -> Self {
        backing.client()
    }
}
