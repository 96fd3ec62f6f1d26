//! The status of a pod at each step of its life.

use std::sync::atomic::{AtomicU16, Ordering};

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus, Pod, PodCondition,
    PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::node;
use crate::typed;
use kooper_runtime::Result;

/// The conditions of a pod that runs; `PodScheduled` is that of the scheduler.
const RUNNING: [&str; 4] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"];

/// The status while containers are being created.
pub(super) fn prepared(pod: &Pod, now: Timestamp) -> Result<PodStatus> {
    let spec = pod.spec.clone().unwrap_or_default();
    let waiting = |container: &Container| {
        json!({
            "name": container.name, "image": container.image, "imageID": "", "ready": false, "started": false,
            "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}
        })
    };
    let names: Vec<_> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    let why = json!({"reason": "ContainersNotReady", "message": format!("containers with unready status: [{}]", names.join(" "))});
    let condition = |kind: &str| match kind {
        "Initialized" => json!({"type": kind, "status": "True", "lastTransitionTime": time(now)}),
        "PodReadyToStartContainers" => json!({"type": kind, "status": "False", "lastTransitionTime": time(now)}),
        _ => json!({
            "type": kind, "status": "False", "lastTransitionTime": time(now),
            "reason": why["reason"], "message": why["message"]
        }),
    };
    Ok(typed(&json!({
        "phase": "Pending", "startTime": time(now), "hostIP": node::IP, "hostIPs": [{"ip": node::IP}],
        "conditions": RUNNING.map(condition),
        "containerStatuses": spec.containers.iter().map(waiting).collect::<Vec<_>>()
    }))?)
}

/// The status while something that the containers need is missing.
pub(super) fn held_back(pod: &Pod, before: &PodStatus, why: &str, now: Timestamp) -> Result<PodStatus> {
    let start = before.start_time.as_ref().map_or(now, |start| start.0);
    let mut status = prepared(pod, start)?;
    let waiting = status.container_statuses.iter_mut().flatten().filter_map(|one| one.state.as_mut()?.waiting.as_mut());
    for waiting in waiting {
        waiting.reason = Some("CreateContainerConfigError".to_owned());
        waiting.message = Some(why.to_owned());
    }
    Ok(status)
}

/// The message of a container that waits, such as for a Secret that does not exist.
pub(super) fn held_back_by(status: &PodStatus) -> Option<&str> {
    let mut containers = status.container_statuses.iter().flatten();
    containers.find_map(|one| one.state.as_ref()?.waiting.as_ref()?.message.as_deref())
}

/// The status of a pod that runs, with the next free address.
pub(super) fn running(pod: &Pod, before: &PodStatus, now: Timestamp) -> Result<PodStatus> {
    let spec = pod.spec.clone().unwrap_or_default();
    let ip = if spec.host_network == Some(true) { node::IP.to_owned() } else { address() };
    let start = before.start_time.as_ref().map_or(now, |start| start.0);
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let of = |container: &Container, state: Value, started: bool| {
        json!({
            "name": container.name, "image": container.image, "imageID": container.image,
            "containerID": format!("simulated://{uid}-{}", container.name), "ready": true, "started": started,
            "restartCount": 0, "state": state, "lastState": {}
        })
    };
    let runs = |container: &Container| of(container, json!({"running": {"startedAt": time(now)}}), true);
    // One that is restarted runs beside the others.
    let initial = |container: &Container| match container.restart_policy.as_deref() {
        Some("Always") => runs(container),
        _ => {
            let ended = json!({"terminated": {
                "exitCode": 0, "reason": "Completed", "startedAt": time(now), "finishedAt": time(now)
            }});
            of(container, ended, false)
        }
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time(now)});
    let mut initials = spec.init_containers.iter().flatten().map(initial).peekable();
    let mut value = json!({
        "phase": "Running", "startTime": time(start), "hostIP": node::IP, "hostIPs": [{"ip": node::IP}],
        "podIP": ip, "podIPs": [{"ip": ip}], "conditions": RUNNING.map(condition),
        "containerStatuses": spec.containers.iter().map(runs).collect::<Vec<_>>()
    });
    if initials.peek().is_some() {
        value["initContainerStatuses"] = initials.collect();
    }
    let status: PodStatus = typed(&value)?;
    Ok(if gates_differ(pod, &status) { with_gates(&status, pod, now) } else { status })
}

