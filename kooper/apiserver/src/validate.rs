//! The rules of built-in kinds: what a client may write.
//!
//! A rule is a line about a place in the object ([`at::At`]); the messages are those of the real server. Kinds that are
//! not listed here are checked by their published schemas only.

mod at;
mod batch;
mod config;
mod container;
mod cron;
mod event;
mod network;
mod pod;
mod rbac;
mod resources;
mod scaling;
mod selector;
mod service;
mod storage;
mod volume;
mod workload;

use serde_json::{Value, json};

use self::at::{At, Causes};
use crate::cause::Cause;
use crate::form;
use crate::kinds::Kind;

/// A write that is judged, with the present state of the object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Write<'a> {
    Create,
    Update(&'a Value),
    /// A write of the status, or of another part that is not the spec.
    Status(&'a Value),
    EphemeralContainers(&'a Value),
    Resize(&'a Value),
}

impl<'a> Write<'a> {
    pub(crate) fn present(self) -> Option<&'a Value> {
        match self {
            Self::Create => None,
            Self::Update(present)
            | Self::Status(present)
            | Self::EphemeralContainers(present)
            | Self::Resize(present) => Some(present),
        }
    }
}

/// The rules that an object violates.
pub(crate) fn validate(kind: &Kind, object: &Value, write: Write<'_>) -> Vec<Cause> {
    let causes = Causes::default();
    let at = At::root(object, &causes);
    let present = write.present();
    if let Write::Status(present) = write {
        status(kind, &at, present);
        return causes.into_inner();
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => match write {
            Write::Create | Write::Status(_) => pod::create(&at),
            Write::Update(present) => pod::update(&at, present),
            Write::EphemeralContainers(present) => pod::update_ephemeral(&at, present),
            Write::Resize(present) => pod::resize(&at, present),
        },
        ("", "Service") => service::service(&at, present),
        ("", "ConfigMap") => config::config_map(&at, present),
        ("", "Secret") => config::secret(&at, present),
        ("", "PersistentVolumeClaim") => storage::claim(&at, present),
        ("", "ReplicationController") => {
            at.field("spec.replicas").not_negative();
            if at.field("spec.template").is_set() {
                pod::template(&at.field("spec.template"));
            }
        }
        ("", "PodTemplate") => pod::template(&at.field("template")),
        ("", "ResourceQuota") => quota(&at, present),
        ("" | "events.k8s.io", "Event") => event::event(&at, &kind.group, present),
        ("apps", "Deployment") => workload::deployment(&at, present),
        ("apps", "ReplicaSet") => workload::replica_set(&at, present),
        ("apps", "StatefulSet") => workload::stateful_set(&at, present),
        ("apps", "DaemonSet") => workload::daemon_set(&at, present),
        ("batch", "Job") => batch::job(&at, present),
        ("batch", "CronJob") => batch::cron_job(&at, present),
        ("networking.k8s.io", "Ingress") => network::ingress(&at),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(&at),
        ("policy", "PodDisruptionBudget") => scaling::disruption_budget(&at),
        ("autoscaling", "HorizontalPodAutoscaler") => scaling::autoscaler(&at),
        ("rbac.authorization.k8s.io", "Role") => rbac::role(&at, true),
        ("rbac.authorization.k8s.io", "ClusterRole") => rbac::role(&at, false),
        ("rbac.authorization.k8s.io", "RoleBinding") => rbac::binding(&at, true, present),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => rbac::binding(&at, false, present),
        ("coordination.k8s.io", "Lease") => lease(&at),
        ("scheduling.k8s.io", "PriorityClass") => priority_class(&at, present),
        ("apiextensions.k8s.io", _) => causes.borrow_mut().extend(crate::crd::validate(object)),
        _ => {}
    }
    causes.into_inner()
}

/// The data that an immutable object lacks, and that a client has sent empty.
pub(crate) fn frozen(present: &Value, empty: &[&str]) -> Vec<Cause> {
    let added = empty.iter().filter(|field| present["immutable"] == true && present[**field].is_null());
    added.map(|field| Cause::forbidden(*field, config::FROZEN)).collect()
}

/// The rules of the addresses of a Service, which hold before it gets any.
pub(crate) fn cluster_addresses(service: &Value) -> Vec<Cause> {
    let causes = Causes::default();
    service::cluster_ips(&At::root(service, &causes).field("spec"));
    causes.into_inner()
}

/// The rules of the status.
fn status(kind: &Kind, at: &At<'_>, present: &Value) {
    let counts: &[&str] = match (kind.group.as_str(), kind.kind.as_str()) {
        ("policy", "PodDisruptionBudget") => {
            &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
        }
        ("apps", "Deployment") => &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "collisionCount",
        ],
        ("apps", "ReplicaSet") => {
            &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"]
        }
        ("apps", "StatefulSet") => &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
        ("batch", "Job") => &["active", "succeeded", "failed", "ready", "terminating"],
        _ => &[],
    };
    for count in counts {
        at.field("status").field(count).not_negative();
    }
    let status = at.field("status");
    let count = |name: &str| status.field(name).number().unwrap_or(0);
    let most: &[&str] = match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment") => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        ("apps", "ReplicaSet") => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        ("apps", "StatefulSet") => &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        _ => &[],
    };
    for name in most.iter().filter(|name| count(name) > count("replicas")) {
        status.field(name).invalid_as(&json!(count(name)), "cannot be greater than status.replicas");
    }
    if most.contains(&"availableReplicas") && count("availableReplicas") > count("readyReplicas") {
        let path = if kind.kind == "StatefulSet" { "status.readyReplicas" } else { "readyReplicas" };
        status.field("availableReplicas").invalid(format!("cannot be greater than {path}"));
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Service") => service::status(at, present),
        ("", "Pod") => pod::status(&status, &present["status"]),
        _ => {}
    }
    if kind.group == "apiextensions.k8s.io" {
        crate::crd::validate(at.value).into_iter().for_each(|cause| at.add(cause));
    }
}

