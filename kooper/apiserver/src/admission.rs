//! Admission: what must hold around an object before it is written, and what it is given on the way.
//!
//! These are the plugins that kube-apiserver runs by default, in its order: first all that complete an object, and when
//! the object is valid those that only judge it.

mod limits;
mod pod;
mod quota;
mod service_account;
mod webhooks;

use std::fmt::Display;
use std::sync::Arc;

use serde_json::{Value, json};

use self::webhooks::Mutation;
use crate::cluster::Cluster;
use crate::identity::User;
use crate::kinds::Kind;
use crate::meta;
use crate::status::StatusError;

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

/// Nothing is created of a kind whose definition is going.
pub(crate) fn check_definition(kind: &Kind, object: &Value) -> Result<(), StatusError> {
    if !kind.custom.as_ref().is_some_and(|definition| definition.is_ending()) {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(refused(kind, meta::text(object, "name"), why))
}

/// The operation of a request on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A request that is admitted.
pub(crate) struct Attributes<'a> {
    pub(crate) cluster: &'a Arc<Cluster>,
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) user: &'a User,
    pub(crate) operation: Operation,
    /// That of the object; a namespace is in itself.
    pub(crate) namespace: String,
    /// Empty if it is still to be generated.
    pub(crate) name: String,
    pub(crate) subresource: &'a str,
    pub(crate) dry_run: bool,
    pub(crate) options: Value,
}

impl Attributes<'_> {
    /// The request as a webhook sees it, where its object is of this kind, without the objects.
    fn review(&self, kind: &Kind) -> Value {
        let of = |kind: &Kind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let at = |kind: &Kind| json!({"group": kind.group, "version": kind.version, "resource": kind.resource});
        let mut review = json!({
            "kind": of(kind),
            "resource": at(kind),
            "requestKind": of(self.kind),
            "requestResource": at(self.kind),
            "operation": self.operation.name(),
            "userInfo": self.user.info(),
            "dryRun": self.dry_run,
            "options": self.options,
        });
        let texts = [
            ("name", self.name.as_str()),
            ("namespace", &self.namespace),
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            review[key] = json!(text);
        }
        review
    }
}

/// Completes a new object, or refuses it.
pub(crate) async fn create(
    request: &Attributes<'_>,
    object: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<(), StatusError> {
    // The real server sets them after admission.
    let metadata = meta::of(object);
    let set = ["uid", "creationTimestamp", "generation"].map(|key| (key, metadata.remove(key)));
    let plugins = |object: &mut Value| complete(request.cluster, request.kind, object);
    mutate(request, object, &Value::Null, plugins, warnings).await?;
    let metadata = meta::of(object);
    for (key, value) in set {
        metadata.remove(key);
        metadata.extend(value.map(|value| (key.to_owned(), value)));
    }
    Ok(())
}

/// Lets the webhooks change what a request writes, or null in a deletion. If one does, the other plugins run again.
pub(crate) async fn mutate(
    request: &Attributes<'_>,
    object: &mut Value,
    old: &Value,
    plugins: impl Fn(&mut Value) -> Result<(), StatusError>,
    warnings: &mut Vec<String>,
) -> Result<(), StatusError> {
    plugins(object)?;
    let mut mutation = Mutation::default();
    mutation.round(request, object, old, warnings).await?;
    if mutation.changed {
        plugins(object)?;
        mutation.round(request, object, old, warnings).await?;
    }
    Ok(())
}

/// Admits the deletion of an object, or refuses it.
pub(crate) async fn delete(
    request: &Attributes<'_>,
    present: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), StatusError> {
    mutate(request, &mut Value::Null, present, |_| Ok(()), warnings).await?;
    webhooks::validate(request, &Value::Null, present, warnings).await
}

fn complete(cluster: &Arc<Cluster>, kind: &Kind, object: &mut Value) -> Result<(), StatusError> {
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

/// Judges a valid object, new or in its next state. With `counts`, its namespace's limits and quotas apply, and quotas
/// are charged with it.
pub(crate) async fn judge(
    request: &Attributes<'_>,
    object: &Value,
    present: Option<&Value>,
    counts: bool,
    warnings: &mut Vec<String>,
) -> Result<(), StatusError> {
    let Attributes { cluster, kind, dry_run, .. } = request;
    let limited = counts
        && kind.custom.is_none()
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
    webhooks::validate(request, object, present.unwrap_or(&Value::Null), warnings).await?;
    if counts { quota::charge(cluster, kind, object, present, *dry_run) } else { Ok(()) }
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
    StatusError::forbidden_named(&kind.group, &kind.resource, name, why)
}

/// All objects of a kind of the core group in a namespace.
fn in_namespace(cluster: &Arc<Cluster>, resource: &str, namespace: &str) -> Vec<Value> {
    let Some(kind) = cluster.kind("", "v1", resource) else { return Vec::new() };
    kind.table.snapshot().tree.in_namespace(namespace).map(|(_, object)| object.value()).collect()
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
    if !meta::finalizers(object).contains(&finalizer) {
        meta::change_finalizers(object, |all| all.push(finalizer.to_owned()));
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
    let mut classes = cluster.objects(group, resource);
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
    let others = cluster.objects("scheduling.k8s.io", "priorityclasses");
    match others.iter().find(|other| other["globalDefault"] == true && meta::text(other, "name") != name) {
        Some(other) => {
            let other = meta::text(other, "name");
            let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
            Err(forbidden(kind, class, why))
        }
        None => Ok(()),
    }
}
