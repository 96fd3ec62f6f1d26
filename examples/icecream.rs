//! A custom resource with a Deployment: the function `deployment` returns it, and the controller creates and
//! corrects it, waits until it is ready, and does not change a Deployment of another owner. The handler reports the pods.
//!
//! The arguments and the children are the permissions: `icecream rbac` prints the
//! role. When an IceCream is deleted, Kubernetes deletes its Deployment.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig, where you apply `icecream.yaml`:
//! `cargo run --bin icecream -- dev`
//!
//! Try, with the KUBECONFIG that it prints: `kubectl scale deployment vanilla --replicas 5`, and
//! `kubectl get deployments`: there are two replicas again. `kubectl get icecream vanilla -o yaml` shows the pods and
//! the condition `Ready`. The API server rejects another `deploymentName`.
//!
//! It is longer than other examples, because it is a whole operator: a kind with rules, a child, a related kind, and a
//! status with conditions.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kooper::capability::by;
use kooper::prelude::*;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};

/// A Deployment with this name and size.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "controller.nicoleh.io", version = "v1alpha1", kind = "IceCream", namespaced, status = "IceCreamStatus")]
#[kube(validation = Rule::new("self.metadata.name.size() <= 63").message("a name has at most 63 characters: it becomes a label"))]
#[serde(rename_all = "camelCase")]
struct IceCreamSpec {
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("make another IceCream for another Deployment"))]
    deployment_name: String,
    #[schemars(range(min = 0, max = 1000))]
    replicas: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
struct IceCreamStatus {
    available_replicas: i32,
    pods: Vec<Scoop>,
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

/// A pod, its node and its address.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
struct Scoop {
    name: String,
    node: Option<String>,
    ip: Option<String>,
}

/// The IceCream that a pod belongs to.
const LABEL: &str = "controller.nicoleh.io/icecream";

/// Reports the pods. The conditions are those of the Deployment.
#[kooper::controller(
    resource = IceCream, children = [deployment], watches = [Pod => icecream_of],
    install_crd, samples = ["icecream.yaml"],
)]
async fn icecream(
    icecream: Arc<IceCream>,
    children: Children<IceCream>,
    pods: Reader<Pod>,
) -> Result<Status<IceCreamStatus>> {
    let there = children.get(deployment)?;
    let available_replicas = there.and_then(|there| there.status.as_ref()?.available_replicas).unwrap_or_default();
    let selection = by::label(LABEL, icecream.name_any()).namespace(icecream.namespace().unwrap_or_default());
    let pods = pods.select(selection).map(|pod| pod.map(|pod| scoop(&pod))).collect::<Result<_, _>>()?;
    Ok(Status(IceCreamStatus { available_replicas, pods, ..IceCreamStatus::default() }))
}

fn icecream_of(pod: &Pod) -> Option<ObjectKey> {
    Some(ObjectKey::new(pod.namespace().as_deref(), pod.labels().get(LABEL)?))
}

/// Only the fields that are decided here; other clients may set the rest.
fn deployment(icecream: &IceCream) -> Result<Deployment> {
    let labels = json!({LABEL: icecream.name_any()});
    Ok(from_value(json!({
        "metadata": {"name": icecream.spec.deployment_name, "labels": labels},
        "spec": {
            "replicas": icecream.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:stable"}]},
            },
        },
    }))?)
}

fn scoop(pod: &Pod) -> Scoop {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    Scoop { name: pod.name_any(), node, ip }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kooper::testing::{Cluster, FakeCluster, Reply};

    #[tokio::test]
    async fn a_deployment_that_is_rejected_is_shown_in_the_status() -> Result<()> {
        let cluster = FakeCluster::new();
        cluster.reply(|sent| {
            (sent.resource == "deployments").then(|| Reply::rejected(403, "Forbidden", "exceeded quota"))
        });
        let mut vanilla = vanilla(2);
        let mut before = Conditions::of(&vanilla, &[]);
        before.ready("AsDeclared", "all children are ready");
        vanilla.status = Some(IceCreamStatus { conditions: before.into_vec(), ..Default::default() });
        let vanilla = cluster.put(&vanilla)?;

        let error = cluster.reconcile(&icecream::controller()?, &ObjectKey::of(&vanilla)).await.unwrap_err();
        assert!(error.source().is_some_and(|reason| reason.to_string().contains("exceeded quota")), "{error:?}");

        let written = cluster.sent().into_iter().find(|sent| sent.subresource.as_deref() == Some("status"));
        let ready = written.ok_or("no status was written")?.body["status"]["conditions"][0].clone();
        assert_eq!(
            (&ready["type"], &ready["status"], &ready["reason"]),
            (&json!("Ready"), &json!("False"), &json!("SlotFailed"))
        );
        Ok(())
    }

    fn vanilla(replicas: i32) -> IceCream {
        IceCream::new("vanilla", IceCreamSpec { deployment_name: "vanilla".to_owned(), replicas })
    }

    #[kooper::explore(icecream, states = [vanilla(1), vanilla(3)], limit = 8, seed = 1)]
    async fn whatever_goes_wrong_an_icecream_is_what_it_should_be(_: Cluster) {}

    #[kooper::explore(icecream, limit = 8, seed = 1)]
    async fn whatever_goes_wrong_an_icecream_leaves_nothing_behind(cluster: Cluster) -> Result<()> {
        let vanilla = cluster.create(&vanilla(1)).await?;
        cluster.settle().await;
        cluster.delete(&vanilla).await?;
        cluster.wait_deleted(&vanilla).await;
        cluster.settle().await;
        match cluster.list::<Deployment>().await?.len() {
            0 => Ok(()),
            _ => Err("its Deployment is left over".into()),
        }
    }
}