/// The rules of a map of labels.
fn labels(at: &At<'_>) {
    for (key, value) in at.entries() {
        for why in form::qualified(key) {
            at.invalid_as(&json!(key), why);
        }
        for why in form::label_value(value.text()) {
            at.invalid_as(&json!(value.text()), why);
        }
    }
}

fn annotations(at: &At<'_>) {
    for (key, _) in at.entries() {
        for why in form::qualified(&key.to_lowercase()) {
            at.invalid_as(&json!(key), why);
        }
    }
}

fn lease(at: &At<'_>) {
    let spec = at.field("spec");
    if spec.field("leaseDurationSeconds").number().is_some_and(|seconds| seconds <= 0) {
        spec.field("leaseDurationSeconds").invalid("must be greater than 0");
    }
    spec.field("leaseTransitions").not_negative();
}

fn priority_class(at: &At<'_>, present: Option<&Value>) {
    const MOST: i64 = 1_000_000_000;
    let name = at.field("metadata.name");
    let value = at.field("value");
    if name.text().starts_with("system-") {
        if present.is_none() && !matches!(name.text(), "system-cluster-critical" | "system-node-critical") {
            let why = "priority class names with 'system-' prefix are reserved for system use only. error: ";
            name.forbidden(format!("{why}{} is not a known system priority class", name.text()));
        }
    } else if value.number().is_some_and(|value| value > MOST) {
        value.forbidden(format!("maximum allowed value of a user defined priority is {MOST}"));
    }
    at.field("preemptionPolicy").one_of(&["PreemptLowerPriority", "Never"]);
    if let Some(present) = present {
        if value.value != &present["value"] {
            value.forbidden("may not be changed in an update.");
        }
        at.field("preemptionPolicy").immutable(&present["preemptionPolicy"]);
    }
}

/// Objects whose number a quota limits.
const COUNTED: [&str; 9] = [
    "pods",
    "services",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "services.nodeports",
    "services.loadbalancers",
];
/// Resources whose amount a quota limits.
const MEASURED: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

fn quota(at: &At<'_>, present: Option<&Value>) {
    let spec = at.field("spec");
    for (name, amount) in spec.field("hard").entries() {
        for why in form::qualified(name) {
            amount.invalid_as(&json!(name), why);
        }
        let counted = COUNTED.contains(&name);
        if !name.contains('/') && !counted && !MEASURED.contains(&name) && !name.contains("hugepages-") {
            amount.invalid_as(&json!(name), "must be a standard resource type or fully qualified");
            amount.invalid_as(&json!(name), "must be a standard resource for quota");
        }
        resources::quantity(name, &amount);
        if counted && amount.quantity().is_some_and(|amount| !amount.is_whole()) {
            amount.invalid("must be an integer");
        }
    }
    let scopes = spec.field("scopes");
    if let Some(present) = present
        && scopes.value != &present["spec"]["scopes"]
    {
        scopes.invalid("field is immutable");
    }
}
