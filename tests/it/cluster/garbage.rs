//! Owners and dependents, and the end of namespaces: the same on the embedded server, on a real one with
//! kube-controller-manager, and on a real one without.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kooper::kube::Resource;
use kooper::kube::api::{Api, DeleteParams, PropagationPolicy};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper_tests::control_plane;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::run_tests;

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn config(name: &str) -> ConfigMap {
    object(json!({"metadata": {"name": name}}))
}

/// A Secret that an owner has, and that its owner waits for.
fn secret_of<O: Resource<DynamicType = ()>>(name: &str, owner: &O) -> Secret {
    let mut secret: Secret = object(json!({"metadata": {"name": name}}));
    let mut reference = owner.owner_ref(&()).unwrap();
    reference.block_owner_deletion = Some(true);
    secret.metadata.owner_references = Some(vec![reference]);
    secret
}

fn configs(cluster: &Cluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client(), cluster.namespace())
}

fn with(policy: PropagationPolicy) -> DeleteParams {
    DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() }
}

#[kooper::test]
async fn a_dependent_is_deleted_with_its_last_owner(cluster: Cluster) -> Result<()> {
    let one = cluster.create(&config("one")).await?;
    let other = cluster.create(&config("other")).await?;
    let mut shared = secret_of("shared", &one);
    shared.metadata.owner_references.get_or_insert_default().extend(other.owner_ref(&()));
    let shared = cluster.create(&shared).await?;
    let alone = cluster.create(&secret_of("alone", &one)).await?;

    cluster.delete(&one).await?;
    cluster.wait_deleted(&alone).await;
    cluster.wait(&shared, |shared: &Secret| shared.owner_references().len() == 1).await;
    cluster.delete(&other).await?;
    cluster.wait_deleted(&shared).await;
    Ok(())
}

/// An owner that is deleted in the foreground, and its dependent, which a finalizer holds.
async fn held_in_the_foreground(cluster: &Cluster) -> Result<(ConfigMap, Secret)> {
    let owner = cluster.create(&config("owner")).await?;
    let mut held = secret_of("held", &owner);
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    let held = cluster.create(&held).await?;

    configs(cluster).delete("owner", &with(PropagationPolicy::Foreground)).await?;
    cluster.wait(&held, |held: &Secret| held.metadata.deletion_timestamp.is_some()).await;
    Ok((owner, held))
}

#[kooper::test]
async fn an_owner_waits_in_the_foreground(cluster: Cluster) -> Result<()> {
    let (owner, held) = held_in_the_foreground(&cluster).await?;
    assert!(cluster.get::<ConfigMap>("owner").await?.is_some());
    cluster.patch(&held, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&owner).await;
    Ok(())
}

#[kooper::test]
async fn what_an_owner_has_lost_outlives_it(cluster: Cluster) -> Result<()> {
    let owner = cluster.create(&config("owner")).await?;
    let lost = cluster.create(&secret_of("lost", &owner)).await?;
    let again = cluster.create(&secret_of("again", &owner)).await?;
    let owned = cluster.create(&secret_of("owned", &owner)).await?;
    for secret in [&lost, &again] {
        cluster.patch(secret, json!({"metadata": {"ownerReferences": null}})).await?;
    }
    cluster.delete(&again).await?;
    cluster.wait_deleted(&again).await;
    let secret: Secret = object(json!({"metadata": {"name": "again"}}));
    let again = cluster.create(&secret).await?;

    configs(&cluster).delete("owner", &with(PropagationPolicy::Foreground)).await?;
    cluster.wait_deleted(&owner).await;
    cluster.wait_deleted(&owned).await;
    for secret in [&lost, &again] {
        let stays = cluster.get::<Secret>(secret).await?;
        assert!(stays.is_some_and(|secret| secret.metadata.deletion_timestamp.is_none()));
    }
    Ok(())
}

#[kooper::test]
async fn an_owner_waits_for_nothing_that_it_has_lost(cluster: Cluster) -> Result<()> {
    let (owner, held) = held_in_the_foreground(&cluster).await?;
    cluster.patch(&held, json!({"metadata": {"ownerReferences": null}})).await?;
    cluster.wait_deleted(&owner).await;
    assert!(cluster.get::<Secret>(&held).await?.is_some());
    cluster.patch(&held, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&held).await;
    Ok(())
}

