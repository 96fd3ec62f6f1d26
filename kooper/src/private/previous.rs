//! The names for kinds of previous children.

use std::marker::PhantomData;

use kooper_children::function::ChildKind;
use kooper_children::{Declaration, PreviousChildren};
use kube::Resource;

use super::v1::{Kinds, Never, Nothing, OwnedBy};
use crate::Kind;

/// Adds a kind of previous children.
pub fn previous_children<P: Kind, S, L, T, M>(
    declaration: Declaration<P, S, L>,
    _: PhantomData<T>,
) -> Declaration<P, S, (T::Planned, L)>
where
    S: Send + Sync + 'static,
    T: PreviousKind<M>,
{
    T::add(declaration)
}

/// As [`previous_children`], for children that Kubernetes deletes with their owner.
pub fn owned_previous_children<P: Kind, S, L, T, M>(
    declaration: Declaration<P, S, L>,
    _: PhantomData<T>,
) -> Declaration<P, S, (T::Planned, L)>
where
    S: Send + Sync + 'static,
    T: PreviousKind<M>,
    T::Scope: OwnedBy<P::Scope>,
{
    T::add(declaration)
}

/// A kind that previous children can have: every [`ChildKind`]. There are two impls, as of [`Begin`](super::v1::Begin).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the kind of a child",
    label = "not a kind of child",
    note = "name a type of `k8s_openapi`, or one that derives `kube::CustomResource`"
)]
pub trait PreviousKind<M> {
    /// The scope of the children.
    type Scope;
    /// The kind in the list of the slots' types.
    type Planned;

    /// Adds the kind.
    fn add<P: Kind, S, L>(declaration: Declaration<P, S, L>) -> Declaration<P, S, (Self::Planned, L)>
    where
        S: Send + Sync + 'static;
}

#[diagnostic::do_not_recommend]
impl<T: ChildKind> PreviousKind<Kinds> for T {
    type Scope = <T as Resource>::Scope;
    type Planned = PreviousChildren<T>;

    fn add<P: Kind, S, L>(declaration: Declaration<P, S, L>) -> Declaration<P, S, (PreviousChildren<T>, L)>
    where
        S: Send + Sync + 'static,
    {
        declaration.previous_children()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Never> PreviousKind<Nothing> for T {
    type Scope = ();
    type Planned = ();

    fn add<P: Kind, S, L>(_: Declaration<P, S, L>) -> Declaration<P, S, ((), L)>
    where
        S: Send + Sync + 'static,
    {
        unreachable!("no type implements `Never`")
    }
}
