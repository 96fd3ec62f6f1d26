//! The names for webhooks.

use std::marker::PhantomData;

use kube::CustomResourceExt;
use serde::Serialize;

use super::v1::{Kinds, Never, Nothing};
use crate::Kind;
use kooper_webhooks::{
    Argument, FunctionBuilder, MutateOutcome, MutatedObject, NewObject, TypedFunction, ValidateOutcome,
};
pub use kooper_webhooks::{Builder, ConfigError, FailurePolicy, Mutate, Operation, Validate, Webhook};

/// Starts a webhook that validates.
pub fn validate<K: BeginValidate<M>, M>(_: PhantomData<K>, name: &str) -> K::Builder {
    K::begin(name)
}

/// Starts a webhook that mutates.
pub fn mutate<K: BeginMutate<M>, M>(_: PhantomData<K>, name: &str) -> K::Builder {
    K::begin(name)
}

/// A kind that a webhook can validate: every [`Kind`]. There are two impls, so that the compiler reports the kind,
/// and not each call on the builder, too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of Kubernetes object, which a webhook could validate",
    label = "not a kind",
    note = "name a type of `k8s_openapi`, such as `k8s_openapi::api::core::v1::Pod`, or one that derives `kube::CustomResource`"
)]
pub trait BeginValidate<M> {
    /// The builder that it begins with.
    type Builder;

    /// Creates the builder.
    fn begin(name: &str) -> Self::Builder;
}

#[diagnostic::do_not_recommend]
impl<K: Kind> BeginValidate<Kinds> for K {
    type Builder = Builder<K, Validate>;

    fn begin(name: &str) -> Self::Builder {
        Webhook::validate(name)
    }
}

#[diagnostic::do_not_recommend]
impl<K: Never> BeginValidate<Nothing> for K {
    type Builder = ();

    fn begin(_: &str) {}
}

/// A kind that a webhook can change: every [`Kind`] that can be serialized.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of Kubernetes object, which a webhook could change",
    label = "not a kind",
    note = "name a type of `k8s_openapi`, such as `k8s_openapi::api::core::v1::Pod`, or one that derives `kube::CustomResource`"
)]
pub trait BeginMutate<M> {
    /// The builder that it begins with.
    type Builder;

    /// Creates the builder.
    fn begin(name: &str) -> Self::Builder;
}

#[diagnostic::do_not_recommend]
impl<K: Kind + Serialize> BeginMutate<Kinds> for K {
    type Builder = Builder<K, Mutate>;

    fn begin(name: &str) -> Self::Builder {
        Webhook::mutate(name)
    }
}

#[diagnostic::do_not_recommend]
impl<K: Never> BeginMutate<Nothing> for K {
    type Builder = ();

    fn begin(_: &str) {}
}

/// A kind whose objects need not go on while the webhook is away: a custom resource.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a custom resource: write what happens to its objects while the webhook is away",
    label = "needs `failure`",
    note = "write `failure = ignore`, and they are stored without it, or `failure = fail`, and nobody can store them"
)]
pub trait OwnKind {}

#[diagnostic::do_not_recommend]
impl<K: CustomResourceExt> OwnKind for K {}

/// A webhook without a failure policy, which depends on the kind.
#[must_use]
pub fn own_kind<K: Kind + OwnKind, M, S>(builder: Builder<K, M, S>) -> Builder<K, M, S> {
    builder
}

/// The object that a function validates, its first argument. The functions of the steps span the tokens that their
/// messages are about, from the first to the last.
#[must_use]
pub fn new_object<K, S, N>(builder: Builder<K, Validate, S>) -> FunctionBuilder<K, Validate, S, ((), N)>
where
    K: Kind,
    S: Send + Sync + 'static,
    N: NewObject<K>,
{
    builder.new_object()
}

/// The object that a function changes, its first argument.
#[must_use]
pub fn mutated_object<K, S, N>(builder: Builder<K, Mutate, S>) -> FunctionBuilder<K, Mutate, S, ((), N)>
where
    K: Kind + Serialize,
    S: Send + Sync + 'static,
    N: MutatedObject<K>,
{
    builder.mutated_object()
}

/// One more argument.
#[must_use]
pub fn argument<K, M, S, A, T>(function: FunctionBuilder<K, M, S, A>) -> FunctionBuilder<K, M, S, (A, T)>
where
    K: Kind,
    M: 'static,
    S: Send + Sync + 'static,
    A: 'static,
    T: Argument<K, S>,
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
