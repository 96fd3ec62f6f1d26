//! Settings for production: leader election, finalizers, CRDs.

use std::marker::PhantomData;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kooper_runtime::leader::LeaderElection;
use kooper_runtime::{Kind, Namespaced};
use kooper_sharding::Shards;
use kube::CustomResourceExt;
use serde::de::DeserializeOwned;

use super::{Builder, service_of};
use crate::controller::Task;
use crate::handler::{Deleted, Handler};

/// Makes the CRD of a kind.
pub(crate) type MakeCrd = fn() -> CustomResourceDefinition;

#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a custom resource: remove `install_crd`",
    label = "not a custom resource",
    note = "only types that derive `kube::CustomResource` have a CRD that can be installed"
)]
/// A kind with a CRD: one that derives `kube::CustomResource`.
pub trait CustomKind: Kind + CustomResourceExt {}

#[diagnostic::do_not_recommend]
impl<K: Kind + CustomResourceExt> CustomKind for K {}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Enables leader election: handlers run only in the replica that holds the
    /// Lease. The caches of the other replicas are kept up to date. Default:
    /// off.
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        self.common.config.leader = Some(election);
        self
    }

    /// Shares the objects between all replicas: each handles those of the shards that it owns, and no
    /// object is handled by two replicas at the same time. It excludes leader election. Default: off.
    pub fn shards(mut self, shards: Shards) -> Self {
        self.common.description.shards = Some(shards);
        self
    }

    /// The same, with all objects of a namespace in one shard: of objects with the same name, too, no
    /// two are handled at the same time.
    pub fn shards_by_namespace(self, shards: Shards) -> Self
    where
        K: Namespaced,
    {
        self.shards(shards.by_namespace())
    }

    /// Names that this controller had before: the fields that it applied under
    /// them are taken over, and a Lease that is held under one of them is respected.
    pub fn previous_names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.common.config.previous_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Finalizers that this controller had before: each is replaced by the
    /// current one, or removed after `cleanup`, which they need.
    pub fn previous_finalizers<N: Into<String>>(mut self, finalizers: impl IntoIterator<Item = N>) -> Self {
        self.common.config.previous_finalizers = finalizers.into_iter().map(Into::into).collect();
        self
    }

    /// The name of the program before its binary was renamed. A Lease that is
    /// held under that name is respected, and the fields that it applied are
    /// taken over.
    pub fn previous_program(mut self, program: impl Into<String>) -> Self {
        self.common.config.previous_program = Some(program.into());
        self
    }

    /// The previous name of [`previous_names`](Self::previous_names).
    #[deprecated = "use `previous_names`"]
    pub fn former_names<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.previous_names(names)
    }

    /// The previous name of [`previous_finalizers`](Self::previous_finalizers).
    #[deprecated = "use `previous_finalizers`"]
    pub fn former_finalizers<N: Into<String>>(self, finalizers: impl IntoIterator<Item = N>) -> Self {
        self.previous_finalizers(finalizers)
    }

    /// The previous name of [`previous_program`](Self::previous_program).
    #[deprecated = "use `previous_program`"]
    pub fn former_program(self, program: impl Into<String>) -> Self {
        self.previous_program(program)
    }

    /// Sets the handler that cleans up before an object is deleted, and the
    /// finalizer that guarantees its call. The finalizer is set before the
    /// first call of the handler. It is removed only when `cleanup` has
    /// returned `Ok` without a requeue. Once `cleanup` is done, nothing is called for
    /// an object that the finalizer of another client still keeps.
    #[doc(alias = "finalizer")]
    pub fn cleanup<H: Handler<O, S, Args>, Args: 'static>(mut self, finalizer: impl Into<String>, cleanup: H) -> Self {
        H::plan(&mut self.common.plan);
        cleanup.extend(&mut self.common.description.additions);
        self.common.config.finalizer = Some(finalizer.into());
        self.cleanup = Some(service_of(move |input| cleanup.handle(input)));
        self
    }

    /// Cleans up objects that no longer match the selector, or whose namespaces do not, too. Otherwise they keep their
    /// finalizer, and a Warning Event is recorded on them. It needs [`cleanup`](Self::cleanup) and a selector.
    pub fn cleanup_on_leave(mut self) -> Self {
        self.common.config.cleanup_on_leave = true;
        self
    }

    /// Calls the handler for objects that are being deleted, too: those with a
    /// deletion timestamp, which a finalizer or a grace period keeps for a while. By
    /// default they are ignored. It excludes [`cleanup`](Self::cleanup), which is
    /// called for them instead.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::KindExt;
    ///
    /// async fn watch(pod: Arc<Pod>) {
    ///     let stops = pod.metadata.deletion_timestamp.is_some();
    ///     println!("{:?} {}", pod.metadata.name, if stops { "stops" } else { "runs" });
    /// }
    ///
    /// let controller = Pod::controller("watch").while_deleting().handler(watch).build()?;
    /// # let _ = controller;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn while_deleting(mut self) -> Self {
        self.common.config.while_deleting = true;
        self
    }

    /// Sets a function that is called with the last known state of objects that
    /// were removed. It is called once for each removal that this process
    /// observes, without retries, and not for objects that were removed while
    /// no replica was running. It takes the arguments of a handler, and
    /// [`Gone`](kooper_runtime::Gone).
    pub fn deleted<H: Deleted<O, S, Args>, Args: 'static>(mut self, deleted: H) -> Self {
        H::plan(&mut self.common.plan);
        self.deleted = Some(service_of(move |input| deleted.handle(input)));
        self
    }

    /// Sets the kind's CRD, which the command `crd` prints.
    pub fn crd(mut self) -> Self
    where
        K: CustomKind,
    {
        self.common.description.crd = Some(K::crd);
        self
    }

    /// Applies the kind's CRD at the start, and waits until it is established.
    /// A CRD in the cluster that cannot be replaced safely is kept: the
    /// controller works with it and is not ready until that is resolved.
    pub fn install_crd(mut self) -> Self
    where
        K: CustomKind,
    {
        self.common.description.installs_crd = true;
        self.crd()
    }

    /// Makes the kind optional: while the cluster does not serve it, `/readyz`
    /// reports that and is ready nevertheless. Default: the kind is required.
    pub fn optional(mut self) -> Self {
        self.common.config.optional = true;
        self
    }

    /// Sets an annotation by which users pause an object: while its value is `true`, the handler is not called. An object
    /// that is being deleted is cleaned up all the same. A Normal Event reports each change. A handler with declared
    /// children that writes their status sets the condition `Paused` meanwhile. Default: objects cannot be paused.
    pub fn pause(mut self, annotation: impl Into<String>) -> Self {
        self.common.config.annotations.pause = Some(annotation.into());
        self.common.plan.record_events("pause");
        self
    }

    /// Sets an annotation by which users have an object reconciled: each change of its value calls the handler at once,
    /// also for an object whose handler keeps failing, and whatever [`changed`](Self::changed) says. Default: none.
    pub fn reconcile_now(mut self, annotation: impl Into<String>) -> Self {
        self.common.config.annotations.reconcile_now = Some(annotation.into());
        self
    }

    /// Marks the objects of the kind as secret, for all controllers of the program:
    /// they are compressed each by itself, and `kooper_store_bytes` does not count
    /// them. Otherwise who may write one of them, and reads the metrics, could guess
    /// what others contain. Secrets are always treated so. Default: off.
    pub fn secret(mut self) -> Self {
        self.common.plan.note_secret::<K>();
        self
    }

    /// Sets the CRD if the kind has one: the attribute generates this call.
    #[doc(hidden)]
    pub fn maybe_crd(mut self, known: impl FnOnce(PhantomData<K>) -> Option<MakeCrd>) -> Self {
        self.common.description.crd = self.common.description.crd.or_else(|| known(PhantomData));
        self
    }
}

impl<O, S> Builder<Task, O, S> {
    /// Declares that the task may run in each replica at the same time, so that it does not limit the number of
    /// replicas. It excludes [`leader_election`](Self::leader_election), with which it runs in one. Default: the task
    /// runs in each replica, and `manifests` allows one replica only.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kooper::controller::Task;
    ///
    /// let task = Task::builder("refresh", Duration::from_secs(60)).everywhere().handler(async || {}).build()?;
    /// assert!(task.runs_everywhere());
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn everywhere(mut self) -> Self {
        self.common.description.everywhere = true;
        self
    }

    /// Runs the task in the replica that owns one of the shards of this controller, which must be in the same program and
    /// have [`shards`](Self::shards). The hash of the task's name decides which shard, so several tasks are spread over
    /// the replicas. It excludes [`leader_election`](Self::leader_election) and [`everywhere`](Self::everywhere).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kooper::controller::Task;
    ///
    /// let task = Task::builder("sweep", Duration::from_secs(60)).shard_of("shops").handler(async || {}).build()?;
    /// assert_eq!(task.shard_of(), Some("shops"));
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn shard_of(mut self, controller: impl Into<String>) -> Self {
        self.common.description.shard_of = Some(controller.into());
        self
    }
}
