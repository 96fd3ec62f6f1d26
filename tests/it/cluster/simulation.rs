//! The controllers around a test's cluster: pods run, and workloads have pods.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kooper::apiserver::faults::Requests;
use kooper::kube::api::{Api, DeleteParams};
use kooper::prelude::*;
use kooper::testing::Cluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str) -> Pod {
    object(json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}))
}

fn deployment(name: &str, replicas: i32) -> Deployment {
    let labels = json!({"app": name});
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "web:1"}]}
            }
        }
    }))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns whether the rollout to this number of pods is complete.
fn is_rolled_out(deployment: &Deployment, replicas: i32) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    status.observed_generation == deployment.metadata.generation
        && status.replicas.unwrap_or_default() == replicas
        && status.updated_replicas.unwrap_or_default() == replicas
        && status.available_replicas.unwrap_or_default() == replicas
        && status.conditions.iter().flatten().any(|one| one.reason.as_deref() == Some("NewReplicaSetAvailable"))
}

#[kooper::test]
async fn a_pod_runs_on_a_node_until_it_is_deleted(cluster: Cluster) -> Result<()> {
    let pod = cluster.create(&pod("web")).await?;
    let running = cluster.wait(&pod, is_ready).await;
    let status = running.status.unwrap_or_default();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert!(status.pod_ip.is_some());
    let [container] = &status.container_statuses.unwrap_or_default()[..] else { panic!("one container") };
    assert!(container.ready && container.started == Some(true));

    let node = running.spec.and_then(|spec| spec.node_name).unwrap_or_default();
    cluster
        .wait(&*node, |node: &Node| {
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
        .await;

    cluster.delete(&pod).await?;
    // Long before the grace period of thirty seconds.
    cluster.wait_deleted(&pod).await;
    Ok(())
}

#[kooper::test]
async fn a_pod_that_no_node_takes_says_why(cluster: Cluster) -> Result<()> {
    let mut pod = pod("picky");
    pod.spec.get_or_insert_default().node_selector = Some([("disk".to_owned(), "ssd".to_owned())].into());
    let pod = cluster.create(&pod).await?;
    let unscheduled = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
    };
    cluster.wait(&pod, unscheduled).await;
    let node: Node = object(json!({"metadata": {"name": "fast", "labels": {"disk": "ssd"}}}));
    cluster.create(&node).await?;
    let running = cluster.wait(&pod, is_ready).await;
    assert_eq!(running.spec.and_then(|spec| spec.node_name).as_deref(), Some("fast"));
    Ok(())
}

#[kooper::test]
async fn a_pod_waits_for_its_secret(cluster: Cluster) -> Result<()> {
    let pod: Pod = object(json!({"metadata": {"name": "shop"}, "spec": {"containers": [{
        "name": "main", "image": "shop:1",
        "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "password"}}}]
    }]}}));
    let pod = cluster.create(&pod).await?;
    let waits_for = |why: &'static str| {
        move |pod: &Pod| {
            let mut containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            let why_not = containers.find_map(|one| one.state.as_ref()?.waiting.as_ref()?.message.as_deref());
            why_not.is_some_and(|message| message.contains(why))
        }
    };
    cluster.wait(&pod, waits_for("secret \"shop\" not found")).await;
    let secret: Secret = object(json!({"metadata": {"name": "shop"}, "stringData": {"user": "anna"}}));
    let secret = cluster.create(&secret).await?;
    cluster.wait(&pod, waits_for("couldn't find key password in secret ")).await;
    cluster.patch(&secret, json!({"data": {"password": "c2VjcmV0"}})).await?;
    cluster.wait(&pod, is_ready).await;
    Ok(())
}

#[kooper::test]
async fn a_readiness_gate_holds_a_pod_back(cluster: Cluster) -> Result<()> {
    let mut gated = pod("gated");
    gated.spec.get_or_insert_default().readiness_gates = object(json!([{"conditionType": "example.com/open"}]));
    let gated = cluster.create(&gated).await?;
    let runs = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
    let running = cluster.wait(&gated, runs).await;
    assert!(!is_ready(&running));
    let mut conditions = running.status.and_then(|status| status.conditions).unwrap_or_default();
    conditions.push(object(json!({"type": "example.com/open", "status": "True"})));
    cluster.patch_status(&gated, json!({"status": {"conditions": conditions}})).await?;
    cluster.wait(&gated, is_ready).await;
    Ok(())
}

#[kooper::test]
async fn workloads_stay_as_they_are_when_their_controllers_are_stopped(cluster: Cluster) -> Result<()> {
    cluster.stop_workloads().await;
    let pod = cluster.create(&pod("web")).await?;
    let failed = cluster.patch_status(&pod, json!({"status": {"phase": "Failed"}})).await?;
    assert!(failed.spec.is_some_and(|spec| spec.node_name.is_none()));
    assert!(cluster.list::<Node>().await?.is_empty());
    Ok(())
}

