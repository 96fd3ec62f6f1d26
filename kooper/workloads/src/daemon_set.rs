//! DaemonSets: a pod on each node that it may run on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodTemplateSpec, Toleration,
};
use kube::ResourceExt as _;

use super::children::{self, adopters, claim};
use super::deployment::part;
use super::pods::{self, available_in, count, is_ready, is_terminal};
use super::revisions::{self, Revisions};
use super::scheduler;
use super::versions::Field as _;
use kooper_access::KindExt as _;
use kooper_access::capability::owned_by;
use kooper_access::{ConfigError, Controller, Creator, Deleter, Patcher, Reader, StatusWriter};
use kooper_runtime::internal::clock;
use kooper_runtime::{Action, ObjectKey, Result};

/// The taints that the pods of every DaemonSet tolerate.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The number of a template, on the DaemonSet and on its pods.
const GENERATION: (&str, &str) = ("deprecated.daemonset.template.generation", "pod-template-generation");

pub(super) fn controller() -> Result<Controller, ConfigError> {
    DaemonSet::controller("daemon-sets")
        .resync(None)
        .owns(Pod::all())
        .owns(ControllerRevision::all())
        .watches::<Pod, _, _>(adopters::<DaemonSet, Pod>)
        .watches::<Node, _, _>(all_sets)
        .while_deleting()
        .handler(reconcile)
        .build()
}

/// A node may be one for every DaemonSet.
fn all_sets(_: &Node, sets: &Reader<DaemonSet>) -> Vec<ObjectKey> {
    sets.list().map(|entry| entry.key().clone()).collect()
}

#[expect(clippy::too_many_arguments, reason = "each grants one verb")]
async fn reconcile(
    set: Arc<DaemonSet>,
    reader: Reader<Pod>,
    nodes: Reader<Node>,
    patcher: Patcher<Pod>,
    creator: Creator<Pod>,
    deleter: Deleter<Pod>,
    revision_reader: Reader<ControllerRevision>,
    revision_creator: Creator<ControllerRevision>,
    revision_patcher: Patcher<ControllerRevision>,
    revision_deleter: Deleter<ControllerRevision>,
    statuses: StatusWriter<DaemonSet>,
) -> Result<Action> {
    let Some(spec) = set.spec.field() else { return Ok(Action::done()) };
    let access = revisions::Access {
        reader: revision_reader,
        creator: revision_creator,
        patcher: revision_patcher,
        deleter: revision_deleter,
    };
    let pods = claim(&set, &reader, &patcher).await?;
    let deleting = set.metadata.deletion_timestamp.is_some();
    let revisions = Revisions::of(&set, &spec.template, &access).await?;
    let Some(revision) = revisions.present() else {
        if !deleting {
            revisions.write(&set, &spec.template, revisions::LABEL, &access).await?;
        }
        return Ok(Action::done());
    };
    let hash = revision.rsplit('-').next().unwrap_or_default();
    let nodes = nodes.list().map(|entry| entry.decode()).collect::<Result<Vec<_>, _>>()?;
    let plan = Plan::of(&set, spec, &pods, &nodes, hash);
    if !deleting {
        for pod in &plan.delete {
            deleter.delete_object(pod).await?;
        }
        for node in &plan.create {
            creator.create(&pod_of(&set, spec, node, hash)?).await?;
        }
    }
    let (status, wait) = plan.status(&set);
    children::unless_gone(statuses.apply_status(&set, &status).await)?;
    let used: Vec<_> = pods.iter().filter_map(|pod| revisions::of_pod(pod)).chain([hash]).collect();
    revisions.clean_up(spec.revision_history_limit, &used, &access).await?;
    Ok(wait.map_or(Action::done(), Action::requeue_after))
}

/// The pods of a DaemonSet, and what becomes of them.
#[derive(Default)]
struct Plan {
    create: Vec<String>,
    delete: Vec<Arc<Pod>>,
    desired: usize,
    scheduled: usize,
    misscheduled: usize,
    ready: usize,
    available: usize,
    updated: usize,
    wait: Option<Duration>,
}

