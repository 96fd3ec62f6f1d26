//! Everything that runs a program in a cluster, as documents for `kubectl apply`.
//!
//! A [`Workload`] has the values that differ between installations. They are known,
//! or they are expressions of a chart: the documents are the same.

mod choices;
mod crd_roles;
mod deployment;
mod ports;
pub(crate) mod template;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::alerts;
use crate::rbac::{self, Place};
use kooper_access::Controller;

#[cfg(feature = "webhooks")]
pub(crate) use choices::webhook_service;
pub(crate) use choices::{
    Choices, ManifestError, SURGE, affinity, grace, host_network, installed_alerts, longest_name, most_replicas,
    resources, strategy, unelected, usual_replicas, workload_name,
};
pub(crate) use crd_roles::documents as crd_roles;
pub(crate) use deployment::{USER, Volumes, certificate_variables, setting_file};
pub(crate) use ports::{Ports, ProbePort, Security, TOKEN_FILE, WEBHOOKS, clients};
use template::optional;

/// The label by which the pods of one installation are selected.
pub(crate) const INSTALLATION: &str = "kooper.rs/installation";

/// The values of the Deployment and of what belongs to it.
pub(crate) struct Workload {
    /// The name of the Deployment, the Service and the others.
    pub(crate) name: Value,
    pub(crate) namespace: Value,
    pub(crate) account: Value,
    pub(crate) labels: Value,
    /// The labels that no other pod has.
    pub(crate) selector: Value,
    pub(crate) container: String,
    pub(crate) image: Value,
    pub(crate) args: Value,
    pub(crate) replicas: Value,
    pub(crate) strategy: Value,
    /// The seconds from SIGTERM to SIGKILL.
    pub(crate) grace: Value,
    pub(crate) variables: Value,
    pub(crate) ports: Ports,
    pub(crate) resources: Value,
    /// The user and group of the process.
    pub(crate) user: Value,
    pub(crate) volumes: Volumes,
    /// The name of the Service of the webhooks, if the program has some.
    pub(crate) webhook_service: Option<Value>,
    pub(crate) has_budget: Part,
    pub(crate) has_network_policy: Part,
    pub(crate) has_service_monitor: Part,
    pub(crate) has_alerts: Part,
    /// The rules of alerts.
    pub(crate) alerts: Value,
    pub(crate) pod_labels: Value,
    pub(crate) pod_annotations: Value,
    /// Further fields of each pod.
    pub(crate) pod: Vec<(&'static str, Value)>,
    /// Further fields of the pods of the Deployment: how they are placed relative to each other.
    pub(crate) placement: Vec<(&'static str, Value)>,
}

/// The condition for a part of the documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Always,
    Never,
    /// If a condition of the chart holds.
    If(String),
}

impl Part {
    pub(crate) fn when(is: bool) -> Self {
        if is { Self::Always } else { Self::Never }
    }

    /// A field; `null` if it does not exist.
    pub(crate) fn field(&self, value: Value) -> Value {
        match self {
            Self::Always => value,
            Self::Never => Value::Null,
            Self::If(condition) => optional(condition, &value),
        }
    }
}

/// The documents of an installation, without its CRDs: of its controllers, and of those that belong to its webhooks.
pub(crate) fn documents(
    controllers: &[Controller],
    webhooks: &[Controller],
    place: &Place,
    choices: &Choices,
) -> Result<Vec<Value>, ManifestError> {
    let workload = choices.workload(controllers, place)?;
    let mut documents = rbac::documents(&rbac::grants(controllers.iter().chain(webhooks), place)?, place);
    if choices.aggregate_roles {
        documents.extend(crd_roles(controllers, &place.metadata(None, ""), &place.role(None)));
    }
    let own = workload.documents().into_iter().filter(|(part, _)| *part != Part::Never);
    documents.extend(own.map(|(_, document)| document));
    Ok(documents)
}

impl Workload {
    /// The documents, each with the condition under which it exists.
    pub(crate) fn documents(&self) -> Vec<(Part, Value)> {
        let documents = [
            (Part::Always, self.deployment()),
            (self.has_budget.clone(), self.budget()),
            (self.ports.has_metrics.clone(), self.service()),
            (Part::when(self.webhook_service.is_some()), self.service_of_webhooks()),
            (self.has_network_policy.clone(), self.network_policy()),
            (self.has_service_monitor.clone(), self.service_monitor()),
            (self.has_alerts.clone(), alerts::prometheus_rule(&self.metadata(), &self.alerts)),
        ];
        documents.map(|(part, document)| (part, pruned(document))).into()
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name, "namespace": self.namespace, "labels": self.labels})
    }

    /// Not more than one pod is evicted at a time, so that a standby takes over.
    /// One that is not ready may always be evicted.
    fn budget(&self) -> Value {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": self.metadata(),
            "spec": {
                "maxUnavailable": 1,
                "selector": {"matchLabels": self.selector},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        })
    }

    /// The Service for metrics.
    fn service(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": self.metadata(),
            "spec": {
                "selector": self.selector,
                "ports": self.ports.service,
            },
        })
    }

    /// The Service that the API servers call. It is not that of the metrics, which may be off.
    fn service_of_webhooks(&self) -> Value {
        let mut metadata = self.metadata();
        metadata["name"] = self.webhook_service.clone().unwrap_or_default();
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {
                "selector": self.selector,
                "ports": [{"name": WEBHOOKS.0, "port": 443, "targetPort": WEBHOOKS.0, "protocol": "TCP"}],
            },
        })
    }

    /// Only the ports of webhooks, metrics and probes accept connections, that of the metrics from
    /// some clients. Outgoing connections of handlers are not limited.
    fn network_policy(&self) -> Value {
        let ingress = self.ports.has_any.field(self.ports.ingress.clone());
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": self.metadata(),
            "spec": {
                "podSelector": {"matchLabels": self.selector},
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        })
    }

    fn service_monitor(&self) -> Value {
        json!({
            "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": self.metadata(),
            "spec": {
                "selector": {"matchLabels": self.selector},
                "endpoints": [self.ports.endpoint],
            },
        })
    }
}

/// The document without fields that are `null`.
fn pruned(mut document: Value) -> Value {
    match &mut document {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(|value| *value = pruned(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| *value = pruned(value.take())),
        _ => {}
    }
    document
}
