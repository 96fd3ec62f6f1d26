//! The objects: as large, and as much used by field managers, as those of a busy cluster.

use kooper_bench::{Kind, SENT};
use serde_json::{Map, Value, json};

/// The namespaces the objects are spread over.
pub(crate) const NAMESPACES: usize = 20;

/// When everything happened.
const TIME: &str = "2025-01-01T00:00:00Z";

/// The namespace of an index.
pub(crate) fn namespace(index: usize) -> String {
    format!("bench-{:02}", index % NAMESPACES)
}

/// The name of an index.
pub(crate) fn name(index: usize) -> String {
    format!("bench-{index:06}")
}

/// The object of an index, made from a stored one: what the API server added to that stays.
///
/// `incarnation` counts how often it was deleted and created again.
pub(crate) fn stored(template: &Value, kind: Kind, index: usize, incarnation: u32, sent: u64) -> Value {
    let mut document = template.clone();
    overlay(&mut document, object(kind, index, sent));
    overlay(&mut document, status(kind, index));
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), json!(format!("{incarnation:08x}-0000-4000-8000-{index:012x}")));
        // Storage keeps the version apart from the object.
        metadata.remove("resourceVersion");
    }
    document
}

/// Puts the values of `over` in the places of `under`; lists are of one length.
fn overlay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                overlay(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(under), Value::Array(over)) if under.len() == over.len() => {
            under.iter_mut().zip(over).for_each(|(under, over)| overlay(under, over));
        }
        (under, over) => *under = over,
    }
}

/// The object of an index, as its creator writes it.
pub(crate) fn object(kind: Kind, index: usize, sent: u64) -> Value {
    match kind {
        Kind::Pods => pod(index, sent),
        Kind::Crs => widget(index, sent),
    }
}

/// Its status, as somebody else writes it later.
pub(crate) fn status(kind: Kind, index: usize) -> Value {
    match kind {
        Kind::Pods => pod_status(index),
        Kind::Crs => widget_status(index),
    }
}

fn pod(index: usize, sent: u64) -> Value {
    let application = format!("application-{:03}", index % 400);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(index),
            "generateName": format!("{application}-7d9c6b8f5d-"),
            "namespace": namespace(index),
            "labels": {
                "app.kubernetes.io/name": application,
                "app.kubernetes.io/instance": format!("{application}-production"),
                "app.kubernetes.io/version": "4.17.2",
                "app.kubernetes.io/component": "backend",
                "app.kubernetes.io/part-of": "storefront",
                "pod-template-hash": "7d9c6b8f5d",
                "team": format!("team-{:02}", index % 30)
            },
            "annotations": {
                SENT: sent.to_string(),
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "checksum/config": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": format!("{application}-7d9c6b8f5d"),
                "uid": format!("00000000-0000-4000-8000-{:012}", index % 400),
                "controller": true,
                "blockOwnerDeletion": true
            }]
        },
        "spec": {
            "nodeName": node(index),
            "serviceAccountName": "backend",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 30,
            "securityContext": { "runAsNonRoot": true, "runAsUser": 10001, "fsGroup": 10001 },
            "containers": [
                {
                    "name": "backend",
                    "image": format!("registry.example/storefront/{application}:4.17.2"),
                    "ports": [
                        { "name": "http", "containerPort": 8080, "protocol": "TCP" },
                        { "name": "metrics", "containerPort": 9090, "protocol": "TCP" }
                    ],
                    "env": [
                        { "name": "ENVIRONMENT", "value": "production" },
                        { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                        { "name": "DATABASE_PASSWORD", "valueFrom": { "secretKeyRef": { "name": "database", "key": "password" } } }
                    ],
                    "resources": {
                        "requests": { "cpu": "100m", "memory": "256Mi" },
                        "limits": { "cpu": "1", "memory": "512Mi" }
                    },
                    "livenessProbe": { "httpGet": { "path": "/healthz", "port": "http" }, "periodSeconds": 10 },
                    "readinessProbe": { "httpGet": { "path": "/readyz", "port": "http" }, "periodSeconds": 5 },
                    "volumeMounts": [
                        { "name": "config", "mountPath": "/etc/backend", "readOnly": true },
                        { "name": "scratch", "mountPath": "/tmp" }
                    ]
                }
            ],
            "volumes": [
                { "name": "config", "configMap": { "name": application } },
                { "name": "scratch", "emptyDir": {} }
            ]
        }
    })
}

