//! The objects that every new cluster has.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::{defaults, meta, prepare, route, verbs};

/// The roles, bindings and priority classes of a real server, one a line.
const OBJECTS: &str = include_str!("bootstrap.jsonl");

/// They are decoded once; all servers of a process share them.
static DECODED: LazyLock<Vec<Value>> =
    LazyLock::new(|| OBJECTS.lines().filter_map(|line| serde_json::from_str(line).ok()).collect());

/// Creates the namespaces and the objects that requests are judged by, and forgets how.
pub(crate) fn create_objects(cluster: &Arc<Cluster>) {
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        put(cluster, ("", "v1", "namespaces"), None, json!({"kind": "Namespace", "metadata": {"name": name}}));
        if cluster.accounts {
            put(cluster, ("", "v1", "serviceaccounts"), Some(name), account());
        }
    }
    for object in DECODED.iter() {
        let Some((group, resource)) = object["resource"].as_str().and_then(|resource| resource.split_once('/')) else {
            continue;
        };
        let mut object = object.clone();
        drop(object.as_object_mut().and_then(|entries| entries.remove("resource")));
        if group == "rbac.authorization.k8s.io" {
            mark(&mut object);
        }
        object["kind"] = cluster.kind(group, "v1", resource).map_or(Value::Null, |kind| kind.kind.as_str().into());
        let namespace = object["metadata"]["namespace"].as_str().map(ToOwned::to_owned);
        put(cluster, (group, "v1", resource), namespace.as_deref(), object);
    }
    cluster.store.compact();
}

/// Marks a role or a binding as one that the server keeps up to date.
fn mark(object: &mut Value) {
    let metadata = meta::of(object);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/bootstrapping"] = json!("rbac-defaults");
    metadata.insert("annotations".into(), json!({"rbac.authorization.kubernetes.io/autoupdate": "true"}));
}

/// The service account that pods act as where they name none.
pub(crate) fn account() -> Value {
    json!({"kind": "ServiceAccount", "metadata": {"name": "default"}})
}

/// Creates an object that no client asked for, unless it exists.
pub(crate) fn put(
    cluster: &Arc<Cluster>,
    (group, version, resource): (&str, &str, &str),
    namespace: Option<&str>,
    mut object: Value,
) {
    let Some(kind) = cluster.kind(group, version, resource) else { return };
    object["apiVersion"] = json!(kind.api_version());
    meta::prepare_create(&kind, &mut object, namespace);
    defaults::fill(&kind, &mut object);
    if prepare::create(&kind, &mut object).is_err() {
        return;
    }
    let key = route::key(namespace.unwrap_or_default(), meta::text(&object, "name"));
    // One that exists is as good.
    drop(kind.table.put(&key, None, verbs::draft(&kind, &object)));
}
