//! Deployments: a ReplicaSet for each template, and the way from one to the next.

mod rollout;
mod sets;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

pub(super) use self::rollout::part;
use self::rollout::{Bounds, Size};
use super::children::{adopters, claim, controlled, controller_of, unless_gone};
use super::pods::is_terminal;
use super::versions::Field as _;
use kooper_access::KindExt as _;
use kooper_access::capability::PatchBody;
use kooper_access::{ConfigError, Controller, Creator, Deleter, Patcher, Reader, StatusWriter};
use kooper_runtime::{Action, ObjectKey, Result};

/// The number of a Deployment's template, on it and on its ReplicaSets.
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers that a ReplicaSet had before it was rolled back to.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The sizes for which a ReplicaSet was scaled.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
/// The label that tells the pods of ReplicaSets apart.
const HASH: &str = "pod-template-hash";

pub(super) fn controller() -> Result<Controller, ConfigError> {
    Deployment::controller("deployments")
        .resync(None)
        .owns(ReplicaSet::all())
        .watches::<ReplicaSet, _, _>(adopters::<Deployment, ReplicaSet>)
        .watches::<Pod, _, _>(of_leaving)
        .while_deleting()
        .handler(reconcile)
        .build()
}

/// The Deployment of a pod that is being deleted: `Recreate` waits for the last one.
fn of_leaving(pod: &Pod) -> Option<ObjectKey> {
    pod.metadata.deletion_timestamp.as_ref()?;
    let owner = controller_of(&pod.metadata).filter(|owner| owner.kind == "ReplicaSet")?;
    let hash = pod.metadata.labels.as_ref()?.get(HASH)?;
    let name = owner.name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
    Some(ObjectKey::new(pod.metadata.namespace.as_deref(), name))
}

/// The capabilities for the writes of a call.
struct Writers {
    creator: Creator<ReplicaSet>,
    patcher: Patcher<ReplicaSet>,
    deleter: Deleter<ReplicaSet>,
    statuses: StatusWriter<Deployment>,
}

async fn reconcile(
    deployment: Arc<Deployment>,
    sets: Reader<ReplicaSet>,
    pods: Reader<Pod>,
    creator: Creator<ReplicaSet>,
    patcher: Patcher<ReplicaSet>,
    deleter: Deleter<ReplicaSet>,
    statuses: StatusWriter<Deployment>,
) -> Result<Action> {
    let all = claim(&deployment, &sets, &patcher).await?;
    let writers = Writers { creator, patcher, deleter, statuses };
    let mut sets = sets::Sets::of(&deployment, all);
    let rolls = deployment.metadata.deletion_timestamp.is_none();
    if rolls && roll(&deployment, &mut sets, &pods, &writers).await? {
        // The events of these writes call the handler again, with the new sets.
        return Ok(Action::done());
    }
    let (status, wait) = status::status(&deployment, &sets);
    unless_gone(writers.statuses.apply_status(&deployment, &status).await)?;
    if rolls && status::is_complete(&deployment, &status) {
        clean_up(&deployment, &sets, &writers).await?;
    }
    Ok(wait.map_or(Action::done(), Action::requeue_after))
}

/// The next step of a rollout; whether something was written.
async fn roll(
    deployment: &Arc<Deployment>,
    sets: &mut sets::Sets,
    pods: &Reader<Pod>,
    writers: &Writers,
) -> Result<bool> {
    let spec = deployment.spec.field().cloned().unwrap_or_default();
    let (desired, bounds) = (spec.replicas.unwrap_or(1), Bounds::of(&spec));
    let paused = spec.paused == Some(true);
    let ended = sets.old.iter().all(|set| has_ended(set, pods));
    // Where old pods end first, the new set is made after them.
    let waits = bounds.recreates && !(ended && sets.old.iter().all(|set| sets::size(set).spec == 0));
    if sets.new.is_none() && !paused && !waits {
        let size = if bounds.recreates { desired } else { rollout::new_size(0, &sets.sizes(), desired, bounds) };
        let set = sets.make(deployment, size, bounds)?;
        writers.creator.create(&set).await?;
        return Ok(true);
    }
    let mut written = false;
    if !paused && let Some(new) = &sets.new {
        written |= annotate(deployment, new, &sets.old, writers).await?;
    }
    let scaled = sets.all().any(|set| sets::size(set).spec > 0 && annotation(set, DESIRED) != Some(desired));
    let mut sizes = sets.sizes();
    if paused || scaled {
        rollout::scale(&mut sizes, sets.new.as_ref().map(|_| 0), desired, bounds);
    } else if bounds.recreates {
        let (new, old) = sizes.split_at_mut(usize::from(sets.new.is_some()));
        old.iter_mut().for_each(|size| size.spec = 0);
        new.iter_mut().filter(|_| ended).for_each(|size| size.spec = desired);
    } else {
        let grown = rollout::new_size(sizes[0].spec, &sizes, desired, bounds);
        if grown == sizes[0].spec {
            rollout::shrink_old(&mut sizes, desired, bounds);
        } else {
            sizes[0].spec = grown;
        }
    }
    let planned: Vec<_> = sets.all().cloned().zip(sizes).collect();
    for (set, size) in planned {
        // An old set at zero keeps what it was scaled for.
        let stays = size.spec == sets::size(&set).spec;
        if stays && (size.spec == 0 || annotation(&set, DESIRED) == Some(desired)) {
            continue;
        }
        let annotations =
            json!({DESIRED: desired.to_string(), MAXIMUM: desired.saturating_add(bounds.surge).to_string()});
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": size.spec}});
        unless_gone(writers.patcher.patch_object(&set, PatchBody::merge(patch)).await)?;
        written = true;
    }
    Ok(written)
}

