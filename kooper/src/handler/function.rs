//! A plain async fn as a handler.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tower::Service;

use super::Job;
use crate::action::{Action, Outcome};
use crate::error::BoxError;
use crate::extract::{Argument, Backing, Input, State};
use crate::plan::Plan;

/// An async fn whose arguments are each an [`Argument`] and whose result is
/// an [`Outcome`], up to eight arguments in any order.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::{Call, Controller};
///
/// async fn echo(pod: Arc<Pod>, call: Call) {
///     println!("{} because of {}: {:?}", call.key(), call.reasons(), pod.spec);
/// }
///
/// let controller = Controller::builder::<Pod>("echo").handler(echo).build()?;
/// # assert_eq!(controller.name(), "echo");
/// # Ok::<_, kooper::ConfigError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no handler of `{O}`",
    label = "not a handler",
    note = "a handler is an `async fn` whose arguments (at most eight) are `Arc<{O}>`, `Call`, `Client`, `State<S>`, `Recorder` or capabilities, and which returns `()`, `Action`, `Result<(), E>` or `Result<Action, E>`"
)]
pub trait Handler<O, S, Args>: Send + Sync + 'static {
    /// Notes what the arguments need.
    fn plan(plan: &mut Plan);

    /// Calls the fn with the arguments that its types ask for.
    fn handle(&self, input: Input<O, S>) -> BoxFuture<'static, Result<Action, BoxError>>;
}

macro_rules! handlers {
    ($($argument:ident $marker:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<O, S, F, Fut, $($argument, $marker,)*> Handler<O, S, ($(($argument, $marker),)*)> for F
        where
            O: Send + Sync + 'static,
            S: Send + Sync + 'static,
            F: Fn($($argument),*) -> Fut + Send + Sync + 'static,
            Fut: Future + Send + 'static,
            Fut::Output: Outcome,
            $($argument: Argument<O, S, $marker>,)*
        {
            fn plan(plan: &mut Plan) {
                let _ = &plan;
                $(<$argument as Argument<O, S, $marker>>::plan(plan);)*
            }

            fn handle(&self, input: Input<O, S>) -> BoxFuture<'static, Result<Action, BoxError>> {
                let _ = &input;
                let future = self($(<$argument as Argument<O, S, $marker>>::extract(&input)),*);
                Box::pin(async move { future.await.into_action() })
            }
        }
    };
}

arities!(handlers);

/// A closure from the input of a call to its outcome, as a service.
pub(crate) struct Function<S, F> {
    pub(crate) function: Arc<F>,
    pub(crate) state: State<S>,
    pub(crate) backing: Arc<Backing>,
}

impl<S, F> Clone for Function<S, F> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), state: self.state.clone(), backing: self.backing.clone() }
    }
}

impl<O, S, F> Service<Job<O>> for Function<S, F>
where
    F: Fn(Input<O, S>) -> BoxFuture<'static, Result<Action, BoxError>>,
{
    type Response = Action;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Action, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, job: Job<O>) -> Self::Future {
        let input =
            Input { object: job.object, call: job.call, state: self.state.clone(), backing: self.backing.clone() };
        (self.function)(input)
    }
}
