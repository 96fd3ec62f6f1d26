//! The objects that every new cluster has, and every new namespace.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::registry::Allocation;
use crate::store::Draft;
use crate::task::{AUTHORITY, SERVICE};
use crate::{defaults, fields, meta, prepare, random, registry, route, time, verbs};

/// The roles, bindings and priority classes of a real server, one a line.
const OBJECTS: &str = include_str!("bootstrap.jsonl");
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Who writes the objects of a cluster, and those of a namespace.
const SERVER: &str = "kube-apiserver";
const CONTROLLERS: &str = "kube-controller-manager";

const AUTHORITY_NOTE: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
     internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
     clusters.";
/// Where the server is for endpoints, which cannot be on loopback: an address for documentation, which no host has.
const ELSEWHERE: &str = "192.0.2.1";

/// An object that is the same in all clusters but for its uid and its time.
struct BootstrapObject {
    group: String,
    resource: String,
    key: String,
    draft: Draft,
    time: String,
}

/// They are made once; all servers of a process share them.
static PREPARED: OnceLock<Vec<BootstrapObject>> = OnceLock::new();

/// Creates the namespaces and the objects that requests are judged by, and forgets how.
pub(crate) fn create_objects(cluster: &Arc<Cluster>) {
    let now = time::now();
    for prepared in PREPARED.get_or_init(|| prepared(cluster)) {
        if let Some(kind) = cluster.kind(&prepared.group, "v1", &prepared.resource) {
            let draft = prepared.draft.renewed(&random::uid(), (&prepared.time, &now));
            // One that exists is as good.
            drop(kind.table.put(&prepared.key, None, draft));
        }
    }
    for namespace in NAMESPACES {
        provision(cluster, namespace);
    }
    publish_server(cluster);
    cluster.store.compact();
}

fn prepared(cluster: &Arc<Cluster>) -> Vec<BootstrapObject> {
    let namespaces = NAMESPACES.iter().map(|name| json!({"resource": "/namespaces", "metadata": {"name": name}}));
    let others = OBJECTS.lines().filter_map(|line| serde_json::from_str(line).ok());
    let prepared = namespaces.chain(others).filter_map(|mut object: Value| {
        let resource = object.as_object_mut()?.remove("resource")?;
        let (group, resource) = resource.as_str()?.split_once('/')?;
        if group == "rbac.authorization.k8s.io" {
            mark(&mut object);
        }
        let kind = cluster.kind(group, "v1", resource)?;
        let namespace = object["metadata"]["namespace"].as_str().map(ToOwned::to_owned);
        let object = complete(cluster, &kind, namespace.as_deref(), object, SERVER)?;
        Some(BootstrapObject {
            group: group.to_owned(),
            resource: resource.to_owned(),
            key: route::key(namespace.as_deref().unwrap_or_default(), meta::text(&object, "name")),
            draft: verbs::draft(&kind, &object),
            time: meta::text(&object, "creationTimestamp").to_owned(),
        })
    });
    prepared.collect()
}

/// Marks a role or a binding as one that the server keeps up to date.
fn mark(object: &mut Value) {
    let metadata = meta::of(object);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/bootstrapping"] = json!("rbac-defaults");
    metadata.insert("annotations".into(), json!({"rbac.authorization.kubernetes.io/autoupdate": "true"}));
}

/// Creates what a namespace lacks of what each has: the service account that pods act as where they name none, and the
/// certificate authority.
pub(crate) fn provision(cluster: &Arc<Cluster>, namespace: &str) {
    if !cluster.accounts {
        return;
    }
    let account = json!({"metadata": {"name": "default"}});
    put(cluster, ("", "v1", "serviceaccounts"), namespace, account, CONTROLLERS);
    let Some(maps) = cluster.kind("", "v1", "configmaps") else { return };
    let key = route::key(namespace, AUTHORITY);
    let data = json!({"ca.crt": cluster.authority});
    while let Some(present) = maps.table.get(&key) {
        let mut object = present.value();
        if object["data"] == data {
            return;
        }
        object["data"] = data.clone();
        if maps.table.put(&key, Some(present.version), verbs::draft(&maps, &object)).is_ok() {
            return;
        }
    }
    let annotations = json!({"kubernetes.io/description": AUTHORITY_NOTE});
    let map = json!({"metadata": {"name": AUTHORITY, "annotations": annotations}, "data": data});
    put(cluster, ("", "v1", "configmaps"), namespace, map, CONTROLLERS);
}

/// Creates what is absent of the Service by which pods find the server.
pub(crate) fn publish_server(cluster: &Arc<Cluster>) {
    let ip = cluster.address.ip();
    let is_elsewhere = ip.is_loopback() || ip.is_unspecified();
    let ip = if is_elsewhere { ELSEWHERE.to_owned() } else { ip.to_string() };
    let port = cluster.address.port();
    let service = json!({
        "metadata": {"name": SERVICE, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": registry::first_address().to_string(),
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]
        }
    });
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let endpoints = json!({
        "metadata": {"name": SERVICE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": ip}], "ports": ports}]
    });
    let family = if ip.contains(':') { "IPv6" } else { "IPv4" };
    let slice = json!({
        "metadata": {"name": SERVICE, "labels": {"kubernetes.io/service-name": SERVICE}},
        "addressType": family,
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": ports
    });
    put(cluster, ("", "v1", "services"), "default", service, SERVER);
    put(cluster, ("", "v1", "endpoints"), "default", endpoints, SERVER);
    put(cluster, ("discovery.k8s.io", "v1", "endpointslices"), "default", slice, SERVER);
}

/// Creates an object that no client asked for, unless it exists.
fn put(
    cluster: &Arc<Cluster>,
    (group, version, resource): (&str, &str, &str),
    namespace: &str,
    object: Value,
    writer: &str,
) {
    let Some(kind) = cluster.kind(group, version, resource) else { return };
    let key = route::key(namespace, meta::text(&object, "name"));
    if kind.table.get(&key).is_none()
        && let Some(object) = complete(cluster, &kind, Some(namespace), object, writer)
    {
        // One that exists is as good.
        drop(kind.table.put(&key, None, verbs::draft(&kind, &object)));
    }
}

/// Makes an object what a request to create it would make of it.
fn complete(
    cluster: &Arc<Cluster>,
    kind: &Arc<Kind>,
    namespace: Option<&str>,
    mut object: Value,
    writer: &str,
) -> Option<Value> {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    meta::prepare_create(kind, &mut object, namespace);
    defaults::fill(kind, &mut object);
    let mut object = fields::created(cluster, kind, "", object, writer);
    fields::drop_empty(&mut object);
    prepare::create(kind, &mut object, Allocation::Made).ok()?;
    prepare::canonicalize(kind, &mut object);
    Some(object)
}
