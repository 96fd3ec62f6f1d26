//! ReplicaSets: keeps the number of pods.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::children::{self, adopters, claim};
use super::pods::{self, available_in, count, is_active, is_ready, is_terminal};
use super::versions::{Field as _, given};
use kooper_access::KindExt as _;
use kooper_access::capability::owned_by;
use kooper_access::{AccessError, ConfigError, Controller, Creator, Deleter, Patcher, Reader, StatusWriter};
use kooper_runtime::internal::clock;
use kooper_runtime::{Action, Result};

/// The most pods that one call creates or deletes.
const BURST: usize = 500;

/// The condition of a set whose pods cannot be created or deleted.
const FAILURE: &str = "ReplicaFailure";

pub(super) fn controller() -> Result<Controller, ConfigError> {
    ReplicaSet::controller("replica-sets")
        .resync(None)
        .owns(Pod::all())
        .watches::<Pod, _, _>(adopters::<ReplicaSet, Pod>)
        .while_deleting()
        .handler(reconcile)
        .build()
}

async fn reconcile(
    set: Arc<ReplicaSet>,
    reader: Reader<Pod>,
    creator: Creator<Pod>,
    patcher: Patcher<Pod>,
    deleter: Deleter<Pod>,
    statuses: StatusWriter<ReplicaSet>,
) -> Result<Action> {
    let Some(spec) = set.spec.field() else { return Ok(Action::done()) };
    let all = claim(&set, &reader, &patcher).await?;
    let terminating = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some() && !is_terminal(pod)).count();
    let mut active: Vec<_> = all.into_iter().filter(|pod| is_active(pod)).collect();
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
    let mut failure = None;
    if set.metadata.deletion_timestamp.is_none() && active.len() != wanted {
        let scaled = match active.len() < wanted {
            true => create(&set, wanted - active.len(), &creator).await.map_err(|error| ("FailedCreate", error)),
            false => {
                pods::sort_for_deletion(&mut active);
                delete(&active[..active.len() - wanted], &deleter).await.map_err(|error| ("FailedDelete", error))
            }
        };
        match scaled {
            // The events of these writes call the handler again, with the new pods.
            Ok(()) => return Ok(Action::done()),
            Err(failed) => failure = Some(failed),
        }
    }
    let (status, wait) = status(&set, &active, terminating, failure.as_ref());
    children::unless_gone(statuses.apply_status(&set, &status).await)?;
    match (failure, wait) {
        (Some((_, error)), _) if error.is_namespace_terminating() => Ok(Action::done()),
        (Some((_, error)), _) => Err(error.into()),
        (None, Some(wait)) => Ok(Action::requeue_after(wait)),
        (None, None) => Ok(Action::done()),
    }
}

async fn create(set: &Arc<ReplicaSet>, missing: usize, creator: &Creator<Pod>) -> Result<(), AccessError> {
    let template = set.spec.field().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let pod = owned_by(set, pods::of_template(&template, &set.metadata))?;
    for _ in 0..missing.min(BURST) {
        creator.create(&pod).await?;
    }
    Ok(())
}

async fn delete(pods: &[Arc<Pod>], deleter: &Deleter<Pod>) -> Result<(), AccessError> {
    for pod in pods.iter().take(BURST) {
        deleter.delete_object(pod).await?;
    }
    Ok(())
}

/// The status, and when it has to be computed again because pods become available.
fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    terminating: usize,
    failure: Option<&(&str, AccessError)>,
) -> (ReplicaSetStatus, Option<Duration>) {
    let spec = set.spec.field().cloned().unwrap_or_default();
    let now = clock::wall();
    let labels = spec.template.and_then(|template| template.metadata?.labels).unwrap_or_default();
    let labelled = active.iter().filter(|pod| {
        let own = pod.metadata.labels.as_ref();
        labels.iter().all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
    });
    let left: Vec<_> = active.iter().filter_map(|pod| available_in(pod, spec.min_ready_seconds, now)).collect();
    let wait = left.iter().filter(|left| !left.is_zero()).min().copied();
    let mut known = set.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let known = known.find(|one| one.type_.field().is_some_and(|kind| kind == FAILURE));
    // Each error names another pod: the first one stays, as with kube-controller-manager.
    let condition = failure.map(|(reason, error)| {
        known.cloned().unwrap_or_else(|| ReplicaSetCondition {
            type_: given(FAILURE.to_owned()),
            status: given("True".to_owned()),
            reason: Some((*reason).to_owned()),
            message: error.status().map(|status| status.message.clone()),
            last_transition_time: Some(Time(now)),
        })
    });
    let status = ReplicaSetStatus {
        replicas: count(active.len()).unwrap_or_default(),
        fully_labeled_replicas: count(labelled.count()),
        ready_replicas: count(active.iter().filter(|pod| is_ready(pod)).count()),
        available_replicas: count(left.iter().filter(|left| left.is_zero()).count()),
        terminating_replicas: Some(count(terminating).unwrap_or_default()),
        observed_generation: set.metadata.generation,
        conditions: condition.map(|condition| vec![condition]),
    };
    (status, wait)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ResourceQuota;
    use kooper_apiserver::ApiServer;
    use kube::api::{Api, PostParams};
    use serde_json::json;

    use super::*;
    use crate::Simulation;

    #[tokio::test(start_paused = true)]
    async fn a_set_that_fails_again_and_again_shows_the_first_failure() {
        let server = ApiServer::start().await.unwrap();
        let simulation = Simulation::visible(&server);
        let quotas = Api::<ResourceQuota>::default_namespaced(server.client());
        let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
        quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
        let sets = Api::<ReplicaSet>::default_namespaced(server.client());
        let (labels, container) = (json!({"app": "web"}), json!({"name": "main", "image": "web:1"}));
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
        let spec = json!({"selector": {"matchLabels": labels}, "template": template});
        let set = json!({"metadata": {"name": "web"}, "spec": spec});
        sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let first = sets.get("web").await.unwrap();
        let conditions = first.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        assert_eq!(conditions.len(), 1, "{first:?}");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(sets.get("web").await.unwrap(), first);
        simulation.stop().await;
    }
}
