//! The function that is called for a removed object.

use super::Handler;
use super::outcome::Outcome;
use super::signature::{Asynchronous, Signature};
use super::status::StatusOf;
use crate::extract::{DeletedArguments, Removed};

/// A function for [`deleted`](crate::controller::Builder::deleted): a [`Handler`] that can also take
/// [`Gone`](kooper_runtime::Gone).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be called for a deleted `{O}`",
    label = "not a function for `deleted`",
    note = "write an `async fn` whose arguments (at most sixteen) are `Arc<{O}>`, `Gone`, `Call`, `Client`, `State<S>`, `Recorder` or capabilities, and which returns `()`, `Action`, `Result<(), E>` or `Result<Action, E>`"
)]
pub trait Deleted<O, S, Args>: Handler<Removed<O>, S, Args> {}

// Recommended, so that the compiler names the wrong argument or return type.
impl<O, S, F, A, M, N> Deleted<O, S, (A, M, N)> for F
where
    O: Send + Sync + 'static,
    S: Send + Sync + 'static,
    F: Signature<A>,
    F::Output: Asynchronous + Send + 'static,
    <F::Output as Asynchronous>::Answer: Outcome<Status: StatusOf<Removed<O>, S, N>>,
    A: DeletedArguments<O, S, M>,
{
}
