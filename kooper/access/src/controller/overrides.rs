//! The settings that the command line overrides, and tests do.

use std::time::Duration;

use kooper_runtime::internal::controller::Config;
use kooper_runtime::leader::LeaderElection;
use kooper_sharding::Shards;

use super::Controller;
use super::builder::daemon;
use super::builder::namespaces::{DELETED, NAMESPACE_SELECTOR, UNSELECTED};
use super::check::{check, check_replicas, check_shards};
use super::error::ConfigError;

impl Controller {
    /// Watches these namespaces instead of the built-in ones; an empty list is
    /// for all. Returns `false`, and changes nothing, if the kind is
    /// cluster-scoped or the controller has a custom retriever. The namespaces of a
    /// [`Task`](super::Task) are those that it reads.
    pub fn set_namespaces(&mut self, namespaces: Vec<String>) -> bool {
        let can = self.is_task() || self.spec.kind.namespaced && !self.spec.own_retriever;
        if can {
            if let Some(daemon) = &mut self.daemon {
                daemon.set_namespaces(namespaces.clone());
            }
            self.spec.config.namespaces = namespaces;
            self.spec.config.own_namespace = false;
            (self.spec.config.namespace_selector, self.spec.namespaces) = (None, None);
            self.plan.forget(NAMESPACE_SELECTOR);
            if !self.spec.config.may_leave() {
                self.spec.unselected = None;
                self.plan.forget(UNSELECTED);
                self.plan.forget(DELETED);
            }
            self.spec.caches = self.plan.caches().cloned().collect();
        }
        can
    }

    /// Sets the namespace of the operator. Controllers with
    /// [`own_namespace`](super::Builder::own_namespace) watch it, unless
    /// [`set_namespaces`](Self::set_namespaces) was called; others do not change. An
    /// [`Operator`](crate::Operator) uses the default namespace of its client if it was not set.
    pub fn set_own_namespace(&mut self, namespace: &str) {
        if self.spec.config.own_namespace {
            self.set_namespaces(vec![namespace.to_owned()]);
        }
    }

    /// Returns `true` if the controller watches the namespace of the operator, and it is not set yet.
    #[doc(hidden)]
    #[must_use]
    pub fn awaits_own_namespace(&self) -> bool {
        self.spec.config.own_namespace
    }

    /// Sets how many objects are handled at the same time, instead of the
    /// built-in number.
    ///
    /// # Errors
    /// When the number is zero; then it is not changed.
    pub fn set_workers(&mut self, workers: usize) -> Result<(), ConfigError> {
        self.set(|config| config.workers = workers)
    }

    /// Sets the resync interval, instead of the built-in one; `None` disables
    /// resyncs. Tasks and daemons have none.
    ///
    /// # Errors
    /// When the interval is zero; then it is not changed.
    pub fn set_resync(&mut self, resync: Option<Duration>) -> Result<(), ConfigError> {
        let has_none = self.spec.config.daemon || self.is_task();
        self.set(|config| config.queue.resync = resync.filter(|_| !has_none))
    }

    /// Fetches objects as JSON only, as is good for a packet capture. Otherwise
    /// built-in kinds come in protobuf where the API server offers it.
    pub fn set_json_only(&mut self, json_only: bool) {
        self.spec.config.json_only = json_only;
        if let Some(daemon) = &mut self.daemon {
            daemon.set_json_only(json_only);
        }
    }

    /// Sets the leader election, instead of the built-in one; with `None`
    /// handlers run in every replica.
    ///
    /// # Errors
    /// When the settings are invalid, or another setting of the controller, such as its shards, excludes leader
    /// election; then they are not changed.
    pub fn set_leader_election(&mut self, election: Option<LeaderElection>) -> Result<(), ConfigError> {
        let of_daemon = election.clone().map(daemon::election);
        self.set(|config| config.leader = election)?;
        self.daemon.as_mut().map_or(Ok(()), |daemon| daemon.set_leader_election(of_daemon))
    }

    /// Handles all objects in every replica, instead of those of its shards. A task runs in every replica.
    #[doc(hidden)]
    pub fn remove_shards(&mut self) {
        (self.description.shards, self.description.shard_of) = (None, None);
        if let Some(daemon) = &mut self.daemon {
            daemon.remove_shards();
        }
    }

    /// Changes the settings of the shards, if the controller has some.
    #[doc(hidden)]
    pub fn edit_shards(&mut self, edit: fn(Shards) -> Shards) {
        self.description.shards = self.description.shards.take().map(edit);
        if let Some(daemon) = &mut self.daemon {
            daemon.edit_shards(edit);
        }
    }

    /// Changes settings if they are valid afterwards.
    fn set(&mut self, change: impl FnOnce(&mut Config)) -> Result<(), ConfigError> {
        let mut config = self.spec.config.clone();
        change(&mut config);
        check(&config)?;
        check_shards(self.description.shards.as_ref(), &config)?;
        check_replicas(self.description.everywhere, self.description.shard_of.is_some(), &config)?;
        self.spec.config = config;
        Ok(())
    }
}