fn pod_status(index: usize) -> Value {
    let address = format!("10.{}.{}.{}", index / 62_500 % 250, index / 250 % 250, index % 250 + 1);
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let conditions = conditions.map(
        |condition| json!({ "type": condition, "status": "True", "lastProbeTime": null, "lastTransitionTime": TIME }),
    );
    json!({
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "192.0.2.10",
            "hostIPs": [{ "ip": "192.0.2.10" }],
            "podIP": address,
            "podIPs": [{ "ip": address }],
            "startTime": TIME,
            "containerStatuses": [{
                "name": "backend",
                "image": format!("registry.example/storefront/application-{:03}:4.17.2", index % 400),
                "imageID": "registry.example/storefront@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                "containerID": format!("containerd://{index:064x}"),
                "ready": true,
                "started": true,
                "restartCount": 0,
                "state": { "running": { "startedAt": TIME } }
            }]
        }
    })
}

fn node(index: usize) -> String {
    format!("node-{:03}", index % 200)
}

fn widget(index: usize, sent: u64) -> Value {
    let application = format!("database-{:03}", index % 400);
    let selector: Map<String, Value> = [("app.kubernetes.io/name", json!(application))]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    json!({
        "apiVersion": "bench.kooper.dev/v1",
        "kind": "Widget",
        "metadata": {
            "name": name(index),
            "namespace": namespace(index),
            "labels": { "app.kubernetes.io/name": application, "team": format!("team-{:02}", index % 30) },
            "annotations": { SENT: sent.to_string() }
        },
        "spec": {
            "image": format!("registry.example/databases/{application}:16.4"),
            "replicas": 3,
            "paused": false,
            "selector": selector,
            "settings": [
                { "name": "max_connections", "value": "400" },
                { "name": "shared_buffers", "value": "2GB" },
                { "name": "work_mem", "value": "16MB" }
            ],
            "listeners": [
                { "name": "sql", "port": 5432, "protocol": "TCP" },
                { "name": "metrics", "port": 9187, "protocol": "TCP" }
            ],
            "backup": { "schedule": "15 3 * * *", "bucket": "backups-production", "retentionDays": 14 }
        }
    })
}

fn widget_status(index: usize) -> Value {
    let condition = |name: &str, reason: &str, message: &str| json!({ "type": name, "status": "True", "reason": reason, "message": message, "lastTransitionTime": TIME });
    json!({
        "status": {
            "observedGeneration": 1,
            "readyReplicas": 3,
            "endpoint": format!("{}.{}.svc:5432", name(index), namespace(index)),
            "conditions": [
                condition("Ready", "ReplicasReady", "All 3 replicas accept connections."),
                condition("BackedUp", "BackupSucceeded", "The last backup ended without an error.")
            ]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_what_the_server_added() {
        let mut template = object(Kind::Pods, 0, 0);
        template["metadata"]["resourceVersion"] = json!("7");
        template["metadata"]["managedFields"] = json!([{ "manager": "kubelet" }]);
        template["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
        let copy = stored(&template, Kind::Pods, 21, 3, 99);
        assert_eq!(copy["metadata"]["name"], "bench-000021");
        assert_eq!(copy["metadata"]["namespace"], "bench-01");
        assert_eq!(copy["metadata"]["uid"], "00000003-0000-4000-8000-000000000015");
        assert_eq!(copy["metadata"]["annotations"][SENT], "99");
        assert_eq!(copy["metadata"]["managedFields"], template["metadata"]["managedFields"]);
        assert_eq!(copy["metadata"].get("resourceVersion"), None);
        assert_eq!(copy["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(copy["spec"]["containers"][0]["name"], "backend");
        assert_eq!(copy["status"]["phase"], "Running");
    }
}