impl Plan {
    fn of(set: &DaemonSet, spec: &DaemonSetSpec, pods: &[Arc<Pod>], nodes: &[Arc<Node>], hash: &str) -> Self {
        let mut plan = Self::default();
        let now = clock::wall();
        let mut by_node: BTreeMap<String, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in pods {
            by_node.entry(node_of(pod)).or_default().push(pod);
        }
        let strategy = spec.update_strategy.clone().unwrap_or_default();
        let rolls = strategy.type_.as_deref() != Some("OnDelete");
        let rolling = strategy.rolling_update.unwrap_or_default();
        let is_new = |pod: &Pod| revisions::of_pod(pod) == Some(hash);
        let available = |pod: &Pod| available_in(pod, spec.min_ready_seconds, now);
        let is_available =
            |pod: &Pod| pod.metadata.deletion_timestamp.is_none() && available(pod).is_some_and(|left| left.is_zero());
        let wanted: Vec<_> = nodes.iter().filter(|node| runs_on(spec, node)).collect();
        plan.desired = wanted.len();
        let whole = i32::try_from(wanted.len()).unwrap_or(i32::MAX);
        let surge = part(rolling.max_surge.as_ref(), whole, true);
        let most = if surge > 0 { 0 } else { part(rolling.max_unavailable.as_ref(), whole, true).max(1) };
        let mut old = Vec::new();
        let mut unavailable = 0;
        // The nodes on which a new pod starts beside the old one, and those on which one may.
        let (mut surging, mut candidates) = (0, Vec::new());
        for node in &wanted {
            let own = by_node.remove(&node.name_any()).unwrap_or_default();
            let (ended, own): (Vec<_>, Vec<_>) = own.into_iter().partition(|pod| is_terminal(pod));
            plan.delete.extend(ended.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).cloned());
            let Some(oldest) = own.iter().min_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
            else {
                plan.create.push(node.name_any());
                unavailable += 1;
                continue;
            };
            plan.scheduled += 1;
            let lives = |pod: &&&Arc<Pod>| pod.metadata.deletion_timestamp.is_none();
            plan.ready += usize::from(own.iter().filter(lives).any(|pod| is_ready(pod)));
            plan.available += usize::from(own.iter().any(|pod| is_available(pod)));
            plan.updated += usize::from(own.iter().filter(lives).any(|pod| is_new(pod)));
            plan.wait =
                own.iter().filter_map(|pod| available(pod)).filter(|left| !left.is_zero()).chain(plan.wait).min();
            if !own.iter().any(|pod| is_available(pod)) {
                unavailable += 1;
            }
            let newer = own.iter().find(|pod| is_new(pod));
            if surge > 0 {
                match newer {
                    Some(new) if is_available(new) => {
                        let gone = own.iter().filter(|pod| !is_new(pod)).filter(lives);
                        plan.delete.extend(gone.map(|pod| Arc::clone(pod)));
                    }
                    Some(_) if own.iter().filter(lives).any(|pod| !is_new(pod)) => surging += 1,
                    None if rolls && own.iter().any(|pod| is_available(pod)) => candidates.push(node.name_any()),
                    // An old pod that is not available costs nothing.
                    None if rolls => plan.create.push(node.name_any()),
                    _ => {}
                }
            } else if rolls && !is_new(oldest) && oldest.metadata.deletion_timestamp.is_none() {
                old.push(Arc::clone(oldest));
            }
        }
        plan.create.extend(candidates.into_iter().take(usize::try_from(surge - surging).unwrap_or_default()));
        // Those that are not available cost nothing.
        old.sort_by_key(|pod| is_available(pod));
        for pod in old {
            if !is_available(&pod) {
                plan.delete.push(pod);
            } else if unavailable < most {
                unavailable += 1;
                plan.delete.push(pod);
            }
        }
        let stray: Vec<_> = by_node.into_values().flatten().filter(|pod| !is_terminal(pod)).collect();
        plan.misscheduled = stray.len();
        // A taint that keeps other pods away from a node does not end those that run there.
        let ends = |pod: &&Arc<Pod>| {
            let node = nodes.iter().find(|node| node.name_any() == node_of(pod));
            node.is_some_and(|node| {
                let mut node = Node::clone(node);
                let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
                taints.retain(|taint| taint.effect == "NoExecute");
                !runs_on(spec, &node)
            })
        };
        plan.delete
            .extend(stray.into_iter().filter(ends).filter(|pod| pod.metadata.deletion_timestamp.is_none()).cloned());
        if set.metadata.deletion_timestamp.is_some() {
            (plan.create, plan.delete) = (Vec::new(), Vec::new());
        }
        plan
    }

    fn status(&self, set: &DaemonSet) -> (DaemonSetStatus, Option<Duration>) {
        let number = |number: usize| count(number).unwrap_or_default();
        let status = DaemonSetStatus {
            observed_generation: set.metadata.generation,
            desired_number_scheduled: number(self.desired),
            current_number_scheduled: number(self.scheduled),
            number_misscheduled: number(self.misscheduled),
            number_ready: number(self.ready),
            number_available: count(self.available),
            number_unavailable: count(self.desired.saturating_sub(self.available)),
            updated_number_scheduled: count(self.updated),
            ..DaemonSetStatus::default()
        };
        (status, self.wait)
    }
}

/// The node that a pod is for, bound or not.
fn node_of(pod: &Pod) -> String {
    let Some(spec) = &pod.spec else { return String::new() };
    let chosen = || {
        let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
        let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
        terms.first()?.match_fields.as_ref()?.first()?.values.as_ref()?.first().cloned()
    };
    spec.node_name.clone().or_else(chosen).unwrap_or_default()
}

