//! The names for webhooks.

use std::marker::PhantomData;

use kube::CustomResourceExt;
use serde::Serialize;

use super::v1::{Kinds, Never, Nothing};
use crate::Kind;
pub use kooper_webhooks::{Builder, ConfigError, FailurePolicy, Mutate, Operation, Validate, Webhook};
use kooper_webhooks::{
    FunctionBuilder, MutateOutcome, MutatedObject, NewObject, TypedFunction, ValidateOutcome, WebhookArgument,
};

/// Starts a webhook that validates.
#[must_use]
pub fn validate<K: Begin<Validate, M>, M>(_: PhantomData<K>, name: &str) -> K::Builder {
    K::begin(name)
}

/// Starts a webhook that mutates.
#[must_use]
pub fn mutate<K: Begin<Mutate, M>, M>(_: PhantomData<K>, name: &str) -> K::Builder {
    K::begin(name)
}

/// A kind that a webhook can begin with, as [`Begin`](super::v1::Begin) of a controller: every [`Kind`], which a webhook
/// that mutates also serializes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of Kubernetes object",
    label = "not a kind",
    note = "name a type of `k8s_openapi`, such as `k8s_openapi::api::core::v1::Pod`, or one that derives `kube::CustomResource`"
)]
pub trait Begin<R, M> {
    /// The builder that it begins with.
    type Builder;

    /// Creates the builder.
    fn begin(name: &str) -> Self::Builder;
}

#[diagnostic::do_not_recommend]
impl<K: Kind> Begin<Validate, Kinds> for K {
    type Builder = Builder<K, Validate>;

    fn begin(name: &str) -> Self::Builder {
        Webhook::validate(name)
    }
}

#[diagnostic::do_not_recommend]
impl<K: Kind + Serialize> Begin<Mutate, Kinds> for K {
    type Builder = Builder<K, Mutate>;

    fn begin(name: &str) -> Self::Builder {
        Webhook::mutate(name)
    }
}

#[diagnostic::do_not_recommend]
impl<K: Never, R> Begin<R, Nothing> for K {
    type Builder = ();

    fn begin(_: &str) {}
}

/// A kind whose objects need not go on while the webhook is away: a custom resource.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a custom resource: set `failure` for when the webhook is unavailable",
    label = "needs `failure`",
    note = "write `failure = ignore` to admit objects while the webhook is unavailable, or `failure = fail` to deny them"
)]
pub trait OwnKind {}

#[diagnostic::do_not_recommend]
impl<K: CustomResourceExt> OwnKind for K {}

/// A function without arguments. Its types are named through a trait, so that those of a builder of no kind are unknown
/// in the steps that follow, too, and are not inferred from the function.
pub trait Begun {
    /// The kind of the objects.
    type Kind: Kind;
    /// [`Validate`] or [`Mutate`].
    type Role;
    /// The state.
    type State: Send + Sync + 'static;

    /// The function.
    fn function(self) -> FunctionBuilder<Self::Kind, Self::Role, Self::State, ()>;
}

impl<K: Kind, M, S: Send + Sync + 'static> Begun for FunctionBuilder<K, M, S, ()> {
    type Kind = K;
    type Role = M;
    type State = S;

    fn function(self) -> Self {
        self
    }
}

/// A webhook without a failure policy, which depends on the kind.
#[must_use]
pub fn own_kind<B: Begun>(begun: B) -> B
where
    B::Kind: OwnKind,
{
    begun
}

/// The object that a function validates, its first argument. The functions of the steps span the tokens that their
/// messages are about, from the first to the last.
#[must_use]
pub fn new_object<B, N>(begun: B) -> FunctionBuilder<B::Kind, Validate, B::State, ((), N)>
where
    B: Begun<Role = Validate>,
    N: NewObject<B::Kind>,
{
    begun.function().new_object()
}

/// The object that a function changes, its first argument.
#[must_use]
pub fn mutated_object<B, N>(begun: B) -> FunctionBuilder<B::Kind, Mutate, B::State, ((), N)>
where
    B: Begun<Role = Mutate>,
    B::Kind: Serialize,
    N: MutatedObject<B::Kind>,
{
    begun.function().mutated_object()
}

/// One more argument.
#[must_use]
pub fn argument<K, M, S, A, T>(function: FunctionBuilder<K, M, S, A>) -> FunctionBuilder<K, M, S, (A, T)>
where
    K: Kind,
    M: 'static,
    S: Send + Sync + 'static,
    A: 'static,
    T: WebhookArgument<K, S>,
{
    function.argument()
}

/// Completes a function that validates with its return type.
pub fn validated<K, S, T>(function: TypedFunction<K, Validate, S, T, ()>) -> Builder<K, Validate, S>
where
    K: Kind,
    S: Send + Sync + 'static,
    T: ValidateOutcome,
{
    function.validated()
}

/// Completes a function that mutates with its return type.
pub fn mutated<K, S, T>(function: TypedFunction<K, Mutate, S, T, K>) -> Builder<K, Mutate, S>
where
    K: Kind + Serialize,
    S: Send + Sync + 'static,
    T: MutateOutcome<K>,
{
    function.mutated()
}
