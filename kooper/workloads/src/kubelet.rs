//! The kubelet, without containers: pods start, complete and stop by the clock.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Container, Event, PersistentVolumeClaim, Pod, PodStatus, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};

use self::needs::Stock;
use super::children::{controller_of, key_of, unless_gone};
use super::pods::{is_terminal, phase};
use super::{PodTimings, node, notes};
use kooper_access::KindExt as _;
use kooper_access::{ConfigError, Controller, Creator, Deleter, Getter, State, StatusWriter};
use kooper_runtime::internal::clock;
use kooper_runtime::{Action, Result};

mod needs;
mod status;

/// The shortest and the longest time between two looks for what a pod waits for. It is a tenth of the time that the pod has
/// waited.
const LOOKS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

pub(super) fn controller(pace: PodTimings) -> Result<Controller, ConfigError> {
    Pod::controller("kubelet").resync(None).while_deleting().when(is_bound).state(pace).handler(reconcile).build()
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

#[expect(clippy::too_many_arguments, reason = "each grants one verb")]
async fn reconcile(
    pod: Arc<Pod>,
    pace: State<PodTimings>,
    statuses: StatusWriter<Pod>,
    deleter: Deleter<Pod>,
    events: Creator<Event>,
    configs: Getter<ConfigMap>,
    secrets: Getter<Secret>,
    claims: Getter<PersistentVolumeClaim>,
) -> Result<Action> {
    let now = clock::wall();
    if pod.metadata.deletion_timestamp.is_some() {
        return stop(&pod, *pace, now, &statuses, &deleter, &events).await;
    }
    let before = pod.status.clone().unwrap_or_default();
    let step = next(&pod, &before, *pace, now);
    if step == Next::Run
        && let Some(why) = (Stock { configs, secrets, claims }).why_not(&pod).await?
    {
        if status::held_back_by(&before) != Some(why.as_str()) {
            unless_gone(statuses.apply_status(&pod, &status::held_back(&pod, &before, &why, now)?).await)?;
        }
        let waited = before.start_time.as_ref().map_or(Duration::ZERO, |start| since(now, start.0));
        return Ok(Action::requeue_after((waited / 10).clamp(LOOKS[0], LOOKS[1])));
    }
    let (status, wait) = match step {
        Next::Nothing => return Ok(Action::done()),
        Next::Wait(left) => return Ok(Action::requeue_after(left)),
        Next::Prepare => (status::prepared(&pod, now)?, Some(pace.start)),
        Next::Run => (status::running(&pod, &before, now)?, None),
        Next::Gates => (status::with_gates(&before, &pod, now), None),
        Next::Complete => (status::ended(&before, true, now), None),
    };
    let written = unless_gone(statuses.apply_status(&pod, &status).await)?;
    if pace.events && step == Next::Run && written.is_some() {
        for container in containers(&pod) {
            let image = container.image.as_deref().unwrap_or_default();
            let pulled = format!("Container image {image:?} already present on machine");
            notes::of_kubelet(&events, &pod, &container.name, "Pulled", pulled).await;
            notes::of_kubelet(&events, &pod, &container.name, "Created", "Container created".to_owned()).await;
            notes::of_kubelet(&events, &pod, &container.name, "Started", "Container started".to_owned()).await;
        }
    }
    Ok(wait.map_or(Action::done(), Action::requeue_after))
}

/// The containers in the order in which they start.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

fn since(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// The next step of a pod.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Wait(Duration),
    /// Its containers are being created.
    Prepare,
    Run,
    /// Its readiness gates have changed.
    Gates,
    Complete,
}

fn next(pod: &Pod, status: &PodStatus, pace: PodTimings, now: Timestamp) -> Next {
    if is_terminal(pod) {
        return Next::Nothing;
    }
    let since = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        since(now, time.map_or(Timestamp::UNIX_EPOCH, |time| time.0))
    };
    if status.pod_ip.is_none() {
        return match status.start_time.as_ref() {
            None if pace.start.is_zero() => Next::Run,
            None => Next::Prepare,
            start => match pace.start.saturating_sub(since(start)) {
                Duration::ZERO => Next::Run,
                left => Next::Wait(left),
            },
        };
    }
    if status::gates_differ(pod, status) {
        return Next::Gates;
    }
    // A pod that another client has changed is its own.
    if phase(pod) != "Running" || controller_of(&pod.metadata).is_none_or(|owner| owner.kind != "Job") {
        return Next::Nothing;
    }
    match pace.complete.saturating_sub(since(status::running_since(status))) {
        Duration::ZERO => Next::Complete,
        left => Next::Wait(left),
    }
}

