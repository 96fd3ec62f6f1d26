//! A cluster that moves: small controllers that do on an API server what the
//! scheduler, the kubelets and kube-controller-manager do in a cluster.
//!
//! One operator has the node, the scheduler and the kubelet: pods run there without
//! containers. Another one has the controllers of Deployments, Jobs, Services and so
//! on. Both are operators like any other, with a client of their own.

mod children;
mod claims;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoints;
mod garbage;
mod job;
mod kubelet;
mod node;
mod notes;
mod pods;
mod replica_set;
mod revisions;
mod scheduler;
mod stateful_set;
mod versions;

use parking_lot::Mutex;
use std::future::Ready;
use std::time::Duration;

use kooper_apiserver::{ApiServer, User};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use kooper_access::controller::operator::Builder;
use kooper_access::{BuildError, Controller, Operator};
use kooper_runtime::internal::error::chain;

/// The name of the program, which field managers begin with.
const PROGRAM: &str = "cluster";

/// The user that the controllers act as on an API server that knows no other for them.
const USER: &str = "kooper:cluster";

/// The resources whose objects the scheduler and the kubelet handle, or that have pods only where there is a node.
const MACHINES: &[(&str, &str)] = &[("", "pods"), ("apps", "daemonsets")];

/// The resources whose objects the other controllers handle.
const WORKLOADS: &[(&str, &str)] = &[
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "services"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("policy", "poddisruptionbudgets"),
];

/// The time that pods take to start, to complete and to stop.
#[derive(Debug, Clone, Copy, Default)]
struct PodTimings {
    /// From the binding of a pod to its readiness.
    start: Duration,
    /// From the readiness of a Job's pod to its completion.
    complete: Duration,
    /// From the deletion mark to the end of the containers, at most the grace period.
    stop: Duration,
    /// The interval at which nodes renew their leases; `None` for never.
    heartbeat: Option<Duration>,
    /// Records Kubernetes Events of pods.
    events: bool,
}

impl PodTimings {
    /// Slow enough to be watched.
    const VISIBLE: Self = Self {
        start: Duration::from_secs(2),
        complete: Duration::from_secs(2),
        stop: Duration::from_secs(1),
        heartbeat: Some(Duration::from_secs(10)),
        events: true,
    };
}

/// The controllers of a cluster. Dropping it stops them without waiting.
#[derive(Debug)]
pub struct Simulation {
    stop: CancellationToken,
    running: Mutex<JoinSet<()>>,
}

impl Simulation {
    /// On an embedded server, beginning with the first object that they handle: until then they cost nothing.
    #[must_use]
    pub fn when_needed(server: &ApiServer) -> Self {
        server.faults().spare(USER);
        let simulation = Self::new();
        let client = server.client_of(User::new(USER, &["system:masters"]));
        simulation.spawn(Some(server.first_of(MACHINES)), machines(client.clone(), None, PodTimings::default()));
        simulation.spawn(Some(server.first_of(WORKLOADS)), workloads(client, None));
        simulation
    }

    /// On an embedded server, at once, and slow enough to be watched.
    #[must_use]
    pub fn visible(server: &ApiServer) -> Self {
        let simulation = Self::new();
        let client = server.client_of(User::new(USER, &["system:masters"]));
        simulation.spawn(None::<Ready<()>>, machines(client.clone(), None, PodTimings::VISIBLE));
        simulation.spawn(None::<Ready<()>>, workloads(client, None));
        simulation
    }

    /// On a real server, for the pods of one namespace, and for its workloads unless another program has them.
    #[must_use]
    pub fn beside(client: &Client, namespace: &str, has_controllers: bool) -> Self {
        let simulation = Self::new();
        let pace = PodTimings { heartbeat: PodTimings::VISIBLE.heartbeat, ..PodTimings::default() };
        simulation.spawn(None::<Ready<()>>, machines(client.clone(), Some(namespace.to_owned()), pace));
        if !has_controllers {
            simulation.spawn(None::<Ready<()>>, workloads(client.clone(), Some(namespace.to_owned())));
        }
        simulation
    }

    /// On a real server without kube-controller-manager: collects the garbage in the namespace of a test and in those
    /// that the test creates, and lets namespaces end. `is_of_tests` is whether a namespace is that of some test.
    pub fn collecting(client: &Client, namespace: &str, is_of_tests: fn(&str) -> bool) -> Self {
        let simulation = Self::new();
        let (client, namespace) = (client.clone(), namespace.to_owned());
        let collector = async move { operator(&client, [garbage::controller(&namespace, is_of_tests)?]) };
        simulation.spawn(None::<Ready<()>>, collector);
        simulation
    }

    fn new() -> Self {
        Self { stop: CancellationToken::new(), running: Mutex::default() }
    }

    /// Starts one operator, after `first` if there is one.
    fn spawn(
        &self,
        first: Option<impl Future<Output = ()> + Send + 'static>,
        operator: impl Future<Output = Result<Operator, BuildError>> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        let task = async move {
            if let Some(first) = first
                && stop.run_until_cancelled(first).await.is_none()
            {
                return;
            }
            let ended = match operator.await {
                Ok(operator) => operator.run(stop).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = ended {
                tracing::error!("pods and workloads are no longer simulated: {}", chain(&error));
            }
        };
        self.running.lock().spawn(task);
    }

    /// Stops the controllers, and returns when they have ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        let mut running = std::mem::take(&mut *self.running.lock());
        while running.join_next().await.is_some() {}
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.stop.cancel();
        // They end in order.
        self.running.get_mut().detach_all();
    }
}

/// The node, the scheduler and the kubelet, for all pods or for those of one namespace.
async fn machines(client: Client, namespace: Option<String>, pace: PodTimings) -> Result<Operator, BuildError> {
    let mut controllers = [scheduler::controller(pace)?, kubelet::controller(pace)?, node::controller(pace)?];
    for controller in &mut controllers {
        controller.set_namespaces(namespace.clone().into_iter().collect());
    }
    let operator = operator(&client, controllers)?;
    node::register(&client).await;
    Ok(operator)
}

/// The controllers of workloads, for all or for those of one namespace.
async fn workloads(client: Client, namespace: Option<String>) -> Result<Operator, BuildError> {
    let mut controllers = [
        claims::claims()?,
        claims::volumes()?,
        cron_job::controller()?,
        daemon_set::controller()?,
        deployment::controller()?,
        disruption::controller()?,
        endpoints::controller()?,
        job::controller()?,
        job::tracking()?,
        replica_set::controller()?,
        stateful_set::controller()?,
    ];
    for controller in &mut controllers {
        controller.set_namespaces(namespace.clone().into_iter().collect());
    }
    operator(&client, controllers)
}

fn operator(client: &Client, controllers: impl IntoIterator<Item = Controller>) -> Result<Operator, BuildError> {
    let operator = Operator::builder().program(PROGRAM).client(client.clone()).drain_timeout(Duration::ZERO);
    let controllers = controllers.into_iter().map(|mut controller| {
        // In one process, protobuf is only a detour from JSON to JSON.
        controller.set_json_only(true);
        controller.without_events()
    });
    controllers.fold(operator, Builder::controller).build()
}

/// Reads a value as a type, by way of its text: reading from the `Value` itself would compile the code of pods, half
/// a megabyte of each program, another time.
fn typed<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    serde_json::from_str(&value.to_string())
}
