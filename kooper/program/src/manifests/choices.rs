//! The values of an installation, from the flags of `manifests`.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::{INSTALLATION, Part, Ports, ProbePort, Security, USER, Volumes, WEBHOOKS, Workload, setting_file};
use crate::alerts;
use crate::rbac::{self, Place, UnknownPermissions};
use kooper_access::Controller;

/// The seconds after the drain timeout in which the process has to end.
const AFTER_DRAIN: u64 = 10;

/// The seconds that webhooks are served after that: until the API servers have learned that the pod goes, and until
/// the requests in progress are answered.
const AFTER_WEBHOOKS: u64 = 20;

/// The least number of seconds that a pod with webhooks gets to end.
const LEAST_WITH_WEBHOOKS: u64 = 45;

/// The replicas that a rolling update adds.
pub(crate) const SURGE: u32 = 1;

/// The longest name of a Service, and value of a label.
const LONGEST_NAME: usize = 63;

/// The end of the name of the Service of the webhooks.
const WEBHOOK_SERVICE: &str = "-webhooks";

/// The choices of the user for an installation.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    pub(crate) image: String,
    pub(crate) replicas: Option<u32>,
    /// The arguments of `run`.
    pub(crate) args: Vec<String>,
    /// The settings of the program that come from a Secret, and its name; `None` for that of the Deployment with an
    /// ending.
    pub(crate) secrets: Vec<String>,
    pub(crate) settings_secret: Option<String>,
    /// The settings of the program: variables and their values.
    pub(crate) variables: Vec<(String, String)>,
    /// The address of metrics; `None` if they are off.
    pub(crate) listen: Option<SocketAddr>,
    /// The address of probes, if they are not beside the metrics; `None` in it if they
    /// are off.
    pub(crate) probes: Option<Option<SocketAddr>>,
    pub(crate) security: Security,
    /// The port of the webhooks, if the program has some.
    pub(crate) webhooks: Option<u16>,
    /// Runs the pods in the network of their nodes.
    pub(crate) host_network: bool,
    /// `true` if `--metrics-auth` is set, and not left to its default.
    pub(crate) has_chosen_auth: bool,
    pub(crate) has_status_page: bool,
    /// Adds the custom resources to the roles `view`, `edit` and `admin`.
    pub(crate) aggregate_roles: bool,
    pub(crate) drain: Duration,
    pub(crate) network_policy: bool,
    pub(crate) service_monitor: bool,
    pub(crate) alerts: bool,
}

