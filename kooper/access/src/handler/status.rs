//! The status of an object, as the result of its handler.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kooper_runtime::{Action, BoxError, Kind};
use serde::Serialize;

use super::outcome::{NoStatus, Outcome, Status};
use crate::StatusWriter;
use crate::capability::HasStatus;
use crate::extract::{Argument, Context};
use crate::plan::Plan;

/// A value that a handler of objects `O` can set as their status. `M` is inferred.
#[diagnostic::on_unimplemented(
    message = "a handler for `{O}` cannot return `{Self}`",
    label = "not the status of the object",
    note = "return `Status<T>` with the type of its status, as in `#[kube(status = \"…\")]`"
)]
pub trait StatusOf<O, S, M>: Sized {
    /// The object of the call, and what writes its status.
    ///
    /// It is kept while the handler runs, so it is empty for a handler that returns no status: such
    /// a handler can be the only owner of its object.
    type Target: Send + 'static;

    /// Adds to the plan what the write needs.
    fn plan(plan: &mut Plan);

    /// Takes from a call what the write needs.
    fn target(context: &Context<O, S>) -> Self::Target;

    /// Applies it.
    fn apply(self, target: Self::Target) -> BoxFuture<'static, Result<(), BoxError>>;
}

impl<O, S> StatusOf<O, S, ()> for NoStatus {
    type Target = ();

    fn plan(_: &mut Plan) {}

    fn target(_: &Context<O, S>) {}

    fn apply(self, (): ()) -> BoxFuture<'static, Result<(), BoxError>> {
        match self {}
    }
}

#[diagnostic::do_not_recommend]
impl<O, S, T, M> StatusOf<O, S, (M,)> for Status<T>
where
    O: HasStatus<M, Status = T> + Kind,
    T: Serialize + Send + Sync + 'static,
{
    type Target = (StatusWriter<O>, Arc<O>);

    fn plan(plan: &mut Plan) {
        <StatusWriter<O> as Argument<O, S, (O, M)>>::plan(plan);
    }

    fn target(context: &Context<O, S>) -> Self::Target {
        (<StatusWriter<O> as Argument<O, S, (O, M)>>::extract(context), context.object.clone())
    }

    fn apply(self, (statuses, object): Self::Target) -> BoxFuture<'static, Result<(), BoxError>> {
        async move {
            statuses.apply_status(&*object, &self.0).await?;
            Ok(())
        }
        .boxed()
    }
}

/// The action of a call whose handler has returned, and the write of its status.
pub(crate) type Ended = Result<(Action, Option<BoxFuture<'static, Result<(), BoxError>>>), BoxError>;

/// Ends a call with what its handler has returned.
pub(crate) type End<T> = Box<dyn FnOnce(T) -> Ended + Send>;

/// Prepares the end of a call.
pub(crate) fn end<O, S, T, M>(context: &Context<O, S>) -> End<T>
where
    T: Outcome<Status: StatusOf<O, S, M>>,
{
    let target = T::Status::target(context);
    Box::new(move |outcome| {
        let (action, status) = outcome.parts()?;
        Ok((action, status.map(|status| status.apply(target))))
    })
}

/// Writes the status.
pub(crate) async fn finish(ended: Ended) -> Result<Action, BoxError> {
    let (action, applying) = ended?;
    if let Some(applying) = applying {
        applying.await?;
    }
    Ok(action)
}
