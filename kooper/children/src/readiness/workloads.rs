//! Deployments, StatefulSets and DaemonSets.

use serde_json::Value;

use super::{Readiness, condition, explained, is_true, unobserved};

pub(super) fn deployment(object: &Value) -> Readiness {
    if let Some(waiting) = unobserved(object) {
        return waiting;
    }
    let progress = condition(object, "Progressing");
    if progress.is_some_and(|progress| progress["reason"] == "ProgressDeadlineExceeded") {
        return Readiness::Failed(explained(object, "Progressing"));
    }
    let replicas = replicas(object);
    // The old pods of a rollout are counted in `replicas` until they are gone.
    for field in ["updatedReplicas", "readyReplicas", "availableReplicas", "replicas"] {
        let now = status(object, field);
        if now != replicas {
            return Readiness::Waiting(counted(field, now, replicas));
        }
    }
    Readiness::ready_if(is_true(object, "Available"), || explained(object, "Available"))
}

pub(super) fn stateful_set(object: &Value) -> Readiness {
    if let Some(waiting) = unobserved(object) {
        return waiting;
    }
    let replicas = replicas(object);
    for field in ["readyReplicas", "replicas"] {
        let now = status(object, field);
        if now != replicas {
            return Readiness::Waiting(counted(field, now, replicas));
        }
    }
    let partition = object["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or_default();
    let to_update = (replicas - partition).max(0);
    let updated = status(object, "updatedReplicas");
    if partition > 0 {
        return Readiness::ready_if(updated >= to_update, || counted("updatedReplicas", updated, to_update));
    }
    // With `OnDelete` its controller replaces no pod, so that the revisions stay different.
    if object["spec"]["updateStrategy"]["type"] == "OnDelete" {
        return Readiness::Ready;
    }
    let is_current = object["status"]["currentRevision"] == object["status"]["updateRevision"];
    Readiness::ready_if(is_current, || counted("updatedReplicas", updated, to_update))
}

pub(super) fn daemon_set(object: &Value) -> Readiness {
    if let Some(waiting) = unobserved(object) {
        return waiting;
    }
    let desired = status(object, "desiredNumberScheduled");
    let fields = match object["spec"]["updateStrategy"]["type"] == "OnDelete" {
        true => &["numberAvailable"][..],
        false => &["updatedNumberScheduled", "numberAvailable"][..],
    };
    let lagging = fields.iter().map(|field| (field, status(object, field))).find(|(_, now)| *now < desired);
    match lagging {
        Some((field, now)) => Readiness::Waiting(counted(field, now, desired)),
        None => Readiness::Ready,
    }
}

fn replicas(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

fn status(object: &Value, field: &str) -> i64 {
    object["status"][field].as_i64().unwrap_or_default()
}

fn counted(field: &str, now: i64, wanted: i64) -> String {
    match field {
        "replicas" if now > wanted => format!("{} old replicas are left", now - wanted),
        "replicas" => format!("{now} of {wanted} exist"),
        "updatedReplicas" | "updatedNumberScheduled" => format!("{now} of {wanted} are updated"),
        "readyReplicas" => format!("{now} of {wanted} are ready"),
        _ => format!("{now} of {wanted} are available"),
    }
}
