//! Scenarios that end alike here and on a real cluster: the final states, as
//! kube-controller-manager leaves them behind, are recorded beside this file.
//!
//! `KOOPER_TEST_SERVER=real KOOPER_RECORD=1` records them again.

mod state;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kooper::kube::api::{Api, DeleteParams, PropagationPolicy};
use kooper::prelude::*;
use kooper::testing::Cluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::state::ends;

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// The spec of a workload, with other fields.
fn spec(mut fields: Value) -> Value {
    fields["selector"] = json!({"matchLabels": {"app": "web"}});
    if fields["template"].is_null() {
        fields["template"] = template("web:1");
    }
    fields
}

fn deployment(fields: Value) -> Deployment {
    object(json!({"metadata": {"name": "web"}, "spec": spec(fields)}))
}

fn replica_set(fields: Value) -> ReplicaSet {
    object(json!({"metadata": {"name": "web"}, "spec": spec(fields)}))
}

fn stateful_set(mut fields: Value) -> StatefulSet {
    fields["serviceName"] = json!("web");
    object(json!({"metadata": {"name": "web"}, "spec": spec(fields)}))
}

fn daemon_set(fields: Value) -> DaemonSet {
    object(json!({"metadata": {"name": "web"}, "spec": spec(fields)}))
}

fn job(mut fields: Value) -> Job {
    let spec = &mut fields["template"]["spec"];
    spec["restartPolicy"] = json!("Never");
    spec["containers"] = json!([{"name": "main", "image": "task:1"}]);
    object(json!({"metadata": {"name": "task"}, "spec": fields}))
}

fn other_image() -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}})
}

/// Returns whether this number of pods of the current template is available, and no
/// others are left.
fn has(deployment: &Deployment, replicas: i32) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    status.observed_generation == deployment.metadata.generation
        && status.replicas.unwrap_or_default() == replicas
        && status.updated_replicas.unwrap_or_default() == replicas
        && status.available_replicas.unwrap_or_default() == replicas
}

fn set_has(set: &StatefulSet, replicas: i32) -> bool {
    let status = set.status.clone().unwrap_or_default();
    status.observed_generation == set.metadata.generation
        && status.replicas == replicas
        && status.available_replicas.unwrap_or_default() == replicas
}

async fn create_deployment(cluster: &Cluster, fields: Value, replicas: i32) -> Result<Deployment> {
    let web = cluster.create(&deployment(fields)).await?;
    Ok(cluster.wait(&web, |web| has(web, replicas)).await)
}

async fn create_set(cluster: &Cluster, fields: Value, replicas: i32) -> Result<StatefulSet> {
    let web = cluster.create(&stateful_set(fields)).await?;
    Ok(cluster.wait(&web, |web| set_has(web, replicas)).await)
}

/// A test for each scenario, whose steps end with `Ok`.
macro_rules! scenarios {
    ($($name:ident: |$cluster:ident| $steps:block)*) => {
        $(#[kooper::test]
        async fn $name($cluster: Cluster) -> Result<()> {
            let $cluster = $cluster.with_timeout(state::TIMEOUT);
            $steps
            ends(&$cluster, stringify!($name)).await
        })*
    };
}

