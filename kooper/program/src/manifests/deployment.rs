//! The Deployment, with probes and a pod that meets the strictest of the Pod
//! Security Standards.

use serde_json::{Value, json};

use super::{Part, Workload};

/// Where the files of the metrics' certificate are in the container.
const CERTIFICATE: &str = "/var/run/kooper/metrics";

/// Where the files with secret settings are.
const SETTINGS: &str = "/var/run/kooper/settings";

/// The volumes of the pod, and where the container has them.
pub(crate) struct Volumes {
    pub(crate) volumes: Value,
    pub(crate) mounts: Value,
    pub(crate) any: Part,
}

impl Volumes {
    /// Those of the Secret with the metrics' certificate, and of the Secret with a key for each of these settings.
    pub(crate) fn new(certificate: Option<&str>, settings: &str, keys: &[String]) -> Self {
        let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
        let mut add = |name: &str, path: &str, mut volume: Value| {
            volume["name"] = name.into();
            volumes.push(volume);
            mounts.push(json!({"name": name, "mountPath": path, "readOnly": true}));
        };
        if let Some(secret) = certificate {
            add("metrics-certificate", CERTIFICATE, json!({"secret": {"secretName": secret}}));
        }
        let sources: Vec<_> = keys.iter().map(|key| source(settings, key)).collect();
        if !sources.is_empty() {
            add("settings", SETTINGS, json!({"projected": {"sources": sources}}));
        }
        Self { any: Part::when(!volumes.is_empty()), volumes: volumes.into(), mounts: mounts.into() }
    }
}

/// The key of a Secret, as the file of a setting.
fn source(secret: &str, setting: &str) -> Value {
    json!({"secret": {"name": secret, "items": [{"key": setting, "path": setting}]}})
}

/// The file with the value of a secret setting.
pub(crate) fn setting_file(setting: &str) -> String {
    format!("{SETTINGS}/{setting}")
}

/// The user and group of the process, as in images without a shell.
pub(crate) const USER: u32 = 65532;

/// The variables of a container with the Secret of the certificate: names and values.
pub(crate) fn certificate_variables() -> [(&'static str, String); 2] {
    [("KOOPER_METRICS_CERT_FILE", "tls.crt"), ("KOOPER_METRICS_KEY_FILE", "tls.key")]
        .map(|(name, file)| (name, format!("{CERTIFICATE}/{file}")))
}

impl Workload {
    pub(super) fn deployment(&self) -> Value {
        let mut pod = self.pod_spec(&self.container());
        pod["terminationGracePeriodSeconds"] = self.grace.clone();
        for (field, value) in &self.placement {
            pod[*field] = value.clone();
        }
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata(),
            "spec": {
                "replicas": self.replicas,
                "strategy": self.strategy,
                "selector": {"matchLabels": self.selector},
                "template": {
                    "metadata": {"labels": self.pod_labels, "annotations": self.pod_annotations}, "spec": pod,
                },
            },
        })
    }

    /// A pod of the program.
    pub(crate) fn pod_spec(&self, container: &Value) -> Value {
        let mut pod = json!({
            "serviceAccountName": self.account,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": self.user, "runAsGroup": self.user,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": self.volumes.any.field(self.volumes.volumes.clone()),
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
        json!({
            "name": self.container,
            "image": self.image,
            "args": self.args,
            "env": self.variables,
            "ports": ports.has_any.field(ports.container.clone()),
            "readinessProbe": probe("/readyz"),
            "livenessProbe": probe("/healthz"),
            "resources": self.resources,
            "volumeMounts": self.volumes.any.field(self.volumes.mounts.clone()),
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            },
        })
    }
}
