//! The fns of an object's end: handlers whose mistakes are told by their own names.

use super::Handler;
use crate::extract::Vanished;

/// A fn for [`cleanup`](crate::controller::Builder::cleanup): any [`Handler`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot clean up after a `{O}`",
    label = "not a fn for `cleanup`",
    note = "write an `async fn` whose arguments (at most eight) are `Arc<{O}>`, `Call`, `Client`, `State<S>`, `Recorder` or capabilities, and which returns `()`, `Action`, `Result<(), E>` or `Result<Action, E>`"
)]
pub trait Cleanup<O, S, Args>: Handler<O, S, Args> {}

#[diagnostic::do_not_recommend]
impl<O, S, Args, H: Handler<O, S, Args>> Cleanup<O, S, Args> for H {}

/// A fn for [`deleted`](crate::controller::Builder::deleted): a [`Handler`] that may also take
/// [`Gone`](crate::extract::Gone).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be told of a deleted `{O}`",
    label = "not a fn for `deleted`",
    note = "write an `async fn` whose arguments (at most eight) are `Arc<{O}>`, `Gone`, `Call`, `Client`, `State<S>`, `Recorder` or capabilities, and which returns `()`, `Action`, `Result<(), E>` or `Result<Action, E>`"
)]
pub trait Deleted<O, S, Args>: Handler<Vanished<O>, S, Args> {}

#[diagnostic::do_not_recommend]
impl<O, S, Args, H: Handler<Vanished<O>, S, Args>> Deleted<O, S, Args> for H {}
