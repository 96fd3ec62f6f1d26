//! The values of an installation, from the flags of `manifests`.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::{INSTALLATION, Part, Workload};
use crate::controller::Controller;
use crate::program::rbac::{Place, Unruled};

/// The seconds after the drain timeout in which the process has to end.
const AFTER_DRAIN: u64 = 10;

/// The longest name of a Service, and value of a label.
const LONGEST_NAME: usize = 63;

/// What the user chose.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    pub(crate) image: String,
    pub(crate) replicas: Option<u32>,
    /// The arguments of `run`.
    pub(crate) args: Vec<String>,
    /// The settings of the program: variables and their values.
    pub(crate) variables: Vec<(String, String)>,
    /// The address of metrics and probes; `None` if they are off.
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) drain: Duration,
    pub(crate) network_policy: bool,
    pub(crate) service_monitor: bool,
}

/// Why there are no manifests.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error(
        "{replicas} replicas would all handle every object, as the controller `{controller}` has no leader election: add \
         `--leader-election on`, or write `--replicas 1`"
    )]
    Replicas { replicas: u32, controller: String },
    #[error(
        "probes and metrics cannot be reached on {address}: write `--listen [::]:8080`, or another port from 1024 up"
    )]
    Unreachable { address: SocketAddr },
    #[error(
        "the name `{name}` of the Service would have {} characters, and {LONGEST_NAME} are allowed: choose a shorter \
         `--instance`", name.len()
    )]
    LongName { name: String },
    #[error("a ServiceMonitor needs the metrics: remove `--listen off`, or `service-monitor` from `--with`")]
    NoMetrics,
    #[error(transparent)]
    Unruled(#[from] Unruled),
}

/// The usual resources: a controller mostly waits. The limit keeps a leak from the
/// other pods of the node.
pub(crate) fn resources() -> Value {
    json!({"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}})
}

/// How pods are replaced: without leader election, the old and the new pod must not
/// handle objects at the same time.
pub(crate) fn strategy(elected: bool) -> Value {
    if elected {
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}})
    } else {
        json!({"type": "Recreate"})
    }
}

/// The replicas without a choice.
pub(crate) fn usual_replicas(elected: bool) -> u32 {
    if elected { 2 } else { 1 }
}

/// The first controller that several replicas must not have.
pub(crate) fn unelected(controllers: &[Controller]) -> Option<&Controller> {
    controllers.iter().find(|one| !one.has_leader_election())
}

/// The seconds that a pod gets to end.
pub(crate) fn grace(drain: Duration) -> u64 {
    drain.as_secs() + u64::from(drain.subsec_nanos() > 0) + AFTER_DRAIN
}

impl Choices {
    pub(super) fn workload(&self, controllers: &[Controller], place: &Place) -> Result<Workload, ManifestError> {
        let name = workload_name(place);
        if name.len() > LONGEST_NAME {
            return Err(ManifestError::LongName { name });
        }
        let unelected = unelected(controllers);
        let replicas = self.replicas.unwrap_or(usual_replicas(unelected.is_none()));
        if let (Some(controller), 2..) = (unelected, replicas) {
            return Err(ManifestError::Replicas { replicas, controller: controller.name().to_owned() });
        }
        let port = match self.listen {
            Some(address) if address.ip().is_loopback() || address.port() < 1024 => {
                return Err(ManifestError::Unreachable { address });
            }
            Some(address) => address.port(),
            None if self.service_monitor => return Err(ManifestError::NoMetrics),
            None => 0,
        };
        let variables = self.variables.iter().map(|(name, value)| json!({"name": name, "value": value}));
        let selector = json!({INSTALLATION: place.account()});
        let mut labels = place.metadata(None, "")["labels"].take();
        labels[INSTALLATION] = selector[INSTALLATION].clone();
        Ok(Workload {
            name: name.into(),
            namespace: place.namespace.clone().into(),
            account: place.account().into(),
            labels,
            selector,
            container: place.installation.program.clone(),
            image: self.image.clone().into(),
            args: std::iter::once("run").chain(self.args.iter().map(String::as_str)).collect(),
            replicas: replicas.into(),
            strategy: strategy(unelected.is_none()),
            grace: grace(self.drain).into(),
            variables: variables.collect(),
            port: port.into(),
            resources: resources(),
            listens: Part::when(self.listen.is_some()),
            has_budget: Part::when(unelected.is_none() && replicas > 1),
            has_network_policy: Part::when(self.network_policy),
            has_service_monitor: Part::when(self.service_monitor),
            pod: Vec::new(),
        })
    }
}

/// The name of the Deployment and the Service: a Service's name has no dots. Two
/// dashes separate the instance, as in no usual program's name.
pub(crate) fn workload_name(place: &Place) -> String {
    place.account().replace('.', "--")
}