/// Returns `true` if the DaemonSet needs a pod on the node.
fn runs_on(spec: &DaemonSetSpec, node: &Node) -> bool {
    let mut pod = Pod { spec: spec.template.spec.clone(), ..Pod::default() };
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.tolerations.get_or_insert_default().extend(tolerations());
    // The template may name a node: each of its pods is bound to that one.
    let is_named = pod_spec.node_name.is_none() || pod_spec.node_name == node.metadata.name;
    is_named && node.metadata.deletion_timestamp.is_none() && scheduler::obstacle(&pod, node).is_none()
}

fn tolerations() -> impl Iterator<Item = Toleration> {
    TOLERATED.iter().map(|(key, effect)| Toleration {
        key: Some((*key).to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some((*effect).to_owned()),
        ..Toleration::default()
    })
}

fn pod_of(set: &Arc<DaemonSet>, spec: &DaemonSetSpec, node: &str, hash: &str) -> Result<Pod> {
    let template: PodTemplateSpec = spec.template.clone();
    let mut pod = pods::of_template(&template, &set.metadata);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(revisions::LABEL.to_owned(), hash.to_owned());
    if let Some(generation) = set.annotations().get(GENERATION.0) {
        labels.insert(GENERATION.1.to_owned(), generation.clone());
    }
    let pod_spec = pod.spec.get_or_insert_default();
    let own = pod_spec.tolerations.get_or_insert_default();
    own.extend(tolerations());
    let field = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![field]), match_expressions: None };
    let affinity = pod_spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    Ok(owned_by(set, pod)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str) -> Arc<Node> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}})).unwrap())
    }

    fn pod(node: &str, hash: &str, ready: bool) -> Arc<Pod> {
        let ready = if ready { "True" } else { "False" };
        let pod = json!({
            "metadata": {"name": format!("{hash}-{node}"), "labels": {"controller-revision-hash": hash}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_rollout_stays_within_its_surge() {
        let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
        let spec = json!({"selector": {}, "template": {}, "updateStrategy": strategy});
        let set: DaemonSet = serde_json::from_value(json!({"metadata": {"name": "agent"}, "spec": spec})).unwrap();
        let nodes = ["a", "b", "c"].map(node);
        let steps = |pods: &[Arc<Pod>]| {
            let Plan { create, delete, .. } = Plan::of(&set, set.spec.field().unwrap(), pods, &nodes, "new");
            (create, delete.iter().map(|pod| pod.name_any()).collect::<Vec<_>>())
        };
        let old = ["a", "b", "c"].map(|node| pod(node, "old", true));
        assert_eq!(steps(&old), (vec!["a".to_owned()], vec![]));
        let [a, b, c] = old;
        assert_eq!(steps(&[a.clone(), pod("a", "new", false), b.clone(), c.clone()]), (vec![], vec![]));
        let next = (vec!["b".to_owned()], vec!["old-a".to_owned()]);
        assert_eq!(steps(&[a.clone(), pod("a", "new", true), b.clone(), c.clone()]), next);
        // A node whose old pod is not available loses nothing.
        let broken = (vec!["c".to_owned(), "a".to_owned()], vec![]);
        assert_eq!(steps(&[a, b, pod("c", "old", false)]), broken);
    }

    #[test]
    fn a_pod_stays_where_a_taint_keeps_others_away() {
        let spec = json!({"selector": {}, "template": {}});
        let set: DaemonSet = serde_json::from_value(json!({"metadata": {"name": "agent"}, "spec": spec})).unwrap();
        for (effect, deleted) in [("NoSchedule", 0), ("NoExecute", 1)] {
            let taints = json!([{"key": "gpu", "effect": effect}]);
            let node = json!({"metadata": {"name": "a"}, "spec": {"taints": taints}});
            let node: Arc<Node> = Arc::new(serde_json::from_value(node).unwrap());
            let plan = Plan::of(&set, set.spec.field().unwrap(), &[pod("a", "new", true)], &[node], "new");
            assert_eq!((plan.misscheduled, plan.delete.len()), (1, deleted), "{effect}");
        }
    }

    #[test]
    fn a_template_that_names_a_node_has_a_pod_there_alone() {
        let template = json!({"spec": {"nodeName": "b", "containers": []}});
        let spec = json!({"selector": {}, "template": template});
        let set: DaemonSet = serde_json::from_value(json!({"metadata": {"name": "agent"}, "spec": spec})).unwrap();
        let plan = Plan::of(&set, set.spec.field().unwrap(), &[], &["a", "b"].map(node), "new");
        assert_eq!((plan.create, plan.desired), (vec!["b".to_owned()], 1));
    }
}
