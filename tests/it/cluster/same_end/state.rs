//! The objects of a namespace, without what differs from run to run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kooper::kube::api::{Api, ListParams};
use kooper::kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kooper::prelude::*;
use kooper::testing::Cluster;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// Maximum duration of a scenario. The real cluster has delays of seconds.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// For how long nothing changes at the end.
const QUIET: Duration = Duration::from_secs(5);

/// The kinds that are compared.
const KINDS: [(&str, &str, &str); 10] = [
    ("apps", "Deployment", "deployments"),
    ("apps", "ReplicaSet", "replicasets"),
    ("apps", "StatefulSet", "statefulsets"),
    ("apps", "DaemonSet", "daemonsets"),
    ("apps", "ControllerRevision", "controllerrevisions"),
    ("batch", "Job", "jobs"),
    ("", "Pod", "pods"),
    ("", "Endpoints", "endpoints"),
    ("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets"),
];

/// Fields that differ between any two clusters: addresses, identities and versions.
const MASKED: [&str; 7] = ["podIP", "hostIP", "ip", "clusterIP", "containerID", "imageID", "resourceVersion"];

/// Compares the final state with the recorded one, or records it.
pub(super) async fn ends(cluster: &Cluster, name: &str) -> Result<()> {
    let path = recorded(name);
    let on_real = std::env::var("KOOPER_TEST_SERVER").is_ok_and(|server| server == "real");
    if on_real && std::env::var_os("KOOPER_RECORD").is_some() {
        let text = serde_json::to_string_pretty(&quiet(cluster).await?)?;
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        std::fs::write(&path, text + "\n")?;
        return Ok(());
    }
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let wanted: Value = serde_json::from_str(&text)?;
    let deadline = Instant::now() + if on_real { TIMEOUT } else { Duration::from_secs(10) };
    loop {
        let state = state(cluster).await?;
        if state == wanted {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(format!("{name} ends otherwise:\n{}", difference("", &wanted, &state).join("\n")).into());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("it/cluster/same_end").join(format!("{name}.json"))
}

/// The state after nothing has changed for some time.
async fn quiet(cluster: &Cluster) -> Result<Value> {
    let deadline = Instant::now() + TIMEOUT;
    let (mut last, mut since) = (state(cluster).await?, Instant::now());
    while since.elapsed() < QUIET {
        if Instant::now() >= deadline {
            return Err("the state changes all the time".into());
        }
        sleep(Duration::from_millis(100)).await;
        let now = state(cluster).await?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

async fn state(cluster: &Cluster) -> Result<Value> {
    let mut objects = Vec::new();
    for (group, kind, plural) in KINDS {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), cluster.namespace(), &resource);
        for object in api.list(&ListParams::default()).await? {
            // That of the API server itself, in the namespace `default`.
            if object.name_any() == "kubernetes" {
                continue;
            }
            let mut value = serde_json::to_value(&object)?;
            value["kind"] = json!(kind);
            objects.push(value);
        }
    }
    let names = names(&objects);
    let mut states: Vec<Value> = objects.iter().map(|object| normal(object, &names)).collect();
    // Those of one kind and name differ in nothing else than their status.
    states.sort_by_key(ToString::to_string);
    Ok(Value::Array(states))
}

/// Returns the replacements in strings, the longest first.
fn names(objects: &[Value]) -> Vec<(String, String)> {
    let mut names = BTreeMap::new();
    for object in objects {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = &metadata["labels"];
        let revision = match object["kind"].as_str() {
            Some("ReplicaSet") => text(&metadata["annotations"]["deployment.kubernetes.io/revision"]),
            Some("ControllerRevision") => object["revision"].to_string(),
            _ => String::new(),
        };
        for label in ["pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash"] {
            if !revision.is_empty()
                && let Some(hash) = labels[label].as_str()
            {
                names.insert(hash.to_owned(), format!("HASH{revision}"));
            }
        }
        if let (Some(start), Some(name)) = (metadata["generateName"].as_str(), metadata["name"].as_str()) {
            let is_generated = name.strip_prefix(start).is_some_and(|rest| rest.len() == 5 && !rest.contains('-'));
            if is_generated {
                names.insert(name.to_owned(), format!("{start}*"));
            }
        }
    }
    let mut names: Vec<(String, String)> = names.into_iter().filter(|(name, _)| !name.is_empty()).collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names
}

fn normal(object: &Value, names: &[(String, String)]) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in ["managedFields", "creationTimestamp", "uid", "resourceVersion"] {
            metadata.remove(key);
        }
        if metadata.contains_key("deletionTimestamp") {
            metadata.insert("deletionTimestamp".into(), json!("marked"));
        }
    }
    mask(&mut object, names);
    object
}

fn mask(value: &mut Value, names: &[(String, String)]) {
    match value {
        Value::Object(fields) => {
            // The embedded server leaves out what is empty.
            fields.retain(|key, value| key != "uncountedTerminatedPods" || *value != json!({}));
            for (key, value) in fields.iter_mut() {
                if key == "namespace" && value.is_string() {
                    *value = json!("NAMESPACE");
                } else if MASKED.contains(&key.as_str()) {
                    *value = json!("masked");
                } else if matches!(key.as_str(), "podIPs" | "hostIPs" | "clusterIPs" | "addresses") && value.is_array()
                {
                    mask_all(value);
                }
                mask(value, names);
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| mask(item, names));
            // The order of conditions is that of their changes; nothing reads it.
            if items.iter().all(|item| item["type"].is_string()) {
                items.sort_by_key(|item| item["type"].to_string());
            } else if items.iter().all(|item| item["targetRef"].is_object()) {
                items.sort_by_key(ToString::to_string);
            }
        }
        Value::String(text) => *text = plain(text, names),
        _ => {}
    }
}

fn mask_all(value: &mut Value) {
    for item in value.as_array_mut().into_iter().flatten() {
        if item.is_string() {
            *item = json!("masked");
        }
    }
}

fn plain(text: &str, names: &[(String, String)]) -> String {
    if text.parse::<k8s_openapi::jiff::Timestamp>().is_ok() {
        return "TIME".to_owned();
    }
    let mut text = text.to_owned();
    for (name, plain) in names {
        text = text.replace(name, plain);
    }
    if is_uid(&text) {
        return "UID".to_owned();
    }
    match text.strip_prefix("kube-api-access-") {
        Some(_) => "kube-api-access-*".to_owned(),
        None => text,
    }
}

fn is_uid(text: &str) -> bool {
    text.len() == 36 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') && text.matches('-').count() == 4
}

/// Where two states differ.
fn difference(path: &str, wanted: &Value, found: &Value) -> Vec<String> {
    match (wanted, found) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            keys.into_iter().flat_map(|key| difference(&format!("{path}.{key}"), &wanted[key], &found[key])).collect()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let items = one.iter().zip(other).enumerate();
            items.flat_map(|(index, (one, other))| difference(&format!("{path}[{index}]"), one, other)).collect()
        }
        _ if wanted == found => Vec::new(),
        _ => vec![format!("  {path}: recorded {wanted}, here {found}")],
    }
}
