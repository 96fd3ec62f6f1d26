//! The status of a Deployment.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::rollout::Bounds;
use super::sets::{self, Sets};
use crate::pods::nonzero;
use crate::versions::{Field, given};
use kooper_runtime::internal::clock;

/// The reason of a rollout that has ended.
const DONE: &str = "NewReplicaSetAvailable";

/// The status, and when the rollout exceeds its deadline.
pub(super) fn status(deployment: &Deployment, sets: &Sets) -> (DeploymentStatus, Option<Duration>) {
    let now = clock::wall();
    let before = deployment.status.clone().unwrap_or_default();
    let sum = |of: fn(&ReplicaSet) -> i32| sets.all().map(|set| of(set)).sum::<i32>();
    let available = sum(|set| sets::size(set).available);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: nonzero(sum(|set| sets::size(set).status)),
        updated_replicas: sets.new.as_ref().and_then(|set| nonzero(sets::size(set).status)),
        ready_replicas: nonzero(sum(|set| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0))),
        available_replicas: nonzero(available),
        unavailable_replicas: nonzero((sum(|set| sets::size(set).spec) - available).max(0)),
        terminating_replicas: Some(sum(|set| {
            set.status.as_ref().and_then(|status| status.terminating_replicas).unwrap_or(0)
        })),
        collision_count: before.collision_count,
        conditions: None,
    };
    let spec = deployment.spec.field().cloned().unwrap_or_default();
    let enough = available >= spec.replicas.unwrap_or(1) - Bounds::of(&spec).unavailable;
    let mut conditions = vec![if enough {
        condition("Available", true, "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
    } else {
        let message = "Deployment does not have minimum availability.";
        condition("Available", false, "MinimumReplicasUnavailable", message, now)
    }];
    let (progress, wait) = progress(deployment, &before, &status, sets, now);
    conditions.extend(progress);
    let failures = sets.all().filter_map(|set| {
        let conditions = set.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| is(&condition.type_, "ReplicaFailure")).cloned()
    });
    conditions.extend(failures.take(1).map(|failure| {
        let (reason, message) = (failure.reason.unwrap_or_default(), failure.message.unwrap_or_default());
        condition("ReplicaFailure", is(&failure.status, "True"), &reason, &message, now)
    }));
    // The time of the last update stays where nothing else is new.
    for condition in &mut conditions {
        let same = |one: &&DeploymentCondition| {
            (&one.type_, &one.status, &one.reason, &one.message)
                == (&condition.type_, &condition.status, &condition.reason, &condition.message)
        };
        let refreshed = condition.reason.as_deref() == Some("ReplicaSetUpdated") && has_moved(&before, &status);
        if let Some(known) = before.conditions.iter().flatten().find(same).filter(|_| !refreshed) {
            *condition = known.clone();
        }
    }
    status.conditions = Some(conditions);
    (status, wait)
}

/// Returns `true` if all pods have the present template and are available.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = nonzero(deployment.spec.field().and_then(|spec| spec.replicas).unwrap_or(1));
    (status.updated_replicas, status.replicas, status.available_replicas) == (desired, desired, desired)
}

/// The condition `Progressing`, and when the deadline is exceeded.
fn progress(
    deployment: &Deployment,
    before: &DeploymentStatus,
    status: &DeploymentStatus,
    sets: &Sets,
    now: Timestamp,
) -> (Option<DeploymentCondition>, Option<Duration>) {
    let spec = deployment.spec.field().cloned().unwrap_or_default();
    let known = before.conditions.iter().flatten().find(|one| is(&one.type_, "Progressing")).cloned();
    let Some(deadline) = spec.progress_deadline_seconds.filter(|deadline| *deadline < i32::MAX) else {
        return (None, None);
    };
    let reason = known.as_ref().and_then(|known| known.reason.clone()).unwrap_or_default();
    if spec.paused == Some(true) {
        let paused = condition_of_unknown("DeploymentPaused", "Deployment is paused", now);
        return (
            Some(if reason == "DeploymentPaused" || reason == "ProgressDeadlineExceeded" {
                known.unwrap_or(paused)
            } else {
                paused
            }),
            None,
        );
    }
    if reason == DONE && status.replicas == status.updated_replicas {
        return (known, None);
    }
    let named = |what: &str| match &sets.new {
        Some(set) => format!("ReplicaSet \"{}\" {what}", set.metadata.name.as_deref().unwrap_or_default()),
        None => format!("Deployment \"{}\" {what}", deployment.metadata.name.as_deref().unwrap_or_default()),
    };
    if is_complete(deployment, status) {
        return (Some(condition("Progressing", true, DONE, &named("has successfully progressed."), now)), None);
    }
    let moves = condition("Progressing", true, "ReplicaSetUpdated", &named("is progressing."), now);
    let Some(known) = known.filter(|_| reason != DONE && reason != "DeploymentPaused") else {
        return (Some(moves), Some(seconds(deadline)));
    };
    if has_moved(before, status) {
        return (Some(moves), Some(seconds(deadline)));
    }
    let since = known.last_update_time.as_ref().map_or(now, |time| time.0);
    let spent = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    match seconds(deadline).checked_sub(spent).filter(|left| !left.is_zero()) {
        Some(left) => (Some(known), Some(left)),
        None if reason == "ProgressDeadlineExceeded" => (Some(known), None),
        None => {
            let message = named("has timed out progressing.");
            (Some(condition("Progressing", false, "ProgressDeadlineExceeded", &message, now)), None)
        }
    }
}

/// Returns `true` if a rollout has progressed.
fn has_moved(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

fn is(field: &impl Field<String>, value: &str) -> bool {
    field.field().is_some_and(|field| field == value)
}

fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or_default())
}

fn condition(kind: &str, holds: bool, reason: &str, message: &str, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: given(kind.to_owned()),
        status: given(if holds { "True" } else { "False" }.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

fn condition_of_unknown(reason: &str, message: &str, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition { status: given("Unknown".to_owned()), ..condition("Progressing", true, reason, message, now) }
}
