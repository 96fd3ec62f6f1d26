//! PodDisruptionBudgets: how many pods may be evicted.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time};
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
    deployments: Reader<Deployment>,
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
    let expected = if relative { scale(&selected, &deployments, &sets, &stateful)? } else { count(selected.len()) };
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

/// The pods that the owners of these pods call for. The ReplicaSets of a Deployment count as one owner: during a rollout,
/// they call for more pods together.
fn scale(
    pods: &[Arc<Pod>],
    deployments: &Reader<Deployment>,
    sets: &Reader<ReplicaSet>,
    stateful: &Reader<StatefulSet>,
) -> Result<i32> {
    let mut owners = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else { continue };
        let key = |owner: &OwnerReference| ObjectKey::new(pod.metadata.namespace.as_deref(), &owner.name);
        let set = if owner.kind == "ReplicaSet" { sets.get(&key(owner))? } else { None };
        let above =
            set.as_ref().and_then(|set| controller_of(&set.metadata)).filter(|above| above.kind == "Deployment");
        let owner = above.unwrap_or(owner);
        let replicas = match owner.kind.as_str() {
            "Deployment" => deployments.get(&key(owner))?.and_then(|deployment| deployment.spec.field()?.replicas),
            "ReplicaSet" => set.as_ref().and_then(|set| set.spec.field()?.replicas),
            "StatefulSet" => stateful.get(&key(owner))?.and_then(|set| set.spec.field()?.replicas),
            _ => None,
        };
        owners.insert(owner.uid.clone(), replicas.unwrap_or_default());
    }
    Ok(owners.into_values().sum())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kooper_apiserver::ApiServer;
    use kube::api::{Api, Patch, PatchParams, PostParams};
    use serde_json::json;

    use super::*;
    use crate::Simulation;

    #[tokio::test(start_paused = true)]
    async fn a_rollout_calls_for_no_more_pods_than_its_deployment() {
        let server = ApiServer::start().await.unwrap();
        let simulation = Simulation::visible(&server);
        let deployments = Api::<Deployment>::default_namespaced(server.client());
        let budgets = Api::<PodDisruptionBudget>::default_namespaced(server.client());
        let (labels, container) = (json!({"app": "web"}), json!({"name": "main", "image": "web:1"}));
        let selector = json!({"matchLabels": labels});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
        let spec = json!({"replicas": 3, "selector": selector, "template": template});
        let web = json!({"metadata": {"name": "web"}, "spec": spec});
        deployments.create(&PostParams::default(), &serde_json::from_value(web).unwrap()).await.unwrap();
        let spec = json!({"maxUnavailable": 1, "selector": selector});
        let budget = json!({"metadata": {"name": "web"}, "spec": spec});
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        // The first pod of the new template waits, beside three old ones.
        let held = json!({"name": "main", "image": "web:1", "envFrom": [{"secretRef": {"name": "missing"}}]});
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"containers": [held]}}}}));
        deployments.patch("web", &PatchParams::default(), &patch).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let status = json!(budgets.get("web").await.unwrap().status);
        let counts = json!([status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]]);
        assert_eq!(counts, json!([3, 3, 1]));
        simulation.stop().await;
    }
}
