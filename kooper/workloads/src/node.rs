//! The node that pods run on, and the status of nodes.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::children::unless_gone;
use super::{PodTimings, typed};
use kooper_access::KindExt as _;
use kooper_access::capability::{PatchBody, owned_by};
use kooper_access::{Applier, ConfigError, Controller, Patcher, State, StatusWriter};
use kooper_runtime::internal::clock;
use kooper_runtime::{Action, Result};

/// The name of the node that every cluster has.
pub(super) const NAME: &str = "node-1";

/// The address of nodes, of a range for documentation.
pub(super) const IP: &str = "192.0.2.10";

/// The taint of nodes that no pod should run on, which every new node has.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The namespace of the nodes' leases, and how long these are valid.
const LEASES: &str = "kube-node-lease";
const LEASE_SECONDS: i32 = 40;

pub(super) fn controller(pace: PodTimings) -> Result<Controller, ConfigError> {
    Node::controller("nodes").resync(None).state(pace).handler(reconcile).build()
}

/// Creates the node, unless there is one of its name.
pub(super) async fn register(client: &Client) {
    let labels =
        [("kubernetes.io/hostname", NAME), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", architecture())];
    let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let metadata = ObjectMeta { name: Some(NAME.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let node = Node { metadata, ..Node::default() };
    // One that exists is as good. Without any, pods wait for the first.
    drop(Api::all(client.clone()).create(&PostParams::default(), &node).await);
}

async fn reconcile(
    node: Arc<Node>,
    pace: State<PodTimings>,
    statuses: StatusWriter<Node>,
    patcher: Patcher<Node>,
    leases: Applier<Lease>,
) -> Result<Action> {
    let now = clock::wall();
    let is_new = node.status.as_ref().is_none_or(|status| status.conditions.as_ref().is_none_or(Vec::is_empty));
    if is_new && unless_gone(statuses.apply_status(&node, &ready(&node, now)?).await)?.is_none() {
        return Ok(Action::done());
    }
    if is_ready(&node) {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let (not_ready, others): (Vec<_>, Vec<_>) = taints.partition(|taint| taint.key == NOT_READY);
        if !not_ready.is_empty() {
            let patch = PatchBody::merge(json!({"spec": {"taints": others}}));
            unless_gone(patcher.patch_object(&node, patch).await)?;
        }
    }
    let Some(interval) = pace.heartbeat else {
        return Ok(Action::done());
    };
    let metadata =
        ObjectMeta { name: node.metadata.name.clone(), namespace: Some(LEASES.to_owned()), ..ObjectMeta::default() };
    let spec = LeaseSpec {
        holder_identity: node.metadata.name.clone(),
        lease_duration_seconds: Some(LEASE_SECONDS),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    };
    leases.apply(&owned_by(&node, Lease { metadata, spec: Some(spec) })?).await?;
    Ok(Action::requeue_after(interval))
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The status of a node that pods can run on.
fn ready(node: &Node, now: Timestamp) -> Result<NodeStatus> {
    let now = serde_json::to_value(Time(now))?;
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now
        })
    };
    let resources = json!({"cpu": "8", "memory": "32Gi", "pods": "1000", "ephemeral-storage": "100Gi"});
    let version = env!("CARGO_PKG_VERSION");
    let status: Value = json!({
        "capacity": resources, "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": IP},
            {"type": "Hostname", "address": node.metadata.name},
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "pods on this node are simulated"),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "simulated",
            "containerRuntimeVersion": format!("simulated://{version}"), "kubeletVersion": format!("v{version}"),
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": architecture()
        }
    });
    Ok(typed(&status)?)
}

/// The processor as Kubernetes names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
