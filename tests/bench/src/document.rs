//! The objects: as large, as varied and as much used by field managers as those of a busy cluster.
//!
//! Pods belong to [`WORKLOADS`], which differ in what a deployment says (names, images, settings, hashes); the
//! pods of one differ in what a pod has of its own (ids, addresses, node, times). Widgets differ each from each.

mod dice;

use serde_json::{Value, json};

use self::dice::Dice;
use crate::{Kind, SENT};

/// The namespaces the objects are spread over.
pub const NAMESPACES: usize = 20;
/// The workloads they belong to: a multiple of the namespaces, so that each is in one.
pub const WORKLOADS: usize = 400;

/// Purposes that keep the sequences of values apart.
const WORKLOAD: u64 = 1;
const OBJECT: u64 = 2;
const STATUS: u64 = 3;
const INCARNATION: u64 = 4;

/// The namespace of an index.
#[must_use]
pub fn namespace(index: usize) -> String {
    format!("bench-{:02}", index % NAMESPACES)
}

/// The name of an index.
#[must_use]
pub fn name(index: usize) -> String {
    format!("bench-{index:06}")
}

/// The object of an index, made from a stored one of its workload: what the API server added to that stays.
///
/// `incarnation` counts how often it was deleted and created again.
#[must_use]
pub fn stored(template: &Value, kind: Kind, index: usize, incarnation: u32, sent: u64) -> Value {
    let mut document = template.clone();
    overlay(&mut document, object(kind, index, sent));
    overlay(&mut document, status(kind, index));
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        let mut own = Dice::new(INCARNATION + u64::from(incarnation), index);
        metadata.insert("uid".to_owned(), json!(own.uid()));
        metadata.insert("creationTimestamp".to_owned(), json!(own.time()));
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
#[must_use]
pub fn object(kind: Kind, index: usize, sent: u64) -> Value {
    match kind {
        Kind::Pods => pod(index, sent),
        Kind::Crs => widget(index, sent),
    }
}

/// Its status, as somebody else writes it later.
#[must_use]
pub fn status(kind: Kind, index: usize) -> Value {
    match kind {
        Kind::Pods => pod_status(index),
        Kind::Crs => widget_status(index),
    }
}

/// Values that all pods of a workload share.
struct Workload {
    own: Dice,
    name: String,
    component: &'static str,
    image: String,
    version: String,
    hash: String,
}

impl Workload {
    fn of(index: usize) -> Self {
        let number = index % WORKLOADS;
        let mut own = Dice::new(WORKLOAD, number);
        let (component, version) = (own.word(), own.version());
        let name = format!("{component}-{}-{number:03}", own.word());
        let image = format!("registry.example/{}/{name}:{version}", own.word());
        let hash = own.hex(10);
        Self { own, name, component, image, version, hash }
    }
}

fn pod(index: usize, sent: u64) -> Value {
    let Workload { mut own, name: workload, component, image, version, hash } = Workload::of(index);
    let mut env: Vec<Value> = (0..2 + own.below(3))
        .map(|number| {
            let name = format!("{}_{}_{number}", own.word(), own.word()).to_uppercase();
            own.setting(&name)
        })
        .collect();
    env.push(json!({ "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }));
    env.push(json!({
        "name": format!("{}_PASSWORD", component.to_uppercase()),
        "valueFrom": { "secretKeyRef": { "name": format!("{workload}-{}", own.hex(6)), "key": "password" } }
    }));
    let port = 8_000 + own.below(1_000);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(index),
            "generateName": format!("{workload}-{hash}-"),
            "namespace": namespace(index),
            "labels": {
                "app.kubernetes.io/name": workload,
                "app.kubernetes.io/instance": format!("{workload}-production"),
                "app.kubernetes.io/version": version,
                "app.kubernetes.io/component": component,
                "pod-template-hash": hash,
                "team": own.word()
            },
            "annotations": {
                SENT: sent.to_string(),
                "prometheus.io/scrape": "true",
                "prometheus.io/port": port.to_string(),
                "checksum/config": own.hex(64)
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": format!("{workload}-{hash}"),
                "uid": own.uid(),
                "controller": true,
                "blockOwnerDeletion": true
            }]
        },
        "spec": {
            "nodeName": format!("node-{:03}", Dice::new(OBJECT, index).below(200)),
            "serviceAccountName": component,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 15 + own.below(60),
            "securityContext": { "runAsNonRoot": true, "runAsUser": 10_000 + own.below(500), "fsGroup": 10_001 },
            "containers": [
                {
                    "name": component,
                    "image": image,
                    "ports": [
                        { "name": "http", "containerPort": port, "protocol": "TCP" },
                        { "name": "metrics", "containerPort": 9_090, "protocol": "TCP" }
                    ],
                    "env": env,
                    "resources": {
                        "requests": {
                            "cpu": format!("{}m", 10 * (1 + own.below(90))),
                            "memory": format!("{}Mi", 64 * (1 + own.below(8)))
                        },
                        "limits": { "cpu": (1 + own.below(4)).to_string(), "memory": "1Gi" }
                    },
                    "livenessProbe": {
                        "httpGet": { "path": "/healthz", "port": "http" },
                        "periodSeconds": 5 + own.below(20)
                    },
                    "readinessProbe": {
                        "httpGet": { "path": "/readyz", "port": "http" },
                        "periodSeconds": 2 + own.below(8)
                    },
                    "volumeMounts": [
                        { "name": "config", "mountPath": format!("/etc/{component}"), "readOnly": true },
                        { "name": "scratch", "mountPath": "/tmp" }
                    ]
                }
            ],
            "volumes": [
                { "name": "config", "configMap": { "name": format!("{workload}-{}", own.hex(6)) } },
                { "name": "scratch", "emptyDir": {} }
            ]
        }
    })
}

