//! The scheduler: binds each pod to a node that it may run on.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodCondition, PodStatus, Taint, Toleration,
};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::children::{key_of, unless_gone};
use super::pods::is_terminal;
use super::{PodTimings, notes};
use kooper_access::KindExt as _;
use kooper_access::capability::{Index, by};
use kooper_access::{ConfigError, Controller, Creator, Reader, State, StatusWriter};
use kooper_runtime::internal::clock;
use kooper_runtime::internal::error::refusal::{is_conflict, is_not_found};
use kooper_runtime::{ObjectKey, Result};

/// The scheduler of pods that name no other.
const SCHEDULER: &str = "default-scheduler";

pub(super) fn controller(pace: PodTimings) -> Result<Controller, ConfigError> {
    Pod::controller("scheduler")
        .resync(None)
        // Each choice counts the pods of the choices before.
        .workers(1)
        .when(waits)
        .watches::<Node, _, _>(unbound)
        .rbac(["pods/binding: create"])
        .state(pace)
        .handler(reconcile)
        .build()
}

/// Returns `true` if a pod waits for this scheduler to bind it to a node.
fn waits(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.node_name.is_none()
        && spec.scheduler_name.as_deref().unwrap_or(SCHEDULER) == SCHEDULER
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
        && pod.metadata.deletion_timestamp.is_none()
        && !is_terminal(pod)
}

/// The pods that a node may be for.
fn unbound(_: &Node, pods: &Reader<Pod>) -> Vec<ObjectKey> {
    pods.select(by::index(ByNode, "")).flatten().filter(|pod| waits(pod)).map(|pod| key_of(&pod.metadata)).collect()
}

/// Pods by their node; those without one have the empty name.
struct ByNode;

impl Index for ByNode {
    type Object = Pod;

    fn values(pod: &Pod) -> impl IntoIterator<Item = String> {
        [pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()]
    }
}

async fn reconcile(
    pod: Arc<Pod>,
    nodes: Reader<Node>,
    pods: Reader<Pod>,
    client: Client,
    statuses: StatusWriter<Pod>,
    pace: State<PodTimings>,
    events: Creator<Event>,
) -> Result<()> {
    let all = nodes.list().map(|entry| entry.decode()).collect::<Result<Vec<_>, _>>()?;
    let load = |node: &Node| pods.select(by::index(ByNode, node.name_any())).count();
    let fits = all.iter().filter(|node| obstacle(&pod, node).is_none());
    let Some(node) = fits.min_by_key(|node| load(node)) else {
        let status = unschedulable(&pod, &all);
        let message = why_unscheduled(&status).map(ToOwned::to_owned);
        let is_new = message.as_deref() != pod.status.as_ref().and_then(why_unscheduled);
        if unless_gone(statuses.apply_status(&pod, &status).await)?.is_some() && pace.events && is_new {
            notes::of_scheduler(&events, &pod, true, message.unwrap_or_default()).await;
        }
        return Ok(());
    };
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": pod.metadata.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node.name_any()}
    });
    let pods = Api::<Pod>::namespaced(client, &namespace);
    let bound: kube::Result<Value> = pods.create_subresource("binding", &name, &PostParams::default(), &binding).await;
    match bound {
        // It is bound or deleted already, and the cache is behind.
        Err(kube::Error::Api(status)) if is_not_found(&status) || is_conflict(&status) => Ok(()),
        bound => {
            bound?;
            if pace.events {
                let note = format!("Successfully assigned {namespace}/{name} to {}", node.name_any());
                notes::of_scheduler(&events, &pod, false, note).await;
            }
            Ok(())
        }
    }
}

/// Why a pod waits for a node, by its status.
fn why_unscheduled(status: &PodStatus) -> Option<&str> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|one| one.reason.as_deref() == Some("Unschedulable"))?.message.as_deref()
}

/// The status of a pod that no node takes.
fn unschedulable(pod: &Pod, nodes: &[impl AsRef<Node>]) -> PodStatus {
    let mut reasons: Vec<_> = nodes.iter().filter_map(|node| obstacle(pod, node.as_ref())).collect();
    reasons.sort_unstable();
    let mut counted: Vec<(usize, String)> = Vec::new();
    for reason in reasons {
        match counted.last_mut() {
            Some((count, last)) if *last == reason => *count += 1,
            _ => counted.push((1, reason)),
        }
    }
    let list: Vec<_> = counted.iter().map(|(count, reason)| format!("{count} {reason}")).collect();
    let message = match list.as_slice() {
        [] => "no nodes available to schedule pods".to_owned(),
        list => format!("0/{} nodes are available: {}.", nodes.len(), list.join(", ")),
    };
    let condition = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(clock::wall())),
        ..PodCondition::default()
    };
    PodStatus { conditions: Some(vec![condition]), ..PodStatus::default() }
}

