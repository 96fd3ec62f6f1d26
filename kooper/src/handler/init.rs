//! The fn that builds a controller's state.

use std::future::Future;
use std::sync::Arc;

use crate::error::BoxError;
use crate::extract::{Backing, InitArgument};
use crate::plan::Plan;

/// An `async fn(…) -> Result<S, E>` that builds the state `S`; it may take up
/// to eight arguments, each an [`InitArgument`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot build a state",
    label = "not a fn for `init`",
    note = "write `async fn name(…) -> Result<S, E>` that takes nothing, `Client` or capabilities (at most eight), where `E` is an error type"
)]
pub trait Init<Args>: Send + Sync + 'static {
    /// What it builds.
    type State: Send + Sync + 'static;

    /// Notes what the arguments need.
    fn plan(plan: &mut Plan);

    /// Builds the state.
    fn build(&self, backing: &Arc<Backing>) -> impl Future<Output = Result<Self::State, BoxError>> + Send;
}

macro_rules! inits {
    ($($argument:ident $marker:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<F, Fut, S, E, $($argument, $marker,)*> Init<($(($argument, $marker),)*)> for F
        where
            F: Fn($($argument),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<S, E>> + Send,
            S: Send + Sync + 'static,
            E: Into<BoxError>,
            $($argument: InitArgument<$marker>,)*
        {
            type State = S;

            fn plan(plan: &mut Plan) {
                let _ = &plan;
                $(<$argument as InitArgument<$marker>>::plan(plan);)*
            }

            fn build(&self, backing: &Arc<Backing>) -> impl Future<Output = Result<S, BoxError>> + Send {
                let _ = backing;
                let future = self($(<$argument as InitArgument<$marker>>::take(backing)),*);
                async move { future.await.map_err(Into::into) }
            }
        }
    };
}

arities!(inits);