/// Why there are no manifests.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error(
        "{replicas} replicas would all handle every object, as the controller `{controller}` has neither leader election nor \
         shards: add `--leader-election on`, or write `--replicas 1`"
    )]
    Replicas { replicas: u32, controller: String },
    #[error(
        "{replicas} replicas would all run the task `{task}`: write `leader_election` or `shard_of` in its attribute to run it \
         in one, or `everywhere` to run it in each, or write `--replicas 1`"
    )]
    TaskReplicas { replicas: u32, task: String },
    #[error(
        "{replicas} replicas and those of a roll-out are more than the {members} that share the shards of the controller \
         `{controller}`: write `shards(count = …, members = {needed})`, or fewer replicas"
    )]
    Members { replicas: u32, members: u32, needed: u32, controller: String },
    #[error(
        "webhooks need several replicas, so that one always answers, but all of them would handle every object, as the \
         controller `{controller}` has neither leader election nor shards: add `--leader-election on`"
    )]
    Webhooks { controller: String },
    #[error(
        "webhooks need several replicas, so that one always answers, but all of them would run the task `{task}`: write \
         `leader_election` or `shard_of` in its attribute to run it in one, or `everywhere` to run it in each"
    )]
    TaskWebhooks { task: String },
    #[error(
        "probes and metrics cannot be reached on {address}: write `--{flag} [::]:8080`, or another port from 1024 up"
    )]
    Unreachable { address: SocketAddr, flag: &'static str },
    #[error(
        "the name `{name}` of the Service would have {} characters, but at most {LONGEST_NAME} are allowed: choose a \
         shorter `--instance`", name.len()
    )]
    LongName { name: String },
    #[error("{what} need the metrics: remove `--listen off`, or `{addition}` from `--with`")]
    NoMetrics { what: &'static str, addition: &'static str },
    #[error(
        "metrics for users of the cluster need a ClusterRole, to create TokenReviews, but everything else in this \
         installation needs only Roles: write `--metrics-auth none` for Roles only, or `--metrics-auth token`"
    )]
    RolesAlone,
    #[error("anyone in the cluster could read the status page: write `--metrics-auth token`, or `--status-page off`")]
    OpenStatusPage,
    #[error(
        "metrics for users of the cluster, and those with a certificate, are served over HTTPS, which needs the feature \
         `rustls-tls` of kooper: add it, and build the program again, or write `--metrics-auth none` without a certificate"
    )]
    NoTls,
    #[error(
        "a ServiceMonitor sends the token of Prometheus' service account, which is for the API server: remove \
         `--metrics-audience`, or `service-monitor` from `--with`"
    )]
    Audience,
    #[error("metrics and probes cannot be on the same port: choose another one with `--listen-probes`")]
    SamePort,
    #[error(
        "in the network of a node, the kubelet uses port {port}: choose another port for the webhooks, such as \
         `--webhook-port 9443`"
    )]
    Kubelet { port: u16 },
    #[error(
        "a NetworkPolicy has no effect on pods in the network of their nodes: remove `network-policy` or `host-network` \
         from `--with`"
    )]
    HostNetworkPolicy,
    #[error(
        "a process that is not root cannot bind port {port}: write `--webhook-port 9443`, or another one from 1024 up"
    )]
    Privileged { port: u16 },
    #[error("metrics or probes use port {port}: choose another one with `--webhook-port`")]
    WebhookPort { port: u16 },
    #[error(transparent)]
    UnknownPermissions(#[from] UnknownPermissions),
}

/// The usual resources: a controller mostly waits. The limit keeps a leak from the
/// other pods of the node.
pub(crate) fn resources() -> Value {
    json!({"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}})
}

/// The strategy of the Deployment. If only one replica is allowed, the old and the new pod must not run at the same
/// time. With webhooks, a pod ends when its successor answers.
pub(crate) fn strategy(allows_replicas: bool, has_webhooks: bool) -> Value {
    if allows_replicas {
        let most = if has_webhooks { 0 } else { 1 };
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most, "maxSurge": SURGE}})
    } else {
        json!({"type": "Recreate"})
    }
}

/// The affinity with which the pods of this selector run on different nodes, if there are enough.
pub(crate) fn affinity(selector: &Value) -> Value {
    json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector},
        },
    }]}})
}

/// The replicas without a choice.
pub(crate) fn usual_replicas(allows_replicas: bool) -> u32 {
    if allows_replicas { 2 } else { 1 }
}

/// The first controller or task that several replicas must not have.
pub(crate) fn unelected(controllers: &[Controller]) -> Option<&Controller> {
    controllers.iter().find(|one| one.limits_replicas())
}

/// The most replicas that all own shards, also during a rolling update: the number, and the controller that limits it.
/// Without shards there is no limit.
pub(crate) fn most_replicas(controllers: &[Controller]) -> Option<(u32, &Controller)> {
    let most = |one: &Controller| Some(u32::from(one.shards()?.most_members()) - SURGE);
    controllers.iter().filter_map(|one| Some((most(one)?, one))).min_by_key(|(most, _)| *most)
}

impl ManifestError {
    /// So many replicas must not have this controller or task.
    fn replicas(replicas: u32, unelected: &Controller) -> Self {
        let name = unelected.name().to_owned();
        if unelected.is_task() {
            Self::TaskReplicas { replicas, task: name }
        } else {
            Self::Replicas { replicas, controller: name }
        }
    }

    /// The replicas that webhooks need must not have this controller or task.
    fn webhooks(unelected: &Controller) -> Self {
        let name = unelected.name().to_owned();
        if unelected.is_task() { Self::TaskWebhooks { task: name } } else { Self::Webhooks { controller: name } }
    }

    /// So many replicas do not all own shards of this controller.
    fn members(replicas: u32, most: u32, controller: &Controller) -> Self {
        let (members, needed) = (most + SURGE, replicas.saturating_add(SURGE));
        Self::Members { replicas, members, needed, controller: controller.name().to_owned() }
    }
}

