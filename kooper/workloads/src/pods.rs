//! Pods of workloads: made from a template, and how far they are.

use std::cmp::Reverse;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// The annotation that orders pods for deletion.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod of a template whose name begins like that of its owner.
pub(super) fn of_template(template: &PodTemplateSpec, owner: &ObjectMeta) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", owner.name.as_deref().unwrap_or_default())),
        namespace: owner.namespace.clone(),
        labels: meta.labels,
        annotations: meta.annotations,
        finalizers: meta.finalizers,
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec.clone(), status: None }
}

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Returns `true` if the containers have terminated for good.
pub(super) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns `true` if the pod counts as a replica: it has not terminated, and is not being
/// deleted.
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Since when it is ready; `None` if it is not.
fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// Returns the time until a pod is available, which is zero if it already is, or `None`
/// if it is not ready.
pub(super) fn available_in(pod: &Pod, min_ready_seconds: Option<i32>, now: Timestamp) -> Option<Duration> {
    let since = ready_since(pod)?;
    let needed = i64::from(min_ready_seconds.unwrap_or_default());
    let left = needed.saturating_sub(now.duration_since(since).as_secs()).max(0);
    Some(Duration::from_secs(left.unsigned_abs()))
}

/// Orders pods for a scale-down: the first ones are deleted first.
pub(super) fn sort_for_deletion<P: AsRef<Pod>>(pods: &mut [P]) {
    pods.sort_by_cached_key(|pod| {
        let pod = pod.as_ref();
        let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let phase = match phase(pod) {
            "Pending" | "" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let annotations = pod.metadata.annotations.as_ref();
        let cost = annotations.and_then(|all| all.get(DELETION_COST)?.parse::<i32>().ok()).unwrap_or_default();
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        // The newest is deleted first.
        (bound, phase, is_ready(pod), cost, Reverse(ready_since(pod)), Reverse(created))
    });
}

/// The hash of a template, as it is part of names.
pub(super) fn hash(template: &Value, collisions: Option<i32>) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = format!("{template}{}", collisions.map(|count| count.to_string()).unwrap_or_default());
    // FNV-1a.
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// A count as the API writes it: zero is left out.
pub(super) fn count(number: usize) -> Option<i32> {
    nonzero(i32::try_from(number).unwrap_or(i32::MAX))
}

/// A number as the API writes it: zero is left out.
pub(super) fn nonzero(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: bool, node: Option<&str>) -> Arc<Pod> {
        let conditions = if ready {
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}])
        } else {
            json!([])
        };
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [], "nodeName": node},
            "status": {"phase": if ready { "Running" } else { "Pending" }, "conditions": conditions}
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn pods_that_serve_least_are_deleted_first() {
        let mut pods = [pod("ready", true, Some("a")), pod("waits", false, Some("a")), pod("unbound", false, None)];
        sort_for_deletion(&mut pods);
        let names: Vec<_> = pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
        assert_eq!(names, ["unbound", "waits", "ready"]);
    }

    #[test]
    fn a_pod_is_available_after_it_was_ready_for_some_time() {
        let now = |seconds: i64| Timestamp::from_second(1_767_225_600 + seconds).unwrap();
        let ready = pod("ready", true, Some("a"));
        assert_eq!(available_in(&ready, None, now(10)), Some(Duration::ZERO));
        assert_eq!(available_in(&ready, Some(30), now(15)), Some(Duration::from_secs(25)));
        assert_eq!(available_in(&ready, Some(30), now(40)), Some(Duration::ZERO));
        assert_eq!(available_in(&pod("waits", false, Some("a")), None, now(10)), None);
    }

    #[test]
    fn a_hash_is_a_part_of_a_name() {
        let hash_of = |collisions| hash(&json!({"a": 1}), collisions);
        assert_eq!(hash_of(None), hash_of(None));
        assert_ne!(hash_of(None), hash_of(Some(1)));
        assert!(hash_of(None).chars().all(|c| c.is_ascii_alphanumeric()));
    }
}
