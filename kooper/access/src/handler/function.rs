//! Async functions as handlers.

use std::sync::Arc;
use std::task::{self, Poll};

use futures_util::future::BoxFuture;
use kooper_runtime::{Action, BoxError, ControllerContext};
use tower::Service;

use super::Input;
use super::outcome::Outcome;
use super::signature::{Asynchronous, Signature};
use super::status::{StatusOf, end, finish};
use crate::calls::Additions;
use crate::extract::{Arguments, Context, State};
use crate::plan::Plan;

/// A function of the context of a call, whose arguments are not part of its type.
#[doc(hidden)]
pub type HandlerFn<O, S> = Box<dyn Fn(Context<O, S>) -> BoxFuture<'static, Result<Action, BoxError>> + Send + Sync>;

/// A handler: an async function that takes up to sixteen
/// [`Argument`](crate::extract::Argument)s in any order and returns an
/// [`Outcome`].
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::{Call, KindExt};
///
/// async fn echo(pod: Arc<Pod>, call: Call) {
///     println!("{} because of {}: {:?}", call.key(), call.reasons(), pod.spec);
/// }
///
/// let controller = Pod::controller("echo").handler(echo).build()?;
/// # assert_eq!(controller.name(), "echo");
/// # Ok::<_, kooper::ConfigError>(())
/// ```
#[doc(alias = "reconciler")]
#[doc(alias = "reconcile")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler for `{O}`",
    label = "not a handler",
    note = "a handler is an `async fn` whose arguments (at most sixteen) are `Arc<{O}>`, `Call`, `Client`, `State<S>`, `Recorder` or capabilities, and which returns `()`, `Action`, `Status<T>`, or one of these in `Result`"
)]
pub trait Handler<O, S, Args>: Send + Sync + 'static {
    /// Adds to the plan what the arguments need.
    fn plan(plan: &mut Plan);

    /// Adds what the handler keeps for its controller.
    #[doc(hidden)]
    fn extend(&self, additions: &mut Additions) {
        let _ = additions;
    }

    /// A function that is called for a paused object, for which the handler is not called.
    #[doc(hidden)]
    fn paused(&self) -> Option<HandlerFn<O, S>> {
        None
    }

    /// Extracts the arguments and calls the function.
    fn handle(&self, context: Context<O, S>) -> BoxFuture<'static, Result<Action, BoxError>>;
}

// Recommended, so that the compiler names the wrong argument or return type.
impl<O, S, F, A, M, N> Handler<O, S, (A, M, N)> for F
where
    O: Send + Sync + 'static,
    S: Send + Sync + 'static,
    F: Signature<A>,
    F::Output: Asynchronous + Send + 'static,
    <F::Output as Asynchronous>::Answer: Outcome<Status: StatusOf<O, S, N>>,
    A: Arguments<O, S, M>,
{
    fn plan(plan: &mut Plan) {
        A::plan(plan);
        <<F::Output as Asynchronous>::Answer as Outcome>::Status::plan(plan);
    }

    fn handle(&self, context: Context<O, S>) -> BoxFuture<'static, Result<Action, BoxError>> {
        let future = self.call_with(A::extract(&context));
        let end = end::<O, S, _, N>(&context);
        Box::pin(async move { finish(end(future.await)).await })
    }
}

/// A closure from the context of a call to its result, as a service.
pub(crate) struct Function<S, F> {
    pub(crate) function: Arc<F>,
    pub(crate) state: State<S>,
    pub(crate) controller: Arc<ControllerContext>,
}

impl<S, F> Clone for Function<S, F> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), state: self.state.clone(), controller: self.controller.clone() }
    }
}

impl<O, S, F> Service<Input<O>> for Function<S, F>
where
    F: Fn(Context<O, S>) -> BoxFuture<'static, Result<Action, BoxError>>,
{
    type Response = Action;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Action, BoxError>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, input: Input<O>) -> Self::Future {
        let context = Context {
            object: input.object,
            call: input.call,
            state: self.state.clone(),
            controller: self.controller.clone(),
        };
        (self.function)(context)
    }
}
