//! Chaos on demand: each PodTerminator periodically deletes some of the pods
//! that it selects, in a daemon: a function that runs until the PodTerminator changes.
//!
//! Pods that have finished or are being deleted are not counted. Pods of
//! `kube-system` and of the operator's own namespace are not deleted unless
//! `namespaces` lists the namespace. The operator's namespace is that of its pod
//! or, outside a cluster, that of the kubeconfig's context.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig, where you apply
//! `pod_terminator.yaml`:
//! `cargo run --bin pod-terminator-operator -- dev`
//!
//! Try, with the KUBECONFIG that it prints: `kubectl get pods --watch`: three of five pods are terminated, and two
//! remain. After `kubectl patch podterminator web --type merge -p '{"spec": {"dryRun": true}}'`, a new daemon logs
//! which of the pods that you create `would be terminated`. When the PodTerminator is deleted, the log has `its daemon
//! ends`.
//!
//! It is longer than other examples, because the limits of what it deletes are part of its kind.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;
use kube::CustomResource;
use kube::api::{Api, ListParams};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

/// Which pods to terminate, how many and how often.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(group = "chaos.spotahome.com", version = "v1alpha1", kind = "PodTerminator", status = "PodTerminatorStatus")]
#[kube(shortname = "pt", category = "terminators", category = "killers", category = "gc")]
#[serde(rename_all = "camelCase", default)]
struct PodTerminatorSpec {
    /// The labels of the pods. Without labels, no pod is terminated.
    selector: BTreeMap<String, String>,
    /// Only pods of these namespaces. Default: all but `kube-system` and the operator's own.
    namespaces: Vec<String>,
    /// The period. Default: 300.
    #[schemars(range(min = 1))]
    period_seconds: Option<i32>,
    /// The percentage of the pods to terminate, rounded down.
    #[schemars(range(min = 0, max = 100))]
    termination_percent: i32,
    /// The least number of pods that remain.
    #[schemars(range(min = 0))]
    minimum_instances: i32,
    /// Only log what would be terminated.
    dry_run: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct PodTerminatorStatus {
    conditions: Vec<Condition>,
}

/// Reports whether the selector of a PodTerminator can be used.
#[kooper::controller(
    resource = PodTerminator, daemon = terminate, install_crd, leader_election, rbac("pods: list"),
    samples = ["pod_terminator.yaml"],
)]
async fn pod_terminator(terminator: Arc<PodTerminator>) -> Status<PodTerminatorStatus> {
    let before = terminator.status.clone().unwrap_or_default();
    let mut conditions = Conditions::of(&terminator, &before.conditions);
    match terminator.spec.selector.is_empty() {
        true => conditions.not_ready("NoSelector", "`selector` is empty, and would select every pod: set labels"),
        false => conditions.ready("Accepted", "the selector is valid"),
    };
    Status(PodTerminatorStatus { conditions: conditions.into_vec() })
}

/// Terminates some pods in each period. A changed PodTerminator, and the end of leadership, end it.
async fn terminate(terminator: Arc<PodTerminator>, client: Client, pods: Deleter<Pod>) -> Result<()> {
    let spec = &terminator.spec;
    if spec.selector.is_empty() {
        return Ok(());
    }
    tracing::info!(?spec, "its daemon begins");
    let _ends = Ends;
    let period = Duration::from_secs(spec.period_seconds.unwrap_or(300).max(1).unsigned_abs().into());
    loop {
        sleep(period).await;
        terminate_once(spec, &client, &pods).await?;
    }
}

/// Logs the end of a daemon, which is dropped.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        tracing::info!("its daemon ends");
    }
}

/// Lists the pods from the API server each time: with an old cache it would terminate too many.
async fn terminate_once(spec: &PodTerminatorSpec, client: &Client, pods: &Deleter<Pod>) -> Result<()> {
    let labels: Vec<_> = spec.selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let selected = ListParams::default().labels(&labels.join(","));
    let mut victims = Api::<Pod>::all(client.clone()).list(&selected).await?.items;
    victims.retain(|pod| spec.counts(pod, client.default_namespace()));
    fastrand::shuffle(&mut victims);
    for victim in &victims[..spec.share(victims.len())] {
        if !spec.dry_run {
            pods.delete_object(victim).await?;
        }
        let (namespace, name) = (victim.namespace(), victim.name_any());
        tracing::info!(namespace, name, "{}", if spec.dry_run { "would be terminated" } else { "is terminated" });
    }
    Ok(())
}

impl PodTerminatorSpec {
    /// Returns whether the pod can be terminated: it is in one of the selected namespaces, has not
    /// finished and is not being deleted.
    fn counts(&self, pod: &Pod, own: &str) -> bool {
        let namespace = pod.namespace().unwrap_or_default();
        let named = match self.namespaces.is_empty() {
            true => namespace != "kube-system" && namespace != own,
            false => self.namespaces.contains(&namespace),
        };
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        named && pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
    }

    /// The number of pods to terminate.
    fn share(&self, total: usize) -> usize {
        let number = |number: i32| usize::try_from(number).unwrap_or_default();
        (total * number(self.termination_percent) / 100).min(total.saturating_sub(number(self.minimum_instances)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kooper::testing::Cluster;
    use serde_json::{from_value, json};

    /// Keeps two pods.
    fn terminator(period: i32, termination_percent: i32) -> PodTerminator {
        let selector = [("app".to_owned(), "web".to_owned())].into();
        let spec = PodTerminatorSpec { selector, namespaces: vec!["default".to_owned()], ..Default::default() };
        let limits = PodTerminatorSpec { period_seconds: Some(period), minimum_instances: 2, ..spec };
        PodTerminator::new("web", PodTerminatorSpec { termination_percent, ..limits })
    }

    async fn create_pods(cluster: &Cluster) -> Result<()> {
        for _ in 0..5 {
            let pod: Pod = from_value(json!({
                "metadata": {"generateName": "web-", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            }))?;
            cluster.create(&pod).await?;
        }
        Ok(())
    }

    /// Whichever of these is the current one, two pods remain.
    #[kooper::explore(pod_terminator, states = [terminator(60, 50), terminator(90, 100)], limit = 8, seed = 1)]
    async fn whatever_goes_wrong_the_least_number_of_pods_remains(cluster: Cluster) -> Result<()> {
        create_pods(&cluster).await
    }

    #[kooper::explore(pod_terminator, limit = 8, seed = 1)]
    async fn whatever_goes_wrong_a_terminator_that_is_deleted_terminates_no_pods(cluster: Cluster) -> Result<()> {
        let terminator = cluster.create(&terminator(300, 100)).await?;
        cluster.settle().await;
        cluster.delete(&terminator).await?;
        cluster.wait_deleted(&terminator).await;
        create_pods(&cluster).await?;
        cluster.settle().await;
        match cluster.list::<Pod>().await?.len() {
            5 => Ok(()),
            left => Err(format!("{left} of 5 pods are left").into()),
        }
    }
}