fn pod_status(index: usize) -> Value {
    let Workload { mut own, component, image, .. } = Workload::of(index);
    let mut each = Dice::new(STATUS, index);
    let address = format!("10.{}.{}.{}", each.below(250), each.below(250), each.below(250) + 1);
    let host = format!("192.0.2.{}", Dice::new(OBJECT, index).below(200) + 1);
    let started = each.time();
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(|condition| {
        json!({ "type": condition, "status": "True", "lastProbeTime": null, "lastTransitionTime": started })
    });
    json!({
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": host,
            "hostIPs": [{ "ip": host }],
            "podIP": address,
            "podIPs": [{ "ip": address }],
            "startTime": started,
            "containerStatuses": [{
                "name": component,
                "image": image,
                "imageID": format!("{}@sha256:{}", image.split(':').next().unwrap_or_default(), own.hex(64)),
                "containerID": format!("containerd://{}", each.hex(64)),
                "ready": true,
                "started": true,
                "restartCount": each.below(3),
                "state": { "running": { "startedAt": each.time() } }
            }]
        }
    })
}

fn widget(index: usize, sent: u64) -> Value {
    let mut own = Dice::new(OBJECT, index);
    let application = format!("{}-{}-{}", own.word(), own.word(), own.hex(5));
    let settings = ["max_connections", "shared_buffers", "work_mem"].map(|setting| own.setting(setting));
    json!({
        "apiVersion": "bench.kooper.dev/v1",
        "kind": "Widget",
        "metadata": {
            "name": name(index),
            "namespace": namespace(index),
            "labels": { "app.kubernetes.io/name": application, "team": own.word() },
            "annotations": { SENT: sent.to_string() }
        },
        "spec": {
            "image": format!("registry.example/{}/{application}:{}", own.word(), own.version()),
            "replicas": 1 + own.below(5),
            "paused": false,
            "selector": { "app.kubernetes.io/name": application },
            "settings": settings,
            "listeners": [
                { "name": "sql", "port": 5_000 + own.below(1_000), "protocol": "TCP" },
                { "name": "metrics", "port": 9_187, "protocol": "TCP" }
            ],
            "backup": {
                "schedule": format!("{} {} * * *", own.below(60), own.below(24)),
                "bucket": format!("{}-{}", own.word(), own.hex(12)),
                "retentionDays": 7 + own.below(60)
            }
        }
    })
}

fn widget_status(index: usize) -> Value {
    let mut own = Dice::new(STATUS, index);
    let ready = 1 + own.below(5);
    let mut condition = |name: &str, reason: &str, message: String| {
        let time = own.time();
        json!({ "type": name, "status": "True", "reason": reason, "message": message, "lastTransitionTime": time })
    };
    json!({
        "status": {
            "observedGeneration": 1,
            "readyReplicas": ready,
            "endpoint": format!("{}.{}.svc:5432", name(index), namespace(index)),
            "conditions": [
                condition("Ready", "ReplicasReady", format!("{ready} replicas accept connections.")),
                condition("BackedUp", "BackupSucceeded", format!("Backup {index:08x} ended without an error."))
            ]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_what_the_server_added() {
        let mut template = object(Kind::Pods, 21, 0);
        template["metadata"]["resourceVersion"] = json!("7");
        template["metadata"]["managedFields"] = json!([{ "manager": "kubelet" }]);
        template["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
        let copy = stored(&template, Kind::Pods, 21 + WORKLOADS, 3, 99);
        assert_eq!(copy["metadata"]["name"], "bench-000421");
        assert_eq!(copy["metadata"]["namespace"], "bench-01");
        assert_eq!(copy["metadata"]["annotations"][SENT], "99");
        assert_eq!(copy["metadata"]["managedFields"], template["metadata"]["managedFields"]);
        assert_eq!(copy["metadata"].get("resourceVersion"), None);
        assert_eq!(copy["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(copy["spec"]["containers"][0]["image"], template["spec"]["containers"][0]["image"]);
        assert_eq!(copy["status"]["phase"], "Running");
    }

    #[test]
    fn another_incarnation_is_another_object() {
        let template = object(Kind::Crs, 5, 0);
        let uid = |incarnation| stored(&template, Kind::Crs, 5, incarnation, 0)["metadata"]["uid"].clone();
        assert_eq!(uid(1), uid(1));
        assert_ne!(uid(0), uid(1));
    }
}