/// A port that others in the cluster can reach, and a process that is not root can bind.
fn port(address: SocketAddr, flag: &'static str) -> Result<u16, ManifestError> {
    let is_reachable = !address.ip().to_canonical().is_loopback() && address.port() >= 1024;
    is_reachable.then_some(address.port()).ok_or(ManifestError::Unreachable { address, flag })
}

/// The seconds that a pod gets to end after the drain timeout, and the least number in all.
pub(crate) fn grace(has_webhooks: bool) -> (u64, u64) {
    if has_webhooks { (AFTER_DRAIN + AFTER_WEBHOOKS, LEAST_WITH_WEBHOOKS) } else { (AFTER_DRAIN, 0) }
}

/// The fields of a pod in the network of its node. It still finds Services by name.
pub(crate) fn host_network() -> [(&'static str, Value); 2] {
    [("hostNetwork", true.into()), ("dnsPolicy", "ClusterFirstWithHostNet".into())]
}

/// The longest name of the Deployment.
pub(crate) fn longest_name(has_webhooks: bool) -> usize {
    if has_webhooks { LONGEST_NAME - WEBHOOK_SERVICE.len() } else { LONGEST_NAME }
}

impl Choices {
    pub(super) fn workload(&self, controllers: &[Controller], place: &Place) -> Result<Workload, ManifestError> {
        let name = workload_name(place);
        let service = if self.webhooks.is_some() { webhook_service(place) } else { name.clone() };
        if service.len() > LONGEST_NAME {
            return Err(ManifestError::LongName { name: service });
        }
        let unelected = unelected(controllers);
        if let Some(controller) = unelected.filter(|_| self.webhooks.is_some()) {
            return Err(ManifestError::webhooks(controller));
        }
        let replicas = self.replicas.unwrap_or(usual_replicas(unelected.is_none()));
        if replicas > 1
            && let Some(controller) = unelected
        {
            return Err(ManifestError::replicas(replicas, controller));
        }
        if let Some((most, controller)) = most_replicas(controllers).filter(|(most, _)| replicas > *most) {
            return Err(ManifestError::members(replicas, most, controller));
        }
        match self.listen {
            None if self.service_monitor => {
                return Err(ManifestError::NoMetrics { what: "ServiceMonitors", addition: "service-monitor" });
            }
            None if self.alerts => return Err(ManifestError::NoMetrics { what: "alerts", addition: "alerts" }),
            _ => {}
        }
        self.check_host_network()?;
        self.check_security(controllers, place)?;
        let metrics = self.listen.map(|address| port(address, "listen")).transpose()?;
        let probes = match self.probes {
            None => ProbePort::Shared,
            Some(None) => ProbePort::Off,
            Some(Some(address)) => ProbePort::Own(port(address, "listen-probes")?),
        };
        if probes == metrics.map_or(ProbePort::Off, ProbePort::Own) && metrics.is_some() {
            return Err(ManifestError::SamePort);
        }
        if let Some(port) = self.webhooks {
            if port < 1024 {
                return Err(ManifestError::Privileged { port });
            }
            if metrics == Some(port) || probes == ProbePort::Own(port) {
                return Err(ManifestError::WebhookPort { port });
            }
        }
        let server = format!("{name}.{}.svc", place.namespace);
        let seconds = self.drain.as_secs() + u64::from(self.drain.subsec_nanos() > 0);
        let (after, least) = grace(self.webhooks.is_some());
        let variables = self.variables.iter().map(|(name, value)| json!({"name": name, "value": literal(value)}));
        let selector = json!({INSTALLATION: place.account()});
        let mut labels = place.metadata(None, "")["labels"].take();
        labels[INSTALLATION] = selector[INSTALLATION].clone();
        Ok(Workload {
            name: name.into(),
            namespace: place.namespace.clone().into(),
            account: place.account().into(),
            pod_labels: labels.clone(),
            pod_annotations: Value::Null,
            labels,
            placement: vec![("affinity", affinity(&selector))],
            selector,
            container: place.installation.program.clone(),
            image: self.image.clone().into(),
            args: self.args().into(),
            replicas: replicas.into(),
            strategy: strategy(unelected.is_none(), self.webhooks.is_some()),
            grace: (seconds + after).max(least).into(),
            variables: variables.collect(),
            ports: Ports::new(metrics, probes, self.webhooks, &self.security, &server),
            resources: resources(),
            user: USER.into(),
            volumes: Volumes::new(self.security.secret.as_deref(), &self.settings_secret(place), &self.secrets),
            webhook_service: self.webhooks.map(|_| service.into()),
            has_budget: Part::when(unelected.is_none() && replicas > 1),
            has_network_policy: Part::when(self.network_policy),
            has_service_monitor: Part::when(self.service_monitor),
            has_alerts: Part::when(self.alerts),
            alerts: installed_alerts(
                controllers,
                self.webhooks.is_some(),
                &place.namespace,
                &workload_name(place),
                &place.account().into(),
            ),
            pod: if self.host_network { host_network().into() } else { Vec::new() },
        })
    }

    /// The arguments of the container.
    fn args(&self) -> Vec<String> {
        let files = self.secrets.iter().map(|secret| format!("--{secret}-file={}", setting_file(secret)));
        std::iter::once("run".to_owned()).chain(self.args.iter().map(|arg| literal(arg))).chain(files).collect()
    }

    /// The name of the Secret with secret settings.
    pub(crate) fn settings_secret(&self, place: &Place) -> String {
        self.settings_secret.clone().unwrap_or_else(|| format!("{}-settings", workload_name(place)))
    }

    fn check_host_network(&self) -> Result<(), ManifestError> {
        match self.webhooks {
            _ if !self.host_network => Ok(()),
            Some(port) if port == WEBHOOKS.1 => Err(ManifestError::Kubelet { port }),
            _ if self.network_policy => Err(ManifestError::HostNetworkPolicy),
            _ => Ok(()),
        }
    }

    /// Returns an error if the pods could not start, if everyone could read a protected page, or if Prometheus could not
    /// read the metrics.
    fn check_security(&self, controllers: &[Controller], place: &Place) -> Result<(), ManifestError> {
        self.check_tls()?;
        if !self.security.reviews_tokens {
            let is_open = self.has_status_page && self.listen.is_some();
            return if is_open { Err(ManifestError::OpenStatusPage) } else { Ok(()) };
        }
        if self.service_monitor && self.security.has_audience {
            return Err(ManifestError::Audience);
        }
        let unsecured = Place { reviews_tokens: false, ..place.clone() };
        let mut grants = rbac::known(controllers, &unsecured).into_keys();
        let has_roles_alone =
            self.webhooks.is_none() && grants.len() > 0 && grants.all(|grant| grant.namespace.is_some());
        if has_roles_alone && !self.has_chosen_auth { Err(ManifestError::RolesAlone) } else { Ok(()) }
    }

    /// Returns an error if the metrics are served over HTTPS, but this program was built without it.
    pub(crate) fn check_tls(&self) -> Result<(), ManifestError> {
        let can_serve = cfg!(feature = "rustls-tls") || !self.security.has_tls();
        if can_serve { Ok(()) } else { Err(ManifestError::NoTls) }
    }
}

/// A text that a container gets as it is: `$(NAME)` would be a variable, and `$$` is a dollar sign.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// The name of the Deployment and the Service: a Service's name has no dots. Two
/// dashes separate the instance, as in no usual program's name.
pub(crate) fn workload_name(place: &Place) -> String {
    place.account().replace('.', "--")
}

/// The name of the Service of the webhooks.
pub(crate) fn webhook_service(place: &Place) -> String {
    workload_name(place) + WEBHOOK_SERVICE
}

/// The alerts for the metrics that the ServiceMonitor collects: its job is the Service.
pub(crate) fn installed_alerts(
    controllers: &[Controller],
    has_webhooks: bool,
    namespace: &str,
    service: &str,
    group: &Value,
) -> Value {
    let target = vec![format!("namespace=\"{namespace}\""), format!("job=\"{service}\"")];
    alerts::rules(group, &alerts::of_target(controllers, has_webhooks, target))
}
