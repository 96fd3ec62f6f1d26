//! The status of an object, as the result of its handler.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kooper_runtime::internal::call::action::{NoStatus, Outcome};
use kooper_runtime::{Action, BoxError, Kind, Status};
use serde::Serialize;

use crate::StatusWriter;
use crate::capability::HasStatus;
use crate::extract::{Argument, Context};
use crate::plan::Plan;

/// What a handler of objects `O` can set as their status. `M` is inferred.
#[diagnostic::on_unimplemented(
    message = "a handler for `{O}` cannot return `{Self}`",
    label = "not the status of the object",
    note = "return `Status<T>` with the type of its status, as in `#[kube(status = \"…\")]`"
)]
pub trait StatusOf<O, S, M>: Sized {
    /// Adds to the plan what the write needs.
    fn plan(plan: &mut Plan);

    /// Applies it to the object of the call.
    fn apply(self, context: &Context<O, S>) -> BoxFuture<'static, Result<(), BoxError>>;
}

impl<O, S> StatusOf<O, S, ()> for NoStatus {
    fn plan(_: &mut Plan) {}

    fn apply(self, _: &Context<O, S>) -> BoxFuture<'static, Result<(), BoxError>> {
        match self {}
    }
}

#[diagnostic::do_not_recommend]
impl<O, S, T, M> StatusOf<O, S, (M,)> for Status<T>
where
    O: HasStatus<M, Status = T> + Kind,
    T: Serialize + Send + Sync + 'static,
{
    fn plan(plan: &mut Plan) {
        <StatusWriter<O> as Argument<O, S, (O, M)>>::plan(plan);
    }

    fn apply(self, context: &Context<O, S>) -> BoxFuture<'static, Result<(), BoxError>> {
        let statuses = <StatusWriter<O> as Argument<O, S, (O, M)>>::extract(context);
        let object = context.object.clone();
        async move {
            statuses.apply_status(&*object, &self.0).await?;
            Ok(())
        }
        .boxed()
    }
}

/// The action of a call whose handler has returned, and the write of its status.
pub(crate) type Ended = Result<(Action, Option<BoxFuture<'static, Result<(), BoxError>>>), BoxError>;

/// Ends a call whose handler has returned.
pub(crate) fn end<O, S, T, M>(context: &Context<O, S>, outcome: T) -> Ended
where
    T: Outcome<Status: StatusOf<O, S, M>>,
{
    let (action, status) = outcome.parts()?;
    Ok((action, status.map(|status| status.apply(context))))
}

/// Writes the status.
pub(crate) async fn finish(ended: Ended) -> Result<Action, BoxError> {
    let (action, applying) = ended?;
    if let Some(applying) = applying {
        applying.await?;
    }
    Ok(action)
}
