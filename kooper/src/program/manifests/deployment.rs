//! The Deployment, with probes and a pod that meets the strictest of the Pod
//! Security Standards.

use serde_json::{Value, json};

use super::{PORT, Workload};

/// The user and group of the process, as in images without a shell.
const USER: u32 = 65532;

impl Workload {
    pub(super) fn deployment(&self) -> Value {
        let mut pod = self.pod_spec(&self.container());
        pod["terminationGracePeriodSeconds"] = self.grace.clone();
        pod["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": self.selector},
            },
        }]}});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata(),
            "spec": {
                "replicas": self.replicas,
                "strategy": self.strategy,
                "selector": {"matchLabels": self.selector},
                "template": {"metadata": {"labels": self.labels}, "spec": pod},
            },
        })
    }

    /// A pod of the program.
    pub(crate) fn pod_spec(&self, container: &Value) -> Value {
        let mut pod = json!({
            "serviceAccountName": self.account,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        });
        for (field, value) in &self.pod {
            pod[*field] = value.clone();
        }
        pod
    }

    /// The container that runs the controllers.
    pub(crate) fn container(&self) -> Value {
        let probe = |path: &str| self.listens.field(json!({"httpGet": {"path": path, "port": PORT}}));
        json!({
            "name": self.container,
            "image": self.image,
            "args": self.args,
            "env": self.variables,
            "ports": self.listens.field(json!([{"name": PORT, "containerPort": self.port, "protocol": "TCP"}])),
            "readinessProbe": probe("/readyz"),
            "livenessProbe": probe("/healthz"),
            "resources": self.resources,
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            },
        })
    }
}
