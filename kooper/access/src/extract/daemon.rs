//! The arguments that a daemon can take.

use super::arguments::arities;
use super::mistaken::Bare;

/// The marker of an [`Argument`](super::Argument) that a daemon can take, too. That of `Children` is none, because the
/// children belong to a call of the handler, and a daemon runs apart from it.
#[diagnostic::on_unimplemented(
    message = "a daemon cannot take `Children`",
    label = "takes `Children`",
    note = "the children are those of a call of the handler: read them with a `Reader<T>`, or pass values through the status"
)]
pub trait DaemonArgument {}

impl DaemonArgument for () {}

impl<T, M> DaemonArgument for (T, M) {}

impl DaemonArgument for Bare {}

/// The markers of a function whose arguments are all a [`DaemonArgument`].
pub trait DaemonArguments {}

impl<A, M: DaemonMarkers, N> DaemonArguments for (A, M, N) {}

/// A tuple of markers.
pub trait DaemonMarkers {}

macro_rules! tuples {
    ($($argument:ident $marker:ident)*) => {
        impl<$($marker: DaemonArgument),*> DaemonMarkers for ($($marker,)*) {}
    };
}

arities!(tuples);
