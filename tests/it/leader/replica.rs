//! Operators with a common Lease, as if each were a separate process.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::controller::{Builder, operator};
use kooper::kube::api::{Patch, PatchParams};
use kooper::kube::{Api, Client, Config};
use kooper::leader::LeaderElection;
use kooper::{Call, Controller, RunError};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::{TIMEOUT, until};
use serde_json::json;
use tokio::runtime::{self, Runtime};

use crate::fixture::{Log, Running, run_edited};
use crate::live::{configmap, connection, wait_for_ready};

/// Short timings, so that the tests are fast.
pub(super) fn quick(namespace: &str) -> LeaderElection {
    LeaderElection::new()
        .namespace(namespace)
        .lease_duration(Duration::from_secs(3))
        .renew_deadline(Duration::from_secs(2))
        .retry_period(Duration::from_secs(1))
}

/// One operator with its own runtime. It uses one connection for all requests.
pub(super) struct Replica {
    runtime: Option<Runtime>,
    running: Running,
}

impl Replica {
    pub(super) fn start(
        config: impl Future<Output = Config>,
        controllers: impl IntoIterator<Item = Controller>,
    ) -> Self {
        Self::with(config, controllers, operator::Builder::client)
    }

    /// A replica of the program `shop` whose clients are set by `clients`.
    pub(super) fn with(
        config: impl Future<Output = Config>,
        controllers: impl IntoIterator<Item = Controller>,
        clients: impl FnOnce(operator::Builder, Client) -> operator::Builder,
    ) -> Self {
        Self::on_runtime(Runtime::new().unwrap(), config, controllers, clients)
    }

    /// A replica on a machine with one core.
    pub(super) fn with_one_thread(cluster: &ControlPlane, controller: Builder<ConfigMap>) -> Self {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let config = connection(cluster.kubeconfig(), None);
        Self::on_runtime(runtime, config, [controller.build().unwrap()], operator::Builder::client)
    }

    fn on_runtime(
        runtime: Runtime,
        config: impl Future<Output = Config>,
        controllers: impl IntoIterator<Item = Controller>,
        clients: impl FnOnce(operator::Builder, Client) -> operator::Builder,
    ) -> Self {
        let running = runtime.block_on(async {
            let client = Client::try_from(config.await).unwrap();
            run_edited(None, controllers, |builder| clients(builder.program("shop"), client))
        });
        Self { runtime: Some(runtime), running }
    }

    /// A replica with a direct connection to the shared control plane.
    pub(super) fn on(cluster: &ControlPlane, controller: Builder<ConfigMap>) -> Self {
        Self::start(connection(cluster.kubeconfig(), None), [controller.build().unwrap()])
    }

    pub(super) fn metric(&self, series: &str) -> f64 {
        self.running.metric(series).unwrap_or_default()
    }

    pub(super) fn leads(&self, lease: &str) -> bool {
        self.metric(&format!("leader_election_master_status{{name=\"{lease}\"}}")) == 1.0
    }

    pub(super) fn wait_until_leads(&self, lease: &str) {
        until(
            &format!("it is the leader by {lease}"),
            || self.leads(lease).then_some(()),
            || format!("{:?}", self.ready()),
        );
    }

    pub(super) fn wait_until_lost(&self, lease: &str) {
        until(&format!("it is not the leader by {lease}"), || (!self.leads(lease)).then_some(()), String::new);
    }

    pub(super) fn ready(&self) -> Result<String, String> {
        self.running.health.ready()
    }

    /// Waits until it is ready, or is not, with a message that contains all parts.
    pub(super) fn wait_for_ready(&self, ready: bool, parts: &[&str]) {
        wait_for_ready(&self.running.health, ready, parts);
    }

    /// Stops it gracefully.
    pub(super) fn stop(mut self) {
        self.running.shutdown.cancel();
        self.end().unwrap();
    }

    /// Waits until it ends, and returns the result.
    pub(super) fn end(&mut self) -> Result<(), RunError> {
        let (runtime, ended) = (self.runtime.as_ref().unwrap(), &mut self.running.ended);
        let ended = runtime.block_on(async { tokio::time::timeout(TIMEOUT, ended).await });
        ended.expect("it ends").unwrap()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.running.shutdown.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Creates a namespace with the ConfigMap `work`, which [`writer`] handles.
pub(super) fn cluster(namespace: &str) -> Option<&'static ControlPlane> {
    let cluster = ControlPlane::shared()?;
    prepare(cluster, namespace);
    Some(cluster)
}

pub(super) fn prepare(cluster: &ControlPlane, namespace: &str) {
    cluster.create_namespace(namespace, [configmap(namespace, "work", "1"), configmap(namespace, "record", "1")]);
}

/// A controller whose only call writes all the time, until it is cancelled. It logs `WHO writes` when a write begins,
/// `WHO wrote` when the server has processed it, and `WHO ends` when it is cancelled; then it writes once more.
pub(super) fn writer(name: &str, namespace: &str, who: &'static str, log: &Log) -> Builder<ConfigMap> {
    let (log, home) = (log.clone(), namespace.to_owned());
    Controller::builder::<ConfigMap>(name)
        .namespaces([namespace])
        .fields("metadata.name=work")
        .resync(None)
        .timeout(None)
        .leader_election(quick(namespace))
        .handler(move |call: Call, client: Client| {
            let (log, home) = (log.clone(), home.clone());
            async move {
                log.note(format!("{who} begins: {}", call.reasons()));
                let records = Api::<ConfigMap>::namespaced(client, &home);
                while !call.is_cancelled() {
                    write(&records, who, &log).await;
                    let pause = tokio::time::sleep(Duration::from_millis(20));
                    tokio::select! { () = call.cancelled() => {}, () = pause => {} }
                }
                log.note(format!("{who} ends"));
                write(&records, who, &log).await;
            }
        })
}

async fn write(records: &Api<ConfigMap>, who: &str, log: &Log) {
    log.note(format!("{who} writes"));
    let patch = Patch::Merge(json!({"data": {"value": who}}));
    match records.patch("record", &PatchParams::default(), &patch).await {
        Ok(_) => log.note(format!("{who} wrote")),
        Err(error) => log.note(format!("{who} failed: {}", causes(&error))),
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let first = Some(error);
    std::iter::successors(first, |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(super) fn wait_for(log: &Log, what: &str) {
    wait_for_many(log, 1, what);
}

/// Waits until `count` lines begin with `what`.
pub(super) fn wait_for_many(log: &Log, count: usize, what: &str) {
    let found = || (log.lines().iter().filter(|line| line.starts_with(what)).count() >= count).then_some(());
    until(what, found, || log.lines().join("\n"));
}

/// Checks that no two replicas wrote at the same time: the writes of each term are consecutive.
pub(super) fn assert_one_at_a_time(log: &Log, terms: &[&str]) {
    let lines = log.lines();
    let mut found: Vec<&str> = Vec::new();
    for line in &lines {
        // Writes that the fence stopped do not count.
        let Some((who, "wrote")) = line.split_once(' ') else { continue };
        if found.last() != Some(&who) {
            found.push(who);
        }
    }
    assert_eq!(found, terms, "{}", lines.join("\n"));
    // Each term begins after the one before has ended.
    let mut working: Option<&str> = None;
    for line in &lines {
        match line.split_once(' ') {
            Some((who, what)) if what.starts_with("begins") => {
                assert!(working.is_none_or(|other| other == who), "{who} begins too early:\n{}", lines.join("\n"));
                working = Some(who);
            }
            Some((_, "ends")) => working = None,
            _ => {}
        }
    }
}
