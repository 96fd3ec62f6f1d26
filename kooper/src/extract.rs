//! The arguments of a handler, each found by its type.

use std::ops::Deref;
use std::sync::Arc;

use kube::Client;

use crate::call::Call;
use crate::plan::Plan;

/// Something that a handler of the object type `O` and the state type `S` can
/// take as an argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument that this handler can take",
    label = "not an argument of a handler of `{O}`",
    note = "take `Arc<{O}>` (the object), `Call` (this call), `Client`, or `State<{S}>` (what `init = path` builds, `()` without it)"
)]
pub trait Argument<O, S>: Sized + Send + 'static {
    /// Notes what the argument needs; asked once, before anything runs.
    fn plan(_plan: &mut Plan) {}

    /// Takes the argument out of what the runtime has for the call.
    fn extract(input: &Input<O, S>) -> Self;
}

/// What the runtime has for one call; arguments are taken out of it.
pub struct Input<O, S> {
    pub(crate) object: Arc<O>,
    pub(crate) call: Call,
    pub(crate) state: State<S>,
    pub(crate) client: Option<Client>,
}

impl<O, S> std::fmt::Debug for Input<O, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("call", &self.call).finish_non_exhaustive()
    }
}

/// The state that `init` built, shared by all calls.
#[derive(Debug)]
pub struct State<S>(Arc<S>);

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
    fn extract(input: &Input<O, S>) -> Self {
        input.object.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<O, S> Argument<O, S> for Call {
    fn extract(input: &Input<O, S>) -> Self {
        input.call.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<O, S: Send + Sync + 'static> Argument<O, S> for State<S> {
    fn extract(input: &Input<O, S>) -> Self {
        input.state.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<O, S> Argument<O, S> for Client {
    fn plan(plan: &mut Plan) {
        plan.needs_client();
    }

    fn extract(input: &Input<O, S>) -> Self {
        #[expect(clippy::expect_used, reason = "a controller that takes a client is not started without one")]
        input.client.clone().expect("a controller that takes a client is started with one")
    }
}