#[kooper::test]
async fn what_waits_in_the_foreground_waits_without_its_owner(cluster: Cluster) -> Result<()> {
    let above = cluster.create(&config("above")).await?;
    let (waiting, held) = held_in_the_foreground(&cluster).await?;
    cluster.patch(&waiting, json!({"metadata": {"ownerReferences": [above.owner_ref(&())]}})).await?;
    cluster.delete(&above).await?;
    cluster.wait_deleted(&above).await;
    assert!(cluster.get::<ConfigMap>(&waiting).await?.is_some());
    cluster.patch(&held, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&waiting).await;
    Ok(())
}

#[kooper::test]
async fn each_owner_waits_for_what_is_being_deleted(cluster: Cluster) -> Result<()> {
    let one = cluster.create(&config("one")).await?;
    let other = cluster.create(&config("other")).await?;
    let mut held = secret_of("held", &one);
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    held.metadata.owner_references.get_or_insert_default().extend(other.owner_ref(&()));
    let held = cluster.create(&held).await?;
    cluster.delete(&held).await?;

    configs(&cluster).delete("one", &with(PropagationPolicy::Foreground)).await?;
    assert!(cluster.get::<ConfigMap>(&one).await?.is_some());
    cluster.patch(&held, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&one).await;
    assert!(cluster.get::<ConfigMap>(&other).await?.is_some());
    Ok(())
}

#[kooper::test]
async fn owners_that_block_each_other_are_deleted_in_the_foreground(cluster: Cluster) -> Result<()> {
    let one = cluster.create(&config("one")).await?;
    let other = cluster.create(&secret_of("other", &one)).await?;
    let mut reference = other.owner_ref(&()).unwrap();
    reference.block_owner_deletion = Some(true);
    cluster.patch(&one, json!({"metadata": {"ownerReferences": [reference]}})).await?;

    configs(&cluster).delete("one", &with(PropagationPolicy::Foreground)).await?;
    cluster.wait_deleted(&one).await;
    cluster.wait_deleted(&other).await;
    Ok(())
}

#[kooper::test]
async fn orphans_stay(cluster: Cluster) -> Result<()> {
    let owner = cluster.create(&config("owner")).await?;
    let orphan = cluster.create(&secret_of("orphan", &owner)).await?;

    configs(&cluster).delete("owner", &with(PropagationPolicy::Orphan)).await?;
    cluster.wait_deleted(&owner).await;
    let orphan = cluster.get::<Secret>(&orphan).await?;
    assert!(orphan.is_some_and(|orphan| orphan.owner_references().is_empty()));
    Ok(())
}

#[kooper::test]
async fn an_object_in_no_namespace_has_no_owner_in_one(cluster: Cluster) -> Result<()> {
    let owner = cluster.create(&config("owner")).await?;
    let mut role: ClusterRole = object(json!({"metadata": {"name": format!("{}-kept", cluster.namespace())}}));
    role.metadata.owner_references = Some(vec![owner.owner_ref(&()).unwrap()]);
    let role = cluster.create(&role).await?;
    let dependent = cluster.create(&secret_of("dependent", &owner)).await?;

    cluster.delete(&owner).await?;
    cluster.wait_deleted(&dependent).await;
    assert!(cluster.get::<ClusterRole>(&role).await?.is_some());
    cluster.delete(&role).await?;
    Ok(())
}

#[kooper::test]
async fn a_deployment_takes_its_pods_along(cluster: Cluster) -> Result<()> {
    let web: Deployment = object(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}
        }}
    }));
    let web = cluster.create(&web).await?;
    let ready = |web: &Deployment| web.status.as_ref().and_then(|status| status.ready_replicas) == Some(2);
    cluster.wait(&web, ready).await;
    let pods: Vec<Pod> = cluster.list().await?;

    cluster.delete(&web).await?;
    for pod in &pods {
        cluster.wait_deleted(pod).await;
    }
    Ok(())
}

