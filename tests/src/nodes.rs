//! A node for the pods of a namespace, as there is neither a scheduler nor a kubelet.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kooper::ConfigError;
use kooper::prelude::*;
use kooper::{CancellationToken, Controller, Operator};
use kube::Config;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::control_plane::ControlPlane;

/// The address of the node.
pub const NODE_IP: &str = "192.0.2.10";

/// Maximum time that containers take to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// A node that runs the pods of one namespace: it binds them, reports them as running, and stops them within their
/// grace period. When it is dropped, it behaves like a lost node.
#[derive(Debug)]
#[must_use = "dropping it stops the node"]
pub struct Nodes {
    name: String,
    stop: CancellationToken,
    _runtime: Runtime,
}

/// The state of the node.
struct Known {
    node: String,
    addresses: AtomicU32,
}

impl Nodes {
    /// Starts a node `node-NAMESPACE`.
    pub fn start(cluster: &ControlPlane, namespace: &str) -> Self {
        let name = format!("node-{namespace}");
        let stop = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime can be made");
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).expect("the kubeconfig can be read");
        let client = runtime.block_on(async {
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
            Client::try_from(config.expect("the kubeconfig is valid")).expect("a client can be made")
        });
        cluster.apply([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})]);
        let controllers = [kubelet(&name, namespace), heartbeat(&name)];
        let operator = controllers
            .into_iter()
            .fold(Operator::builder().client(client), |operator, controller| {
                operator.controller(controller.expect("the controller is valid"))
            })
            .build()
            .expect("the operator is valid");
        runtime.spawn(operator.run(stop.clone()));
        Self { name, stop, _runtime: runtime }
    }

    /// The name of the node.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The scheduler and the kubelet.
fn kubelet(node: &str, namespace: &str) -> Result<Controller, ConfigError> {
    let known = Arc::new(Known { node: node.to_owned(), addresses: AtomicU32::new(2) });
    let handler = move |pod: Arc<Pod>, client: Client| known.clone().run(pod, client);
    Controller::builder::<Pod>("kubelet")
        .namespaces([namespace])
        .rbac(["pods/binding: create", "pods/status: patch", "pods: delete"])
        .while_deleting()
        .handler(handler)
        .build()
}

impl Known {
    async fn run(self: Arc<Self>, pod: Arc<Pod>, client: Client) -> Result<Action> {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let pods = Api::<Pod>::namespaced(client, &namespace);
        if let Some(until) = &pod.metadata.deletion_timestamp {
            // Containers stop on request, some time before the grace period is over.
            let spare = pod.metadata.deletion_grace_period_seconds.map_or(0, i64::unsigned_abs);
            let left = Duration::try_from(until.0.duration_since(Timestamp::now())).unwrap_or_default();
            let left = left.saturating_sub(Duration::from_secs(spare).saturating_sub(STOPS_WITHIN));
            if !left.is_zero() {
                return Ok(Action::requeue_after(left));
            }
            // Only of this pod, not of a successor.
            let this = Preconditions { uid: pod.uid(), resource_version: None };
            pods.delete(&name, &DeleteParams::default().grace_period(0).preconditions(this)).await?;
        } else if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"namespace": namespace, "name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": self.node}
            });
            let _bound: Value = pods.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
        } else if pod.status.as_ref().is_none_or(|status| status.pod_ip.is_none()) {
            let patch = Patch::Strategic(self.running(&pod));
            pods.patch_status(&name, &PatchParams::default(), &patch).await?;
        }
        Ok(Action::done())
    }

    /// The status of a pod that runs, with the next free address.
    fn running(&self, pod: &Pod) -> Value {
        let ip = Ipv4Addr::from_bits(0xC633_6400 + self.addresses.fetch_add(1, Ordering::Relaxed) % 256);
        let since = Timestamp::now().to_string();
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
        let condition = |name| json!({"type": name, "status": "True", "lastTransitionTime": since});
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": container.image, "ready": true,
                "started": true, "restartCount": 0, "state": {"running": {"startedAt": since}}
            })
        });
        json!({"status": {
            "phase": "Running", "startTime": since, "hostIP": NODE_IP, "hostIPs": [{"ip": NODE_IP}],
            "podIP": ip, "podIPs": [{"ip": ip}], "conditions": conditions.map(condition),
            "containerStatuses": containers.collect::<Vec<_>>()
        }})
    }
}

/// Renews the Lease of the node, before the controller manager considers it dead.
fn heartbeat(node: &str) -> Result<Controller, ConfigError> {
    let handler = async |node: Arc<Node>, client: Client| {
        let now = Timestamp::now().to_string();
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it runs",
            "lastHeartbeatTime": now, "lastTransitionTime": now
        });
        let status = json!({"status": {
            "conditions": [ready], "addresses": [{"type": "InternalIP", "address": NODE_IP}],
            "allocatable": {"pods": "110"}, "capacity": {"pods": "110"}
        }});
        let patch = Patch::Strategic(status);
        Api::<Node>::all(client).patch_status(&node.name_any(), &PatchParams::default(), &patch).await?;
        Ok::<_, kooper::BoxError>(Action::requeue_after(Duration::from_secs(10)))
    };
    Controller::builder::<Node>("heartbeat")
        .fields(format!("metadata.name={node}"))
        .rbac(["nodes/status: patch"])
        .changed([kooper::Changed::Generation])
        .handler(handler)
        .build()
}