/// Stops the containers, and removes the pod when they have ended.
async fn stop(
    pod: &Arc<Pod>,
    pace: PodTimings,
    now: Timestamp,
    statuses: &StatusWriter<Pod>,
    deleter: &Deleter<Pod>,
    events: &Creator<Event>,
) -> Result<Action> {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default().max(0);
    let grace = Duration::from_secs(grace.unsigned_abs());
    if !is_terminal(pod) {
        let end = pod.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
        let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
        let left = left.saturating_sub(grace.saturating_sub(pace.stop));
        if !left.is_zero() {
            return Ok(Action::requeue_after(left));
        }
        if pace.events && phase(pod) == "Running" {
            for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
                let stopping = format!("Stopping container {}", container.name);
                notes::of_kubelet(events, pod, &container.name, "Killing", stopping).await;
            }
        }
        if pod.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty()) {
            // The holders of the finalizers see how the pod ended.
            let ended = status::ended(&pod.status.clone().unwrap_or_default(), false, now);
            unless_gone(statuses.apply_status(pod, &ended).await)?;
        }
    }
    if !grace.is_zero() {
        // Only this pod, not a successor.
        let this = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let now = DeleteParams::default().grace_period(0).preconditions(this);
        deleter.delete_with(&key_of(&pod.metadata), now).await?;
    }
    Ok(Action::done())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SLOW: PodTimings =
        PodTimings { start: Duration::from_secs(2), complete: Duration::from_secs(3), ..PodTimings::VISIBLE };

    fn next_of(status: &Value, owner: &str, pace: PodTimings) -> Next {
        let pod = json!({
            "metadata": {"name": "a", "ownerReferences": [
                {"apiVersion": "v1", "kind": owner, "name": "o", "uid": "1", "controller": true}
            ]},
            "spec": {"containers": [{"name": "main", "image": "web"}], "nodeName": "node-1"},
            "status": status
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let now = "2026-01-01T00:00:10Z".parse().unwrap();
        next(&pod, pod.status.as_ref().unwrap(), pace, now)
    }

    #[test]
    fn a_pod_starts_after_a_moment() {
        let pending = json!({"phase": "Pending"});
        assert_eq!(next_of(&pending, "ReplicaSet", PodTimings::default()), Next::Run);
        assert_eq!(next_of(&pending, "ReplicaSet", SLOW), Next::Prepare);
        let prepared = json!({"phase": "Pending", "startTime": "2026-01-01T00:00:09Z"});
        assert_eq!(next_of(&prepared, "ReplicaSet", SLOW), Next::Wait(Duration::from_secs(1)));
        let prepared = json!({"phase": "Pending", "startTime": "2026-01-01T00:00:08Z"});
        assert_eq!(next_of(&prepared, "ReplicaSet", SLOW), Next::Run);
    }

    #[test]
    fn only_pods_of_jobs_complete() {
        let running = |since: &str| {
            json!({
                "phase": "Running", "podIP": "10.244.0.2", "startTime": "2026-01-01T00:00:00Z",
                "containerStatuses": [{
                    "name": "main", "image": "web", "imageID": "web", "ready": true, "restartCount": 0,
                    "state": {"running": {"startedAt": since}}
                }]
            })
        };
        assert_eq!(next_of(&running("2026-01-01T00:00:00Z"), "ReplicaSet", SLOW), Next::Nothing);
        assert_eq!(next_of(&running("2026-01-01T00:00:00Z"), "Job", SLOW), Next::Complete);
        assert_eq!(next_of(&running("2026-01-01T00:00:09Z"), "Job", SLOW), Next::Wait(Duration::from_secs(2)));
        let failed = json!({"phase": "Failed", "podIP": "10.244.0.2"});
        assert_eq!(next_of(&failed, "Job", SLOW), Next::Nothing);
    }
}
