//! The status of a StatefulSet.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;

use super::Replicas;
use crate::pods::{available_in, count, is_ready, phase};
use crate::revisions;
use crate::versions::Field as _;

/// The status, and when it has to be computed again because pods become available.
pub(super) fn status(
    set: &StatefulSet,
    replicas: &Replicas,
    (current, update): (&str, &str),
) -> (StatefulSetStatus, Option<Duration>) {
    let pods = || replicas.all.iter().map(|(_, pod)| pod);
    let is_of = |pod: &Pod, revision: &str| {
        pod.metadata.deletion_timestamp.is_none() && revisions::of_pod(pod) == Some(revision)
    };
    let is_serving = |pod: &Pod| phase(pod) == "Running" && is_ready(pod);
    let (ready, updated) =
        (pods().filter(|pod| is_serving(pod)).count(), pods().filter(|pod| is_of(pod, update)).count());
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: count(pods().count()).unwrap_or_default(),
        ready_replicas: count(ready),
        available_replicas: Some(count(pods().filter(|pod| replicas.is_available(pod)).count()).unwrap_or_default()),
        current_replicas: count(pods().filter(|pod| is_of(pod, current)).count()),
        updated_replicas: count(updated),
        current_revision: Some(current.to_owned()),
        update_revision: Some(update.to_owned()),
        collision_count: Some(0),
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    let strategy = set.spec.field().and_then(|spec| spec.update_strategy.as_ref()?.type_.as_deref());
    if strategy != Some("OnDelete") && updated == replicas.wanted.len() && updated == pods().count() && ready == updated
    {
        // The rollout is complete.
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    let left = pods().filter_map(|pod| available_in(pod, replicas.min_ready, replicas.now));
    (status, left.filter(|left| !left.is_zero()).min())
}
