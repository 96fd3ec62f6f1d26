//! StatefulSets: pods with names and claims of their own, in order.

mod pod;
mod status;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;

use super::children::{self, adopters, claim_if};
use super::pods::{available_in, is_terminal, phase};
use super::revisions::{self, Revisions};
use super::versions::Field as _;
use kooper_access::KindExt as _;
use kooper_access::{ConfigError, Controller, Creator, Deleter, Patcher, Reader, StatusWriter};
use kooper_runtime::internal::clock;
use kooper_runtime::{Action, ObjectKey, Result};

/// The label of the revisions of a StatefulSet.
const HASH: &str = "controller.kubernetes.io/hash";

/// The time between two looks for a claim that is being deleted, which is not watched.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn controller() -> Result<Controller, ConfigError> {
    StatefulSet::controller("stateful-sets")
        .resync(None)
        .owns(Pod::all())
        .owns(ControllerRevision::all())
        .watches::<Pod, _, _>(adopters::<StatefulSet, Pod>)
        .while_deleting()
        .handler(reconcile)
        .build()
}

/// The capabilities for pods and claims.
struct Writers {
    pods: Creator<Pod>,
    deleter: Deleter<Pod>,
    claims: Reader<PersistentVolumeClaim>,
    claim_creator: Creator<PersistentVolumeClaim>,
}

#[expect(clippy::too_many_arguments, reason = "each grants one verb")]
async fn reconcile(
    set: Arc<StatefulSet>,
    reader: Reader<Pod>,
    patcher: Patcher<Pod>,
    pods: Creator<Pod>,
    deleter: Deleter<Pod>,
    claims: Reader<PersistentVolumeClaim>,
    claim_creator: Creator<PersistentVolumeClaim>,
    revision_reader: Reader<ControllerRevision>,
    revision_creator: Creator<ControllerRevision>,
    revision_patcher: Patcher<ControllerRevision>,
    revision_deleter: Deleter<ControllerRevision>,
    statuses: StatusWriter<StatefulSet>,
) -> Result<Action> {
    let Some(spec) = set.spec.field() else { return Ok(Action::done()) };
    let access = revisions::Access {
        reader: revision_reader,
        creator: revision_creator,
        patcher: revision_patcher,
        deleter: revision_deleter,
    };
    let own = claim_if(&set, &reader, &patcher, |set, pod| ordinal(set, pod).is_some()).await?;
    let replicas = Replicas::of(&set, own);
    let deleting = set.metadata.deletion_timestamp.is_some();
    let revisions = Revisions::of(&set, &spec.template, &access).await?;
    let update = match revisions.present() {
        Some(update) => update,
        None if deleting => return Ok(Action::done()),
        None => {
            revisions.write(&set, &spec.template, HASH, &access).await?;
            return Ok(Action::done());
        }
    };
    let known = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
    let current = known.filter(|known| !known.is_empty() && revisions.template(known).is_some()).unwrap_or(update);
    let writers = Writers { pods, deleter, claims, claim_creator };
    let names = (current, update);
    let step =
        if deleting { Step::default() } else { step(&set, spec, &replicas, &revisions, names, &writers).await? };
    let (status, wait) = status::status(&set, &replicas, names);
    children::unless_gone(statuses.apply_status(&set, &status).await)?;
    if !step.written && !deleting {
        let of_pods = replicas.all.iter().filter_map(|(_, pod)| revisions::of_pod(pod));
        let used: Vec<_> = of_pods.chain([current, update]).collect();
        revisions.clean_up(spec.revision_history_limit, &used, &access).await?;
    }
    let wait = wait.into_iter().chain(step.waits.then_some(LOOK)).min();
    Ok(wait.map_or(Action::done(), Action::requeue_after))
}

/// The result of a step.
#[derive(Default)]
struct Step {
    written: bool,
    /// A claim that is being deleted holds a pod up.
    waits: bool,
}

/// The pods of a set, by ordinal.
struct Replicas {
    all: Vec<(i32, Arc<Pod>)>,
    /// The ordinals that the set calls for.
    wanted: std::ops::Range<i32>,
    now: Timestamp,
    min_ready: Option<i32>,
}

impl Replicas {
    fn of(set: &StatefulSet, pods: Vec<Arc<Pod>>) -> Self {
        let mut all: Vec<_> = pods.into_iter().filter_map(|pod| Some((ordinal(set, &pod)?, pod))).collect();
        all.sort_by_key(|(ordinal, _)| *ordinal);
        let spec = set.spec.field().cloned().unwrap_or_default();
        let start = spec.ordinals.and_then(|ordinals| ordinals.start).unwrap_or_default();
        let wanted = start..start.saturating_add(spec.replicas.unwrap_or(1));
        Self { all, wanted, now: clock::wall(), min_ready: spec.min_ready_seconds }
    }