/// Returns `true` if no pod of the set can still run.
fn has_ended(set: &Arc<ReplicaSet>, pods: &Reader<Pod>) -> bool {
    controlled(set, pods).is_ok_and(|pods| pods.iter().all(|pod| is_terminal(pod)))
}

/// Numbers the new set, and copies the annotations of the Deployment to it. Returns `true` if
/// something was written.
async fn annotate(
    deployment: &Arc<Deployment>,
    new: &Arc<ReplicaSet>,
    old: &[Arc<ReplicaSet>],
    writers: &Writers,
) -> Result<bool> {
    let last = old.iter().filter_map(|set| annotation(set, REVISION)).max().unwrap_or_default();
    let (mut annotations, mut revision) = (sets::copied(deployment), annotation(new, REVISION).unwrap_or_default());
    if revision <= last {
        if revision > 0 {
            let history = new.metadata.annotations.as_ref().and_then(|all| all.get(HISTORY));
            let earlier = history.map(|history| format!("{history},")).unwrap_or_default();
            annotations.insert(HISTORY.to_owned(), format!("{earlier}{revision}"));
        }
        revision = last + 1;
    }
    annotations.insert(REVISION.to_owned(), revision.to_string());
    let is_in = |now: Option<&BTreeMap<String, String>>, wanted: &BTreeMap<String, String>| {
        wanted.iter().all(|(key, value)| now.and_then(|now| now.get(key)) == Some(value))
    };
    let mut written = false;
    let min_ready = deployment.spec.field().and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
    let now_min_ready = new.spec.field().and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
    if !is_in(new.metadata.annotations.as_ref(), &annotations) || min_ready != now_min_ready {
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"minReadySeconds": min_ready}});
        unless_gone(writers.patcher.patch_object(new, PatchBody::merge(patch)).await)?;
        written = true;
    }
    let mark = BTreeMap::from([(REVISION.to_owned(), revision.to_string())]);
    if !is_in(deployment.metadata.annotations.as_ref(), &mark) {
        // As kube-controller-manager does: annotations that are written otherwise are a new generation.
        unless_gone(writers.statuses.annotate(deployment, &json!(mark)).await)?;
        written = true;
    }
    Ok(written)
}

/// Deletes the oldest sets beyond the limit of the history.
async fn clean_up(deployment: &Arc<Deployment>, sets: &sets::Sets, writers: &Writers) -> Result<()> {
    let limit = deployment.spec.field().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or_default();
    let mut old: Vec<_> = sets.old.iter().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
    old.sort_by_key(|set| annotation(set, REVISION));
    let beyond = old.len().saturating_sub(limit);
    for set in old.into_iter().take(beyond) {
        let Size { spec, status, .. } = sets::size(set);
        let is_observed = set.status.as_ref().and_then(|status| status.observed_generation) >= set.metadata.generation;
        if spec == 0 && status == 0 && is_observed {
            writers.deleter.delete_object(set).await?;
        }
    }
    Ok(())
}

/// The number in an annotation.
fn annotation(set: &ReplicaSet, key: &str) -> Option<i32> {
    set.metadata.annotations.as_ref()?.get(key)?.parse().ok()
}

/// A template as JSON, without the label of its hash.
fn plain(template: Option<&k8s_openapi::api::core::v1::PodTemplateSpec>) -> Value {
    let mut plain = serde_json::to_value(template).unwrap_or_default();
    if let Some(labels) = plain.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH);
        if labels.is_empty() {
            plain["metadata"].as_object_mut().map(|metadata| metadata.remove("labels"));
        }
    }
    plain
}