#[kooper::test]
async fn the_controllers_of_workloads_meet_no_faults_and_are_not_listed(cluster: Cluster) -> Result<()> {
    let fault = cluster.faults().on(Requests::all()).reply(503);
    let web = cluster.create(&deployment("web", 1)).await?;
    cluster.wait(&web, |web| is_rolled_out(web, 1)).await;
    assert_eq!(fault.times(), 0);
    assert!(cluster.requests().is_empty());
    assert!(cluster.list::<Event>().await?.is_empty());
    Ok(())
}

/// Nodes exist only in tests with pods, so that other tests do not pay for them.
#[kooper::test]
async fn a_test_without_pods_has_no_node(cluster: Cluster) -> Result<()> {
    let config: ConfigMap = object(json!({"metadata": {"name": "settings"}}));
    cluster.create(&config).await?;
    tokio::task::yield_now().await;
    assert!(cluster.list::<Node>().await?.is_empty());
    Ok(())
}

/// A set whose pods have a claim each.
fn stateful_set(replicas: i32) -> StatefulSet {
    let labels = json!({"app": "db"});
    object(json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "db:1"}]}},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            }]
        }
    }))
}

#[kooper::test]
async fn a_stateful_set_has_its_pods_in_order_with_claims(cluster: Cluster) -> Result<()> {
    let is_done = |set: &StatefulSet, replicas: i32| {
        let status = set.status.clone().unwrap_or_default();
        status.observed_generation == set.metadata.generation
            && status.replicas == replicas
            && status.ready_replicas.unwrap_or_default() == replicas
            && status.updated_replicas.unwrap_or_default() == replicas
            && status.current_revision == status.update_revision
    };
    let set = cluster.create(&stateful_set(3)).await?;
    cluster.wait(&set, |set| is_done(set, 3)).await;
    let mut pods: Vec<Pod> = cluster.list().await?;
    pods.sort_by_key(ResourceExt::resource_version);
    assert_eq!(pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["db-0", "db-1", "db-2"]);
    let claims: Vec<PersistentVolumeClaim> = cluster.list().await?;
    assert_eq!(claims.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["data-db-0", "data-db-1", "data-db-2"]);

    cluster.patch(&set, json!({"spec": {"replicas": 1}})).await?;
    cluster.wait(&set, |set| is_done(set, 1)).await;
    assert!(cluster.get::<Pod>("db-0").await?.is_some());
    assert_eq!(cluster.list::<PersistentVolumeClaim>().await?.len(), 3);
    Ok(())
}

#[kooper::test]
async fn a_stateful_set_takes_over_what_another_one_left_behind(cluster: Cluster) -> Result<()> {
    let set = cluster.create(&stateful_set(1)).await?;
    let pod = cluster.wait("db-0", is_ready).await;
    let sets = Api::<StatefulSet>::namespaced(cluster.client(), cluster.namespace());
    sets.delete("db", &DeleteParams::orphan()).await?;
    cluster.wait_deleted(&set).await;
    let again = cluster.create(&stateful_set(1)).await?;
    let serves = |set: &StatefulSet| set.status.as_ref().is_some_and(|status| status.ready_replicas == Some(1));
    cluster.wait(&again, serves).await;
    assert_eq!(cluster.get::<Pod>("db-0").await?.and_then(|pod| pod.uid()), pod.uid());
    let revisions: Vec<ControllerRevision> = cluster.list().await?;
    let [revision] = &revisions[..] else { panic!("one revision: {revisions:?}") };
    assert_eq!(revision.owner_references().first().map(|owner| &owner.uid), again.metadata.uid.as_ref());
    Ok(())
}

#[kooper::test]
async fn a_stateful_set_adopts_no_pod_of_another_name(cluster: Cluster) -> Result<()> {
    let mut other = pod("backup");
    other.labels_mut().insert("app".to_owned(), "db".to_owned());
    cluster.create(&other).await?;
    cluster.create(&stateful_set(1)).await?;
    cluster.wait("db-0", is_ready).await;
    let other: Pod = cluster.get("backup").await?.expect("it exists");
    assert!(other.owner_references().is_empty(), "{other:?}");
    Ok(())
}

