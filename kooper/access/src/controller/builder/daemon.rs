//! Daemons: functions that run until their object changes.

use kooper_runtime::internal::controller::Config;
use kooper_runtime::leader::LeaderElection;
use kooper_runtime::queue::QueueOptions;
use kooper_runtime::{Changed, Kind};
use kooper_sharding::Shards;
use serde::de::DeserializeOwned;

use super::{Builder, MakeService, service_of};
use crate::extract::DaemonArguments;
use crate::handler::Handler;
use crate::plan::Plan;

/// The function, and what its arguments need.
pub(super) struct Daemon<O, S> {
    pub(super) make: MakeService<O, S>,
    pub(super) plan: fn(&mut Plan),
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Runs a function for each object until the object changes. It takes the arguments of a handler,
    /// except `Children`.
    ///
    /// There is one running function for each uid. It is dropped at its next `await` when the generation of the object
    /// changes, or the object is being deleted or no longer selected, and at the end of the program and of leadership. After
    /// a change it begins again, once the old one has ended. If it fails or panics, it begins again with back-off; if it
    /// returns `Ok`, it has finished until the next change. The memory limits how many run at the same time: `workers` does
    /// not.
    ///
    /// It runs in a controller named `<name>-daemon`, which has its own metrics, log lines and Lease, and with leader
    /// election its own state.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kooper::prelude::*;
    ///
    /// async fn tick(config: Arc<ConfigMap>) -> Result<()> {
    ///     loop {
    ///         tracing::info!(config = %config.name_any(), "still there");
    ///         tokio::time::sleep(Duration::from_secs(60)).await;
    ///     }
    /// }
    ///
    /// let controller = ConfigMap::controller("clocks").handler(async || {}).daemon(tick).build()?;
    /// # let _ = controller;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn daemon<H: Handler<O, S, Args>, Args: DaemonArguments + 'static>(mut self, daemon: H) -> Self {
        self.daemon = Some(Daemon { make: service_of(move |input| daemon.handle(input)), plan: H::plan });
        self
    }
}

/// A name of a daemon, or of its Lease.
fn name(of: &str) -> String {
    format!("{of}-daemon")
}

/// The settings of a controller for its daemon.
pub(crate) fn config(controller: &Config) -> Config {
    let controller = controller.clone();
    Config {
        name: name(&controller.name),
        // A change that cancels a daemon restarts it.
        queue: QueueOptions { resync: None, debounce: None, ..controller.queue },
        workers: 1,
        timeout: None,
        changed: vec![Changed::Generation],
        leader: controller.leader.map(election),
        previous_names: controller.previous_names.iter().map(|previous| name(previous)).collect(),
        previous_finalizers: Vec::new(),
        finalizer: None,
        cleanup_on_leave: false,
        retirement: None,
        while_deleting: false,
        daemon: true,
        ..controller
    }
}

/// The leader election of a controller for its daemon, which has a separate Lease.
pub(crate) fn election(controller: LeaderElection) -> LeaderElection {
    match controller.place().0.map(name) {
        Some(lease) => controller.lease(lease),
        None => controller,
    }
}

/// The shards of a controller for its daemon, which has a separate map.
pub(super) fn shards(controller: Shards) -> Shards {
    match controller.place().0.map(name) {
        Some(lease) => controller.lease(lease),
        None => controller,
    }
}
