//! The function that builds a controller's state.

use std::future::Future;
use std::sync::Arc;

use kooper_runtime::{BoxError, ControllerContext};

use super::signature::{Asynchronous, Signature};
use crate::extract::InitArguments;
use crate::plan::Plan;

/// A function for `init`: an `async fn(…) -> Result<S, E>` that builds the state
/// `S` and takes up to sixteen
/// [`InitArgument`](crate::extract::InitArgument)s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot build a state",
    label = "not a function for `init`",
    note = "write `async fn name(…) -> Result<S, E>` that takes nothing, `Client` or capabilities (at most sixteen), where `E` is an error type"
)]
pub trait Init<S, Args>: Send + Sync + 'static {
    /// Adds to the plan what the arguments need.
    fn plan(plan: &mut Plan);

    /// Builds the state.
    fn build(&self, controller: &Arc<ControllerContext>) -> impl Future<Output = Result<S, BoxError>> + Send;
}

// Recommended, so that the compiler names the wrong argument or return type.
impl<F, S, A, M> Init<S, (A, M)> for F
where
    F: Signature<A>,
    F::Output: Asynchronous + Send,
    <F::Output as Asynchronous>::Answer: Built<S>,
    A: InitArguments<M>,
{
    fn plan(plan: &mut Plan) {
        A::plan(plan);
    }

    fn build(&self, controller: &Arc<ControllerContext>) -> impl Future<Output = Result<S, BoxError>> + Send {
        let future = self.call_with(A::take(controller));
        async move { future.await.built() }
    }
}

/// The return type of `init`: `Result<S, E>`.
#[diagnostic::on_unimplemented(
    message = "`init` must return a `Result`, but this function returns `{Self}`",
    label = "does not return `Result<S, E>`",
    note = "write `async fn name(…) -> Result<S, E>`, where `E` is an error type"
)]
pub trait Built<S> {
    /// The state, or the error of building it.
    fn built(self) -> Result<S, BoxError>;
}

#[diagnostic::do_not_recommend]
impl<S, E: Into<BoxError>> Built<S> for Result<S, E> {
    fn built(self) -> Result<S, BoxError> {
        self.map_err(Into::into)
    }
}