#[kooper::test]
async fn a_claim_that_is_replaced(cluster: Cluster) -> Result<()> {
    cluster.create(&stateful_set(1)).await?;
    let pod = cluster.wait("db-0", is_ready).await;
    let claim: PersistentVolumeClaim = cluster.get("data-db-0").await?.expect("the set has made it");
    let finalizers = json!(["kubernetes.io/pvc-protection", "example.com/held"]);
    cluster.patch(&claim, json!({"metadata": {"finalizers": finalizers}})).await?;
    cluster.delete(&claim).await?;
    cluster.delete(&pod).await?;
    cluster.wait_deleted(&pod).await;
    // A pod that was made before would have no claim from now on.
    cluster.patch(&claim, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait("data-db-0", |other: &PersistentVolumeClaim| other.uid() != claim.uid()).await;
    cluster.wait("db-0", is_ready).await;
    Ok(())
}

#[kooper::test]
async fn a_daemon_set_has_a_pod_on_each_node(cluster: Cluster) -> Result<()> {
    let labels = json!({"app": "agent"});
    let set: DaemonSet = object(json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "agent:1"}]}}
        }
    }));
    let is_done = |set: &DaemonSet, nodes: i32| {
        let status = set.status.clone().unwrap_or_default();
        status.observed_generation == set.metadata.generation
            && (status.desired_number_scheduled, status.number_ready) == (nodes, nodes)
            && status.updated_number_scheduled == Some(nodes)
            && status.number_available == Some(nodes)
    };
    let set = cluster.create(&set).await?;
    cluster.wait(&set, |set| is_done(set, 1)).await;
    let second: Node = object(json!({"metadata": {"name": "second"}}));
    let second = cluster.create(&second).await?;
    cluster.wait(&set, |set| is_done(set, 2)).await;
    let mut nodes: Vec<_> =
        cluster.list::<Pod>().await?.into_iter().filter_map(|pod| pod.spec.and_then(|spec| spec.node_name)).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["node-1", "second"]);
    cluster.patch(&second, json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})).await?;
    cluster.wait(&set, |set| is_done(set, 1)).await;
    Ok(())
}

fn job(spec: Value) -> Job {
    let mut spec = spec;
    spec["template"] = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "task:1"}]}});
    object(json!({"metadata": {"name": "task"}, "spec": spec}))
}

fn has_condition(job: &Job, kind: &str) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

#[kooper::test]
async fn a_job_whose_pods_no_node_takes_fails_at_its_deadline(cluster: Cluster) -> Result<()> {
    let mut job = job(json!({"activeDeadlineSeconds": 1}));
    let selector = Some([("disk".to_owned(), "ssd".to_owned())].into());
    job.spec.get_or_insert_default().template.spec.get_or_insert_default().node_selector = selector;
    let job = cluster.create(&job).await?;
    let failed = cluster.wait(&job, |job: &Job| has_condition(job, "Failed")).await;
    assert_eq!(failed.status.and_then(|status| status.failed), Some(1));
    assert!(cluster.list::<Pod>().await?.is_empty());
    Ok(())
}

#[kooper::test]
async fn a_suspended_job_waits(cluster: Cluster) -> Result<()> {
    let job = cluster.create(&job(json!({"suspend": true}))).await?;
    cluster.wait(&job, |job: &Job| has_condition(job, "Suspended")).await;
    assert!(cluster.list::<Pod>().await?.is_empty());
    cluster.patch(&job, json!({"spec": {"suspend": false}})).await?;
    cluster.wait(&job, |job: &Job| has_condition(job, "Complete")).await;
    Ok(())
}

#[kooper::test]
async fn a_service_loses_the_addresses_of_pods_that_are_gone(cluster: Cluster) -> Result<()> {
    let service: Service = object(json!({
        "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    }));
    cluster.create(&service).await?;
    let web = cluster.create(&deployment("web", 2)).await?;
    cluster.wait(&web, |web| is_rolled_out(web, 2)).await;
    let addresses = |count: usize| {
        move |endpoints: &Endpoints| {
            let subsets = endpoints.subsets.iter().flatten();
            subsets.map(|subset| subset.addresses.iter().flatten().count()).sum::<usize>() == count
        }
    };
    cluster.wait("web", addresses(2)).await;
    cluster.delete(&web).await?;
    cluster.wait("web", addresses(0)).await;
    Ok(())
}

#[kooper::test]
async fn a_claim_gets_a_volume_that_goes_with_it(cluster: Cluster) -> Result<()> {
    let claim: PersistentVolumeClaim = object(json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    }));
    let claim = cluster.create(&claim).await?;
    let is_bound = |claim: &PersistentVolumeClaim| {
        claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"))
    };
    let bound = cluster.wait(&claim, is_bound).await;
    let volume = bound.spec.and_then(|spec| spec.volume_name).unwrap_or_default();
    let in_use = |volume: &PersistentVolume| {
        volume.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"))
    };
    let volume = cluster.wait(&*volume, in_use).await;
    cluster.delete(&claim).await?;
    cluster.wait_deleted(&claim).await;
    cluster.wait_deleted(&volume).await;
    Ok(())
}

#[kooper::test]
async fn a_budget_counts_the_pods_that_may_be_evicted(cluster: Cluster) -> Result<()> {
    let budget: PodDisruptionBudget = object(json!({
        "metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    }));
    let budget = cluster.create(&budget).await?;
    cluster.create(&deployment("web", 3)).await?;
    let allows = |budget: &PodDisruptionBudget| {
        budget.status.as_ref().is_some_and(|status| status.disruptions_allowed == Some(1))
    };
    cluster.wait(&budget, allows).await;
    Ok(())
}