/// The status after the containers have ended.
pub(super) fn ended(before: &PodStatus, succeeded: bool, now: Timestamp) -> PodStatus {
    let mut status = before.clone();
    status.phase = Some(if succeeded { "Succeeded" } else { "Failed" }.to_owned());
    // Initial containers have ended before, unless they run beside the others.
    let beside = status.init_container_statuses.iter_mut().flatten().filter(|one| is_running(one));
    for container in status.container_statuses.iter_mut().flatten().chain(beside) {
        end(container, succeeded, now);
    }
    for condition in status.conditions.iter_mut().flatten() {
        if matches!(condition.type_.as_str(), "Ready" | "ContainersReady" | "PodReadyToStartContainers") {
            let why = if succeeded { "PodCompleted" } else { "PodFailed" };
            set(condition, false, Some(why).filter(|_| condition.type_ != "PodReadyToStartContainers"), now);
        } else if condition.type_ == "Initialized" && succeeded {
            condition.reason = Some("PodCompleted".to_owned());
        }
    }
    own(status)
}

fn is_running(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn end(container: &mut ContainerStatus, succeeded: bool, now: Timestamp) {
    let started_at = container.state.as_ref().and_then(|state| state.running.as_ref()?.started_at.clone());
    (container.ready, container.started) = (false, Some(false));
    container.state = Some(ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: container.container_id.clone(),
            // Ended by SIGTERM.
            exit_code: if succeeded { 0 } else { 143 },
            reason: Some(if succeeded { "Completed" } else { "Error" }.to_owned()),
            started_at,
            finished_at: Some(Time(now)),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    });
}

/// Returns `true` if the readiness gates call for another `Ready` than the pod has.
pub(super) fn gates_differ(pod: &Pod, status: &PodStatus) -> bool {
    let Some(open) = gates_open(pod.spec.as_ref(), pod.status.as_ref()) else { return false };
    holds(status, "ContainersReady") && holds(status, "Ready") != open
}

/// Returns whether all readiness gates are met, or `None` if there are none.
fn gates_open(spec: Option<&PodSpec>, status: Option<&PodStatus>) -> Option<bool> {
    let gates = spec?.readiness_gates.as_ref().filter(|gates| !gates.is_empty())?;
    Some(gates.iter().all(|gate| status.is_some_and(|status| holds(status, &gate.condition_type))))
}

fn holds(status: &PodStatus, condition: &str) -> bool {
    status.conditions.iter().flatten().any(|one| one.type_ == condition && one.status == "True")
}

/// The status with the `Ready` that the readiness gates call for.
pub(super) fn with_gates(before: &PodStatus, pod: &Pod, now: Timestamp) -> PodStatus {
    let open = gates_open(pod.spec.as_ref(), pod.status.as_ref()).unwrap_or(true);
    let mut status = before.clone();
    for condition in status.conditions.iter_mut().flatten().filter(|condition| condition.type_ == "Ready") {
        set(condition, open, (!open).then_some("ReadinessGatesNotReady"), now);
    }
    own(status)
}

/// Since when the containers run.
pub(super) fn running_since(status: &PodStatus) -> Option<&Time> {
    let states = status.container_statuses.iter().flatten().filter_map(|container| container.state.as_ref());
    states
        .filter_map(|state| state.running.as_ref())
        .filter_map(|ContainerStateRunning { started_at }| started_at.as_ref())
        .max()
}

fn set(condition: &mut PodCondition, holds: bool, reason: Option<&str>, now: Timestamp) {
    condition.status = if holds { "True" } else { "False" }.to_owned();
    condition.reason = reason.map(ToOwned::to_owned);
    condition.message = None;
    condition.last_transition_time = Some(Time(now));
}

/// Only the fields that the kubelet writes: the others belong to the clients that wrote them.
fn own(mut status: PodStatus) -> PodStatus {
    status.qos_class = None;
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| RUNNING.contains(&condition.type_.as_str()));
    }
    status
}

/// An address that no other pod of this process has, until some sixty thousand later.
fn address() -> String {
    static LAST: AtomicU16 = AtomicU16::new(1);
    let [high, low] = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).to_be_bytes();
    format!("10.244.{high}.{low}")
}

/// The API's format, in seconds.
fn time(time: Timestamp) -> Value {
    serde_json::to_value(Time(time)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_runs_beside_the_others_ends_with_them() {
        let container = |name: &str| json!({"name": name, "image": "web:1"});
        let mut beside = container("proxy");
        beside["restartPolicy"] = json!("Always");
        let spec = json!({"initContainers": [container("setup"), beside], "containers": [container("main")]});
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "task"}, "spec": spec})).unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let running = running(&pod, &PodStatus::default(), now).unwrap();
        let later = "2026-01-01T00:00:10Z".parse().unwrap();
        let ended = json!(ended(&running, true, later));
        let end = |list: &str, index: usize| &ended[list][index]["state"]["terminated"]["finishedAt"];
        assert_eq!(end("initContainerStatuses", 0), "2026-01-01T00:00:00Z");
        assert_eq!(end("initContainerStatuses", 1), "2026-01-01T00:00:10Z");
        assert_eq!(end("containerStatuses", 0), "2026-01-01T00:00:10Z");
        assert_eq!(ended["initContainerStatuses"][1]["ready"], false);
    }
}
