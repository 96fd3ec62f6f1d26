//! The Deployment, with probes and a pod that meets the strictest of the Pod
//! Security Standards.

use serde_json::{Value, json};

use super::Workload;

/// Where the files of the metrics' certificate are in the container.
const CERTIFICATE: &str = "/var/run/kooper/metrics";

/// The name of their volume.
const VOLUME: &str = "metrics-certificate";

/// The user and group of the process, as in images without a shell.
const USER: u32 = 65532;

/// The variables of a container with the Secret of the certificate: names and values.
pub(crate) fn certificate_variables() -> [(&'static str, String); 2] {
    [("KOOPER_METRICS_CERT_FILE", "tls.crt"), ("KOOPER_METRICS_KEY_FILE", "tls.key")]
        .map(|(name, file)| (name, format!("{CERTIFICATE}/{file}")))
}

impl Workload {
    pub(super) fn deployment(&self) -> Value {
        let mut pod = self.pod_spec(&self.container());
        pod["terminationGracePeriodSeconds"] = self.grace.clone();
        pod["volumes"] = self.has_secret.field(json!([{"name": VOLUME, "secret": {"secretName": self.secret}}]));
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
        let ports = &self.ports;
        let probe = |path: &str| ports.has_probes.field(json!({"httpGet": {"path": path, "port": ports.probe}}));
        let mounts = json!([{"name": VOLUME, "mountPath": CERTIFICATE, "readOnly": true}]);
        json!({
            "name": self.container,
            "image": self.image,
            "args": self.args,
            "env": self.variables,
            "ports": ports.has_any.field(ports.container.clone()),
            "readinessProbe": probe("/readyz"),
            "livenessProbe": probe("/healthz"),
            "resources": self.resources,
            "volumeMounts": self.has_secret.field(mounts),
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            },
        })
    }
}