scenarios! {
    a_deployment: |cluster| {
        create_deployment(&cluster, json!({"replicas": 3}), 3).await?;
    }
    a_deployment_scaled_down: |cluster| {
        let web = create_deployment(&cluster, json!({"replicas": 3}), 3).await?;
        cluster.patch(&web, json!({"spec": {"replicas": 1}})).await?;
    }
    a_deployment_scaled_to_zero: |cluster| {
        let web = create_deployment(&cluster, json!({"replicas": 2}), 2).await?;
        cluster.patch(&web, json!({"spec": {"replicas": 0}})).await?;
    }
    a_deployment_rolled: |cluster| {
        let web = create_deployment(&cluster, json!({"replicas": 3}), 3).await?;
        cluster.patch(&web, other_image()).await?;
    }
    a_deployment_rolled_back: |cluster| {
        let web = create_deployment(&cluster, json!({"replicas": 2}), 2).await?;
        cluster.patch(&web, other_image()).await?;
        cluster.wait(&web, |web| has(web, 2)).await;
        cluster.patch(&web, json!({"spec": {"template": template("web:1")}})).await?;
    }
    a_deployment_recreated: |cluster| {
        let web = create_deployment(&cluster, json!({"replicas": 2, "strategy": {"type": "Recreate"}}), 2).await?;
        cluster.patch(&web, other_image()).await?;
    }
    a_deployment_without_history: |cluster| {
        let web = create_deployment(&cluster, json!({"replicas": 2, "revisionHistoryLimit": 0}), 2).await?;
        cluster.patch(&web, other_image()).await?;
    }
    a_paused_deployment: |cluster| {
        let web = create_deployment(&cluster, json!({"replicas": 2}), 2).await?;
        let mut change = other_image();
        change["spec"]["paused"] = json!(true);
        change["spec"]["replicas"] = json!(3);
        cluster.patch(&web, change).await?;
    }
    a_deployment_that_no_node_takes: |cluster| {
        let mut picky = template("web:1");
        picky["spec"]["nodeSelector"] = json!({"disk": "ssd"});
        cluster.create(&deployment(json!({"replicas": 2, "template": picky}))).await?;
    }
    a_rollout_that_is_stuck: |cluster| {
        let web = create_deployment(&cluster, json!({"replicas": 4}), 4).await?;
        cluster.patch(&web, json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}})).await?;
    }
    a_deployment_deleted: |cluster| {
        let web = create_deployment(&cluster, json!({"replicas": 2}), 2).await?;
        cluster.delete(&web).await?;
    }
    a_deployment_deleted_in_the_foreground: |cluster| {
        create_deployment(&cluster, json!({"replicas": 2}), 2).await?;
        delete_with(&cluster, "web", PropagationPolicy::Foreground).await?;
    }
    a_deployment_whose_pods_are_orphaned: |cluster| {
        create_deployment(&cluster, json!({"replicas": 2}), 2).await?;
        delete_with(&cluster, "web", PropagationPolicy::Orphan).await?;
    }
    a_replica_set_that_adopts: |cluster| {
        let single: Pod = object(json!({
            "metadata": {"name": "single", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "web:1"}]}
        }));
        cluster.create(&single).await?;
        cluster.create(&replica_set(json!({"replicas": 2}))).await?;
    }
    a_replica_set_that_releases: |cluster| {
        let set = cluster.create(&replica_set(json!({"replicas": 1}))).await?;
        let ready = |set: &ReplicaSet| set.status.as_ref().is_some_and(|status| status.ready_replicas == Some(1));
        cluster.wait(&set, ready).await;
        for pod in cluster.list::<Pod>().await? {
            cluster.patch(&pod, json!({"metadata": {"labels": {"app": null}}})).await?;
        }
    }
    a_stateful_set: |cluster| {
        create_set(&cluster, json!({"replicas": 3}), 3).await?;
    }
    a_stateful_set_scaled_down: |cluster| {
        let web = create_set(&cluster, json!({"replicas": 3}), 3).await?;
        cluster.patch(&web, json!({"spec": {"replicas": 1}})).await?;
    }
    a_stateful_set_rolled: |cluster| {
        let web = create_set(&cluster, json!({"replicas": 2}), 2).await?;
        cluster.patch(&web, other_image()).await?;
    }
    a_stateful_set_rolled_in_part: |cluster| {
        let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
        let web = create_set(&cluster, json!({"replicas": 3, "updateStrategy": partition}), 3).await?;
        cluster.patch(&web, other_image()).await?;
    }
    a_stateful_set_that_rolls_on_delete: |cluster| {
        let strategy = json!({"type": "OnDelete"});
        let web = create_set(&cluster, json!({"replicas": 2, "updateStrategy": strategy}), 2).await?;
        cluster.patch(&web, other_image()).await?;
    }
    a_parallel_stateful_set: |cluster| {
        let web = create_set(&cluster, json!({"replicas": 3, "podManagementPolicy": "Parallel"}), 3).await?;
        cluster.patch(&web, json!({"spec": {"replicas": 2}})).await?;
    }
    a_daemon_set: |cluster| {
        cluster.create(&daemon_set(json!({}))).await?;
    }
    a_daemon_set_rolled: |cluster| {
        let web = cluster.create(&daemon_set(json!({}))).await?;
        let ready = |web: &DaemonSet| web.status.as_ref().is_some_and(|status| status.number_available == Some(1));
        cluster.wait(&web, ready).await;
        cluster.patch(&web, other_image()).await?;
    }
    a_job: |cluster| {
        cluster.create(&job(json!({"completions": 3, "parallelism": 2}))).await?;
    }
    an_indexed_job: |cluster| {
        cluster.create(&job(json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"}))).await?;
    }
    a_suspended_job: |cluster| {
        cluster.create(&job(json!({"suspend": true}))).await?;
    }
    a_job_that_is_suspended_later: |cluster| {
        let picky = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
        let task = cluster.create(&job(json!({"backoffLimit": 0, "template": picky}))).await?;
        cluster.wait(&task, |task: &Job| task.status.as_ref().is_some_and(|status| status.active == Some(1))).await;
        cluster.patch(&task, json!({"spec": {"suspend": true}})).await?;
    }
    a_job_that_fails: |cluster| {
        let picky = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
        let task = cluster.create(&job(json!({"backoffLimit": 0, "template": picky}))).await?;
        cluster.wait(&task, |task: &Job| task.status.as_ref().is_some_and(|status| status.active == Some(1))).await;
        for pod in cluster.list::<Pod>().await? {
            // The scheduler has looked for a node.
            cluster.wait(&pod, |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.conditions.is_some())).await;
            cluster.patch_status(&pod, json!({"status": {"phase": "Failed"}})).await?;
        }
    }
    a_service: |cluster| {
        let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
        let service: Service =
            object(json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}));
        cluster.create(&service).await?;
        create_deployment(&cluster, json!({"replicas": 2}), 2).await?;
    }
    a_budget: |cluster| {
        let budget: PodDisruptionBudget = object(json!({
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}}
        }));
        cluster.create(&budget).await?;
        create_deployment(&cluster, json!({"replicas": 3}), 3).await?;
    }
}

async fn delete_with(cluster: &Cluster, name: &str, policy: PropagationPolicy) -> Result<()> {
    let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    Api::<Deployment>::namespaced(cluster.client(), cluster.namespace()).delete(name, &params).await?;
    Ok(())
}
