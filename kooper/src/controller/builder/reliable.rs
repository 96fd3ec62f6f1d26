//! What production needs: leader election, finalizers, CRDs.

use std::marker::PhantomData;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde::de::DeserializeOwned;

use super::{Builder, service_of};
use crate::call::handler::{Deleted, Handler};
use crate::leader::LeaderElection;
use crate::object::kind::Kind;

/// Makes the CRD of a kind.
pub(crate) type MakeCrd = fn() -> CustomResourceDefinition;

/// A kind that brings its CRD: one that derives `kube::CustomResource`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a custom resource: remove `install_crd`",
    label = "not a custom resource",
    note = "only the CRD of a type that derives `kube::CustomResource` is known, and can be installed"
)]
pub trait CustomKind: Kind + CustomResourceExt {}

#[diagnostic::do_not_recommend]
impl<K: Kind + CustomResourceExt> CustomKind for K {}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Handlers run in one replica only, the one that holds the lease. The
    /// others keep their caches warm. Default: off.
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        self.common.config.leader = Some(election);
        self
    }

    /// Names that this controller had before: the fields that it applied under
    /// them are taken over, and a lease of theirs that is held is respected.
    pub fn former_names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.common.config.former_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Finalizers that this controller had before: each is replaced by the
    /// current one, or removed after `cleanup`, which they need.
    pub fn former_finalizers<N: Into<String>>(mut self, finalizers: impl IntoIterator<Item = N>) -> Self {
        self.common.config.former_finalizers = finalizers.into_iter().map(Into::into).collect();
        self
    }

    /// The name that the program had before its binary was renamed: a held
    /// lease of that program is respected, and the fields that it applied are
    /// taken over.
    pub fn former_program(mut self, program: impl Into<String>) -> Self {
        self.common.config.former_program = Some(program.into());
        self
    }

    /// What is done before an object vanishes, guaranteed: the finalizer is
    /// put on the object before the first call of the handler, and taken off
    /// only when `cleanup` has returned `Ok` without asking to come back.
    pub fn cleanup<H: Handler<O, S, Args>, Args: 'static>(mut self, finalizer: impl Into<String>, cleanup: H) -> Self {
        H::plan(&mut self.common.plan);
        self.common.config.finalizer = Some(finalizer.into());
        self.cleanup = Some(service_of(move |input| cleanup.handle(input)));
        self
    }

    /// An object that leaves the selector alive is cleaned up too. Without
    /// this it keeps its finalizer, and a Warning Event says so.
    pub fn cleanup_on_leave(mut self) -> Self {
        self.common.config.cleanup_on_leave = true;
        self
    }

    /// Told of objects that vanished, with their last known state, as far as
    /// this process sees it: one try for each, and none for what vanished
    /// while nothing ran. It takes what a handler takes, and
    /// [`Gone`](crate::call::extract::Gone).
    pub fn deleted<H: Deleted<O, S, Args>, Args: 'static>(mut self, deleted: H) -> Self {
        H::plan(&mut self.common.plan);
        self.deleted = Some(service_of(move |input| deleted.handle(input)));
        self
    }

    /// The kind's CRD, for the command `crd`.
    pub fn crd(mut self) -> Self
    where
        K: CustomKind,
    {
        self.common.crd = Some(K::crd);
        self
    }

    /// Applies the kind's CRD at the start, and waits until it is established.
    /// One of the cluster that cannot be replaced safely stays: the controller
    /// works with it and is not ready until that is resolved.
    pub fn install_crd(mut self) -> Self
    where
        K: CustomKind,
    {
        self.common.config.install_crd = true;
        self.crd()
    }

    /// A cluster that does not have the kind is fine: until it has, `/readyz`
    /// says so and is ready nevertheless. Default: the kind is required.
    pub fn optional(mut self) -> Self {
        self.common.config.optional = true;
        self
    }

    /// The CRD if the kind is known to have one: what the attribute writes.
    #[doc(hidden)]
    pub fn maybe_crd(mut self, known: impl FnOnce(PhantomData<K>) -> Option<MakeCrd>) -> Self {
        self.common.crd = self.common.crd.or_else(|| known(PhantomData));
        self
    }
}