    fn get(&self, ordinal: i32) -> Option<&Arc<Pod>> {
        self.all.iter().find(|(one, _)| *one == ordinal).map(|(_, pod)| pod)
    }

    /// Returns `true` if the pod runs, and has been ready for `minReadySeconds`.
    fn is_available(&self, pod: &Pod) -> bool {
        phase(pod) == "Running" && available_in(pod, self.min_ready, self.now).is_some_and(|left| left.is_zero())
    }

    fn is_healthy(&self, pod: &Pod) -> bool {
        self.is_available(pod) && pod.metadata.deletion_timestamp.is_none()
    }
}

/// The ordinal of a pod, by its name; `None` if it is not one of the set.
fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    pod.metadata.name.as_deref()?.strip_prefix(set.metadata.name.as_deref()?)?.strip_prefix('-')?.parse().ok()
}

/// Takes the next step toward the desired pods.
async fn step(
    set: &Arc<StatefulSet>,
    spec: &StatefulSetSpec,
    replicas: &Replicas,
    revisions: &Revisions,
    (current, update): (&str, &str),
    writers: &Writers,
) -> Result<Step> {
    let in_order = spec.pod_management_policy.as_deref() != Some("Parallel");
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let rolls = strategy.type_.as_deref() != Some("OnDelete");
    let partition = strategy.rolling_update.and_then(|rolling| rolling.partition).unwrap_or_default();
    let first_new = replicas.wanted.start.saturating_add(if rolls { partition } else { 0 });
    let (mut written, mut waits) = (false, false);
    for ordinal in replicas.wanted.clone() {
        match replicas.get(ordinal) {
            None => {
                let revision = if ordinal < first_new { current } else { update };
                let template = revisions.template(revision).unwrap_or_else(|| spec.template.clone());
                let created = create(set, spec, &template, revision, ordinal, writers).await?;
                written |= created;
                waits |= !created;
                if in_order {
                    return Ok(Step { written, waits });
                }
            }
            Some(pod) if is_terminal(pod) && pod.metadata.deletion_timestamp.is_none() => {
                writers.deleter.delete_object(pod).await?;
                written = true;
                if in_order {
                    return Ok(Step { written, waits });
                }
            }
            Some(pod) if in_order && !replicas.is_healthy(pod) => return Ok(Step { written, waits }),
            Some(_) => {}
        }
    }
    let condemned = replicas.all.iter().rev().filter(|(ordinal, _)| !replicas.wanted.contains(ordinal));
    for (_, pod) in condemned {
        if pod.metadata.deletion_timestamp.is_none() {
            writers.deleter.delete_object(pod).await?;
            written = true;
        }
        if in_order {
            return Ok(Step { written, waits });
        }
    }
    if written || waits || !rolls {
        return Ok(Step { written, waits });
    }
    for ordinal in (first_new.max(replicas.wanted.start)..replicas.wanted.end).rev() {
        let Some(pod) = replicas.get(ordinal) else { break };
        if revisions::of_pod(pod) != Some(update) && pod.metadata.deletion_timestamp.is_none() {
            writers.deleter.delete_object(pod).await?;
            written = true;
            break;
        }
        if !replicas.is_healthy(pod) {
            break;
        }
    }
    Ok(Step { written, waits })
}

/// Creates a pod, after its claims. Returns `false` while one of them is being deleted.
async fn create(
    set: &Arc<StatefulSet>,
    spec: &StatefulSetSpec,
    template: &k8s_openapi::api::core::v1::PodTemplateSpec,
    revision: &str,
    ordinal: i32,
    writers: &Writers,
) -> Result<bool> {
    for template in spec.volume_claim_templates.iter().flatten() {
        let claim = pod::claim(set, spec, template, ordinal);
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let key = ObjectKey::new(set.metadata.namespace.as_deref(), name);
        match writers.claims.get(&key)? {
            // It goes as soon as no pod uses it, with its data.
            Some(claim) if claim.metadata.deletion_timestamp.is_some() => return Ok(false),
            Some(_) => continue,
            None => {}
        }
        match writers.claim_creator.create(&claim).await {
            Err(error) if error.is_conflict() => {}
            created => drop(created?),
        }
    }
    match writers.pods.create(&pod::pod(set, spec, template, revision, ordinal)?).await {
        // The set is deleted with its namespace.
        Err(error) if error.is_namespace_terminating() => Ok(true),
        created => Ok(created.map(|_| true)?),
    }
}
