//! PodDisruptionBudgets: how many pods may be evicted.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::children::{controller_of, expression, key_of, matches, unless_gone};
use super::deployment::part;
use super::pods::{is_active, is_ready, is_terminal};
use super::versions::{Field as _, given};
use kooper_access::KindExt as _;
use kooper_access::capability::by;
use kooper_access::{ConfigError, Controller, Reader, StatusWriter};
use kooper_runtime::internal::clock;
use kooper_runtime::{ObjectKey, Result};

pub(super) fn controller() -> Result<Controller, ConfigError> {
    PodDisruptionBudget::controller("disruption")
        .resync(None)
        .watches::<Pod, _, _>(selecting)
        .handler(reconcile)
        .build()
}

/// The selector of a budget; the empty one selects all pods of the namespace.
fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let Some(selector) = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { return false };
    let expression = expression(selector);
    expression.is_empty() || matches(&expression, pod.metadata.labels.as_ref())
}

fn selecting(pod: &Pod, budgets: &Reader<PodDisruptionBudget>) -> Vec<ObjectKey> {
    let all = budgets.select(by::namespace(pod.metadata.namespace.as_deref().unwrap_or_default())).flatten();
    all.filter(|budget| selects(budget, pod)).map(|budget| key_of(&budget.metadata)).collect()
}

async fn reconcile(
    budget: Arc<PodDisruptionBudget>,
    pods: Reader<Pod>,
    sets: Reader<ReplicaSet>,
    stateful: Reader<StatefulSet>,
    statuses: StatusWriter<PodDisruptionBudget>,
) -> Result<()> {
    let Some(spec) = &budget.spec else { return Ok(()) };
    let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
    let selected = pods.select(by::namespace(namespace)).collect::<Result<Vec<_>, _>>()?;
    let selected: Vec<_> = selected.into_iter().filter(|pod| selects(&budget, pod) && !is_terminal(pod)).collect();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    // A percentage, or a number that may be missing, is of what the owners of the pods call for.
    let relative = spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)));
    let expected = if relative { scale(&selected, &sets, &stateful)? } else { count(selected.len()) };
    let desired = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => (expected - part(Some(most), expected, true)).max(0),
        (None, least) => part(least.as_ref(), expected, true),
    };
    let healthy = count(selected.iter().filter(|pod| is_ready(pod) && is_active(pod)).count());
    let allowed = if expected == 0 { 0 } else { (healthy - desired).max(0) };
    let condition = Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: if allowed > 0 { "True" } else { "False" }.to_owned(),
        reason: if allowed > 0 { "SufficientPods" } else { "InsufficientPods" }.to_owned(),
        message: String::new(),
        observed_generation: budget.metadata.generation,
        last_transition_time: Time(clock::wall()),
    };
    let status = PodDisruptionBudgetStatus {
        observed_generation: budget.metadata.generation,
        current_healthy: given(healthy),
        desired_healthy: given(desired),
        disruptions_allowed: given(allowed),
        expected_pods: given(expected),
        conditions: Some(vec![condition]),
        ..PodDisruptionBudgetStatus::default()
    };
    unless_gone(statuses.apply_status(&budget, &status).await)?;
    Ok(())
}

/// The pods that the owners of these pods call for.
fn scale(pods: &[Arc<Pod>], sets: &Reader<ReplicaSet>, stateful: &Reader<StatefulSet>) -> Result<i32> {
    let mut owners: Vec<_> = pods
        .iter()
        .filter_map(|pod| Some((pod.metadata.namespace.clone(), controller_of(&pod.metadata)?.clone())))
        .collect();
    owners.sort_by(|(_, one), (_, other)| one.uid.cmp(&other.uid));
    owners.dedup_by(|(_, one), (_, other)| one.uid == other.uid);
    let mut sum = 0;
    for (namespace, owner) in owners {
        let key = ObjectKey::new(namespace.as_deref(), &owner.name);
        sum += match owner.kind.as_str() {
            "ReplicaSet" => sets.get(&key)?.and_then(|set| set.spec.field()?.replicas).unwrap_or_default(),
            "StatefulSet" => stateful.get(&key)?.and_then(|set| set.spec.field()?.replicas).unwrap_or_default(),
            _ => 0,
        };
    }
    Ok(sum)
}