/// Why the pod cannot run on the node.
pub(super) fn obstacle(pod: &Pod, node: &Node) -> Option<String> {
    let spec = pod.spec.clone().unwrap_or_default();
    let node_spec = node.spec.clone().unwrap_or_default();
    let tolerations = spec.tolerations.unwrap_or_default();
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node_spec.unschedulable == Some(true) && !is_tolerated(&cordon, &tolerations) {
        return Some("node(s) were unschedulable".to_owned());
    }
    let labels = node.labels();
    let mut wanted = spec.node_selector.iter().flatten();
    let affinity = spec.affinity.and_then(|affinity| affinity.node_affinity);
    let terms = affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution);
    let allowed = terms.is_none_or(|terms| terms.node_selector_terms.iter().any(|term| selects(term, node)));
    if !wanted.all(|(key, value)| labels.get(key) == Some(value)) || !allowed {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    let taints = node_spec.taints.unwrap_or_default();
    let repels = |taint: &&Taint| taint.effect != "PreferNoSchedule" && !is_tolerated(taint, &tolerations);
    taints.iter().find(repels).map(|_| "node(s) had untolerated taint(s)".to_owned())
}

/// Returns `true` if one of the tolerations matches the taint.
pub(super) fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|one| {
        let key = one.key.as_deref().unwrap_or_default();
        let exists = one.operator.as_deref() == Some("Exists");
        one.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect)
            && (key == taint.key || (key.is_empty() && exists))
            && (exists || one.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default())
    })
}

/// Returns `true` if a term of a node selector selects the node. An empty term selects
/// none.
pub(super) fn selects(term: &NodeSelectorTerm, node: &Node) -> bool {
    let (expressions, fields) = (term.match_expressions.iter().flatten(), term.match_fields.iter().flatten());
    let labels = node.labels();
    let mut all = expressions
        .map(|one| holds(one, labels.get(&one.key).map(String::as_str)))
        .chain(fields.map(|one| holds(one, node.metadata.name.as_deref().filter(|_| one.key == "metadata.name"))))
        .peekable();
    all.peek().is_some() && all.all(|holds| holds)
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let compare = |order: fn(i64, i64) -> bool| {
        let (Some(value), [bound]) = (value, values) else { return false };
        value.parse().is_ok_and(|value| bound.parse().is_ok_and(|bound| order(value, bound)))
    };
    let contained = value.is_some_and(|value| values.iter().any(|one| one == value));
    match requirement.operator.as_str() {
        "In" => contained,
        "NotIn" => !contained,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(spec: &Value) -> Node {
        let labels = json!({"zone": "a", "size": "8"});
        serde_json::from_value(json!({"metadata": {"name": "node-1", "labels": labels}, "spec": spec})).unwrap()
    }

    fn fits(pod: Value, node: &Node) -> bool {
        let mut spec = pod;
        spec["containers"] = json!([]);
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        obstacle(&pod, node).is_none()
    }

    fn affinity(term: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }}})
    }

    #[test]
    fn a_pod_runs_where_its_selectors_allow() {
        let node = node(&json!({}));
        assert!(fits(json!({}), &node));
        assert!(fits(json!({"nodeSelector": {"zone": "a"}}), &node));
        assert!(!fits(json!({"nodeSelector": {"zone": "b"}}), &node));
        let one =
            |key: &str, operator: &str, values: Value| json!([{"key": key, "operator": operator, "values": values}]);
        assert!(fits(affinity(&json!({"matchExpressions": one("size", "Gt", json!(["4"]))})), &node));
        assert!(!fits(affinity(&json!({"matchExpressions": one("size", "Lt", json!(["4"]))})), &node));
        assert!(fits(affinity(&json!({"matchFields": one("metadata.name", "In", json!(["node-1"]))})), &node));
        assert!(!fits(affinity(&json!({"matchFields": one("metadata.name", "In", json!(["node-2"]))})), &node));
        assert!(!fits(affinity(&json!({})), &node));
    }

    #[test]
    fn a_pod_runs_only_where_it_tolerates_the_taints() {
        let tainted = node(&json!({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}));
        assert!(!fits(json!({}), &tainted));
        assert!(fits(json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]}), &tainted));
        assert!(fits(json!({"tolerations": [{"key": "gpu", "value": "yes"}]}), &tainted));
        assert!(!fits(json!({"tolerations": [{"key": "gpu", "value": "no"}]}), &tainted));
        assert!(fits(json!({"tolerations": [{"operator": "Exists"}]}), &tainted));
        assert!(!fits(json!({}), &node(&json!({"unschedulable": true}))));
    }
}
