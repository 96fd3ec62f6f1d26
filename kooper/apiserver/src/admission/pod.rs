//! The plugins for pods: `Priority`, `DefaultTolerationSeconds` and `RuntimeClass`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::forbidden;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::meta;
use crate::status::StatusError;

/// `tolerationSeconds` of the default tolerations for nodes that are not ready or unreachable.
const TOLERATION_SECONDS: u64 = 300;

/// `Priority`: the number that the name of a priority class stands for.
pub(super) fn set_priority(cluster: &Arc<Cluster>, kind: &Kind, pod: &mut Value) -> Result<(), StatusError> {
    let classes = cluster.objects("scheduling.k8s.io", "priorityclasses");
    let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
    let class = if name.is_empty() {
        classes.iter().find(|class| class["globalDefault"] == true)
    } else {
        match classes.iter().find(|class| meta::text(class, "name") == name) {
            None => return Err(forbidden(kind, pod, format!("no PriorityClass with name {name} was found"))),
            found => found,
        }
    };
    let priority = class.and_then(|class| class["value"].as_i64()).unwrap_or(0);
    let policy = class.and_then(|class| class["preemptionPolicy"].as_str()).unwrap_or("PreemptLowerPriority");
    let spec = &pod["spec"];
    if let Some(own) = spec["priority"].as_i64().filter(|own| *own != priority) {
        let why = format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden(kind, pod, why));
    }
    if let Some(own) = spec["preemptionPolicy"].as_str().filter(|own| *own != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(kind, pod, why));
    }
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = class["metadata"]["name"].clone();
    }
    pod["spec"]["priority"] = json!(priority);
    pod["spec"]["preemptionPolicy"] = json!(policy);
    Ok(())
}

/// `DefaultTolerationSeconds`: a pod stays for a while on a node that is not ready or cannot be reached.
pub(super) fn tolerate_failing_nodes(pod: &mut Value) {
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let before = tolerations.len();
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let text = |toleration: &Value, key: &str| toleration[key].as_str().unwrap_or_default().to_owned();
        let tolerated = tolerations[..before].iter().any(|toleration| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key.is_empty() || key == taint) && (effect.is_empty() || effect == "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS
            }));
        }
    }
    if tolerations.len() > before {
        pod["spec"]["tolerations"] = json!(tolerations);
    }
}

/// `RuntimeClass`: the overhead and the nodes of a pod's runtime.
pub(super) fn apply_runtime_class(cluster: &Arc<Cluster>, kind: &Kind, pod: &mut Value) -> Result<(), StatusError> {
    let overhead = pod["spec"].get("overhead").filter(|overhead| !overhead.is_null());
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else {
        return match overhead {
            Some(_) => {
                let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                Err(forbidden(kind, pod, why))
            }
            None => Ok(()),
        };
    };
    let classes = cluster.objects("node.k8s.io", "runtimeclasses");
    let Some(class) = classes.iter().find(|class| meta::text(class, "name") == name) else {
        return Err(forbidden(kind, pod, format!("pod rejected: RuntimeClass {name:?} not found")));
    };
    let defined = class["overhead"].get("podFixed");
    if overhead.is_some() && overhead != defined {
        let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        return Err(forbidden(kind, pod, why));
    }
    for (key, value) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        if let Some(own) = pod["spec"]["nodeSelector"].get(key).filter(|own| *own != value) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(own)
            );
            return Err(forbidden(kind, pod, why));
        }
    }
    if let Some(defined) = defined {
        pod["spec"]["overhead"] = defined.clone();
    }
    for (key, value) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        pod["spec"]["nodeSelector"][key] = value.clone();
    }
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    for toleration in class["scheduling"]["tolerations"].as_array().into_iter().flatten() {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    if !tolerations.is_empty() {
        pod["spec"]["tolerations"] = json!(tolerations);
    }
    Ok(())
}