#[kooper::test]
async fn the_pods_of_a_job_stay_unless_a_policy_is_set(cluster: Cluster) -> Result<()> {
    let job = |name: &str| -> Job {
        object(json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "web:1"}]
        }}}}))
    };
    let is_complete = |job: &Job| job.status.as_ref().and_then(|status| status.succeeded) == Some(1);
    let jobs: Api<Job> = Api::namespaced(cluster.client(), cluster.namespace());
    for name in ["kept", "removed"] {
        let job = cluster.create(&job(name)).await?;
        cluster.wait(&job, is_complete).await;
    }
    let of = |pods: Vec<Pod>, name: &str| -> Vec<Pod> {
        pods.into_iter().filter(|pod| pod.labels().get("job-name").is_some_and(|job| job == name)).collect()
    };

    jobs.delete("removed", &DeleteParams::background()).await?;
    for pod in of(cluster.list().await?, "removed") {
        cluster.wait_deleted(&pod).await;
    }
    jobs.delete("kept", &DeleteParams::default()).await?;
    cluster.wait_deleted(&job("kept")).await;
    let kept = of(cluster.list().await?, "kept");
    assert!(kept.len() == 1 && kept[0].owner_references().is_empty());
    Ok(())
}

/// Deletes a namespace whose only object is held by a finalizer.
async fn ends_when_it_is_empty(cluster: &Cluster, params: &DeleteParams) -> Result<()> {
    let name = format!("{}-more", cluster.namespace());
    let namespace: Namespace = object(json!({"metadata": {"name": name}}));
    let namespace = cluster.create(&namespace).await?;
    let mut inside = config("inside");
    inside.metadata.namespace = Some(name.clone());
    inside.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    let inside = cluster.create(&inside).await?;

    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces.delete(&name, params).await?;
    cluster.wait(&inside, |inside: &ConfigMap| inside.metadata.deletion_timestamp.is_some()).await;
    let ending = cluster.get::<Namespace>(&namespace).await?;
    let phase = ending.and_then(|ending| ending.status).and_then(|status| status.phase);
    assert_eq!(phase.as_deref(), Some("Terminating"));
    cluster.patch(&inside, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&namespace).await;
    Ok(())
}

#[kooper::test]
async fn a_namespace_ends_when_it_is_empty(cluster: Cluster) -> Result<()> {
    ends_when_it_is_empty(&cluster, &DeleteParams::default()).await
}

#[kooper::test]
async fn a_namespace_that_is_deleted_in_the_foreground_ends_when_it_is_empty(cluster: Cluster) -> Result<()> {
    ends_when_it_is_empty(&cluster, &with(PropagationPolicy::Foreground)).await
}

#[test]
fn the_same_holds_on_the_real_server_with_and_without_its_controllers() {
    let Some(assets) = control_plane::assets() else { return };
    let bare = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-controllers");
    std::fs::create_dir_all(&bare).expect("the folder of tests can be written");
    for program in ["etcd", "kube-apiserver", "kubectl"] {
        let link = bare.join(program);
        drop(std::fs::remove_file(&link));
        std::os::unix::fs::symlink(assets.join(program), link).expect("a link can be made");
    }
    let tests = [
        "a_dependent_is_deleted_with_its_last_owner",
        "an_owner_waits_in_the_foreground",
        "what_an_owner_has_lost_outlives_it",
        "an_owner_waits_for_nothing_that_it_has_lost",
        "what_waits_in_the_foreground_waits_without_its_owner",
        "each_owner_waits_for_what_is_being_deleted",
        "owners_that_block_each_other_are_deleted_in_the_foreground",
        "orphans_stay",
        "an_object_in_no_namespace_has_no_owner_in_one",
        "a_deployment_takes_its_pods_along",
        "the_pods_of_a_job_stay_unless_a_policy_is_set",
        "a_namespace_ends_when_it_is_empty",
        "a_namespace_that_is_deleted_in_the_foreground_ends_when_it_is_empty",
    ];
    for assets in [assets, &bare] {
        let assets = assets.to_str().expect("a path in UTF-8");
        let set = [("KOOPER_TEST_SERVER", "real"), ("KUBEBUILDER_ASSETS", assets)];
        let (passed, printed) = run_tests(&tests.map(|name| format!("cluster::garbage::{name}")), &[], &set);
        assert!(passed, "{assets}\n{printed}");
    }
}
