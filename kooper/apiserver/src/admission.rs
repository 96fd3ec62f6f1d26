//! Admission: what must hold around an object before it is written, and what it is given on the way.
//!
//! These are the plugins that kube-apiserver runs by default, in its order: first all that complete an object, and when
//! the object is valid those that only judge it.

mod limits;
mod pod;
mod quota;
mod service_account;

use std::fmt::Display;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::meta;
use crate::status::{StatusError, details};

/// NamespaceLifecycle: nothing is created in a namespace that is absent or going.
pub(crate) fn check_namespace(
    cluster: &Arc<Cluster>,
    kind: &Kind,
    namespace: Option<&str>,
    object: &Value,
) -> Result<(), StatusError> {
    let Some(namespace) = namespace else { return Ok(()) };
    let Some(namespaces) = cluster.kind("", "v1", "namespaces") else { return Ok(()) };
    let Some(found) = namespaces.table.get(namespace) else {
        return Err(StatusError::not_found(&namespaces, namespace));
    };
    let found = found.value();
    if !meta::is_deleting(&found) && found["status"]["phase"] != "Terminating" {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = json!({
        "reason": "NamespaceTerminating",
        "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace"
    });
    Err(forbidden(kind, object, why).with_cause(&cause))
}

/// Completes a new object, or refuses it.
pub(crate) fn create(cluster: &Arc<Cluster>, kind: &Kind, object: &mut Value) -> Result<(), StatusError> {
    if kind.custom.is_some() {
        return Ok(());
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => {
            limits::complete(cluster, object);
            service_account::admit(cluster, kind, object)?;
            pod::set_priority(cluster, kind, object)?;
            pod::tolerate_failing_nodes(object);
            pod::apply_runtime_class(cluster, kind, object)?;
        }
        ("", "Node") => taint_new_node(object),
        ("", "PersistentVolumeClaim") => {
            set_default_class(cluster, object, "storage.k8s.io", "storageclasses", "storageClassName");
            protect(object, "kubernetes.io/pvc-protection");
        }
        ("", "PersistentVolume") => protect(object, "kubernetes.io/pv-protection"),
        ("networking.k8s.io", "Ingress") => {
            set_default_class(cluster, object, "networking.k8s.io", "ingressclasses", "ingressClassName");
        }
        ("scheduling.k8s.io", "PriorityClass") => check_only_default(cluster, kind, object)?,
        _ => {}
    }
    Ok(())
}

/// Completes the next state of an object, or refuses it.
pub(crate) fn update(
    cluster: &Arc<Cluster>,
    kind: &Kind,
    object: &mut Value,
    present: &Value,
) -> Result<(), StatusError> {
    if kind.custom.is_some() {
        return Ok(());
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => {
            for key in ["priority", "preemptionPolicy"] {
                if object["spec"].get(key).is_none()
                    && let Some(value) = present["spec"].get(key)
                {
                    object["spec"][key] = value.clone();
                }
            }
            pod::tolerate_failing_nodes(object);
        }
        ("scheduling.k8s.io", "PriorityClass") => check_only_default(cluster, kind, object)?,
        _ => {}
    }
    Ok(())
}

/// Judges a valid object, new or in its next state, and charges the quotas of its namespace with it.
pub(crate) fn judge(
    cluster: &Arc<Cluster>,
    kind: &Kind,
    object: &Value,
    present: Option<&Value>,
    dry_run: bool,
) -> Result<(), StatusError> {
    let limited = kind.custom.is_none()
        && kind.group.is_empty()
        && match kind.kind.as_str() {
            // The resources of a pod are changed by its own subresource only.
            "Pod" => present.is_none_or(|present| present["spec"] != object["spec"]),
            "PersistentVolumeClaim" => true,
            _ => false,
        };
    if limited && !present.is_some_and(meta::is_deleting) {
        limits::check(cluster, kind, object)?;
    }
    quota::charge(cluster, kind, object, present, dry_run)
}

/// `PodResizeValidator`: the containers of a pod are resized on a node that exists.
pub(crate) fn resize(cluster: &Arc<Cluster>, kind: &Kind, pod: &Value) -> Result<(), StatusError> {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let absent = cluster.kind("", "v1", "nodes").is_some_and(|nodes| nodes.table.get(node).is_none());
    if node.is_empty() || !absent {
        return Ok(());
    }
    Err(forbidden(kind, pod, format!("node {node:?} not found")))
}

/// A refusal that names the object as far as it has a name.
fn forbidden(kind: &Kind, object: &Value, why: impl Display) -> StatusError {
    // A new object may have a generated name by now, which no client knows.
    let names = [meta::text(object, "generateName"), meta::text(object, "name")];
    refused(kind, names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown"), why)
}

/// A refusal of an object that was complete and valid: its name may be a generated one.
fn not_admitted(kind: &Kind, object: &Value, why: impl Display) -> StatusError {
    refused(kind, meta::text(object, "name"), why)
}

fn refused(kind: &Kind, name: &str, why: impl Display) -> StatusError {
    let resource =
        if kind.group.is_empty() { kind.resource.clone() } else { format!("{}.{}", kind.resource, kind.group) };
    let message = format!("{resource} {name:?} is forbidden: {why}");
    StatusError::forbidden(message, details(name, &kind.group, &kind.resource))
}

/// All objects of a cluster-scoped kind.
fn all(cluster: &Arc<Cluster>, group: &str, resource: &str) -> Vec<Value> {
    let Some(kind) = cluster.kind(group, "v1", resource) else { return Vec::new() };
    kind.table.snapshot().tree.range("").map(|(_, object)| object.value()).collect()
}

/// All objects of a kind of the core group in a namespace.
fn in_namespace(cluster: &Arc<Cluster>, resource: &str, namespace: &str) -> Vec<Value> {
    let Some(kind) = cluster.kind("", "v1", resource) else { return Vec::new() };
    let prefix = format!("{namespace}/");
    let snapshot = kind.table.snapshot();
    let own = snapshot.tree.range(&prefix).take_while(|(key, _)| key.starts_with(&prefix));
    own.map(|(_, object)| object.value()).collect()
}

/// `TaintNodesByCondition`: a new node is not ready.
fn taint_new_node(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    match &mut node["spec"]["taints"] {
        Value::Array(taints) => {
            let same = |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
            if !taints.iter().any(same) {
                taints.push(taint);
            }
        }
        taints => *taints = json!([taint]),
    }
}

/// `StorageObjectInUseProtection`: what is in use stays until it is not.
fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers: Vec<_> = meta::finalizers(object).into_iter().map(ToOwned::to_owned).collect();
    if !finalizers.iter().any(|name| name == finalizer) {
        finalizers.push(finalizer.to_owned());
        meta::of(object).insert("finalizers".into(), json!(finalizers));
    }
}

/// `DefaultStorageClass` and `DefaultIngressClass`: an object without a class gets the newest default class.
fn set_default_class(cluster: &Arc<Cluster>, object: &mut Value, group: &str, resource: &str, field: &str) {
    // An ingress and a claim may name their class in an annotation, too.
    let named = ["kubernetes.io/ingress.class", "volume.beta.kubernetes.io/storage-class"]
        .iter()
        .any(|key| object["metadata"]["annotations"].get(key).is_some());
    if named || object["spec"].get(field).is_some_and(|class| !class.is_null()) {
        return;
    }
    let marks = match resource {
        "storageclasses" => {
            &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"][..]
        }
        _ => &["ingressclass.kubernetes.io/is-default-class"],
    };
    let mut classes = all(cluster, group, resource);
    classes.retain(|class| marks.iter().any(|mark| class["metadata"]["annotations"][mark] == "true"));
    let age = |class: &Value| meta::text(class, "creationTimestamp").to_owned();
    classes.sort_by(|one, other| {
        age(other).cmp(&age(one)).then_with(|| meta::text(one, "name").cmp(meta::text(other, "name")))
    });
    if let Some(class) = classes.first() {
        object["spec"][field] = class["metadata"]["name"].clone();
    }
}

/// There is one default priority class at most.
fn check_only_default(cluster: &Arc<Cluster>, kind: &Kind, class: &Value) -> Result<(), StatusError> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    let name = meta::text(class, "name");
    let others = all(cluster, "scheduling.k8s.io", "priorityclasses");
    match others.iter().find(|other| other["globalDefault"] == true && meta::text(other, "name") != name) {
        Some(other) => {
            let other = meta::text(other, "name");
            let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
            Err(forbidden(kind, class, why))
        }
        None => Ok(()),
    }
}
