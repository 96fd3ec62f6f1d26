//! Children of slots that were removed from the program.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret, Service};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kooper::apiserver::faults::Verb;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{ConfigError, ConfigErrorKind, Controller};
use kooper_children::{SlotExt, declare};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};

use super::{
    Shop, config, controller, controller_of, corner, fields, front, is_ready, password, ready, run_ready, run_settled,
    shelves, writes,
};

/// A version of the program with one of its slots.
fn without_web() -> Result<Controller, ConfigError> {
    let children = declare().child(config).previous_children::<Deployment>().previous_children::<Service>();
    controller_of(&children.status(fields).build().expect("the slot is right"))
}

/// A shop with the children of all slots, whose program has stopped.
async fn left(cluster: &Cluster) -> Result<Shop> {
    let (running, shop) = run_ready(cluster, controller()?, &corner("a", true, &["1"])).await?;
    running.stop().await?;
    Ok(shop)
}

async fn exists<T: Kind>(cluster: &Cluster, name: &str) -> Result<bool> {
    Ok(cluster.get::<T>(name).await?.is_some())
}

fn deleted(cluster: &Cluster) -> Vec<String> {
    let writes = writes(cluster, &["configmaps", "secrets", "deployments.apps", "services"]);
    writes.iter().filter_map(|write| write.strip_prefix("delete ")).map(str::to_owned).collect()
}

async fn kept(cluster: &Cluster) -> Result<Vec<String>> {
    let events: Vec<Event> = cluster.list().await?;
    let kept = events.into_iter().filter(|event| event.reason.as_deref() == Some("Kept"));
    Ok(kept.filter_map(|event| event.message).collect())
}

#[kooper::test(start_paused = true)]
async fn children_of_removed_slots_are_pruned_if_their_kind_is_listed(cluster: Cluster) -> Result<()> {
    left(&cluster).await?;
    let running = cluster.run([without_web()?]).await?;
    cluster.settle().await;
    assert!(!exists::<Deployment>(&cluster, "corner").await?);
    assert!(!exists::<Service>(&cluster, "corner-front").await?);
    assert_eq!(deleted(&cluster), ["services", "deployments.apps"], "the deepest first");
    assert!(exists::<Secret>(&cluster, "corner-password").await?, "this kind is not listed");
    assert!(exists::<ConfigMap>(&cluster, "corner-shelf-1").await?, "this kind is that of a slot, and is not listed");
    assert!(is_ready(&cluster.get("corner").await?.ok_or("there is no Shop")?));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn children_of_removed_slots_are_pruned_also_if_their_kind_has_another_slot(cluster: Cluster) -> Result<()> {
    left(&cluster).await?;
    let children = declare().child(config).previous_children::<ConfigMap>().status(fields).build()?;
    let running = cluster.run([controller_of(&children)?]).await?;
    cluster.settle().await;
    assert!(!exists::<ConfigMap>(&cluster, "corner-shelf-1").await?);
    assert!(exists::<ConfigMap>(&cluster, "corner-a").await?);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn all_slots_may_have_been_removed(cluster: Cluster) -> Result<()> {
    left(&cluster).await?;
    let children = declare().previous_children::<Service>().previous_children::<Secret>().status(fields).build()?;
    let controller = Shop::controller("shops").install_crd().handler(children.handler(async || {}));
    let running = cluster.run([controller.build()?]).await?;
    cluster.settle().await;
    assert_eq!(deleted(&cluster), ["services", "secrets"]);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn nothing_is_pruned_while_a_slot_fails(cluster: Cluster) -> Result<()> {
    let shop = left(&cluster).await?;
    cluster.patch(&shop, json!({"spec": {"broken": true}})).await?;
    let running = cluster.run([without_web()?]).await?;
    cluster.settle().await;
    assert_eq!(deleted(&cluster), Vec::<String>::new());
    cluster.patch(&shop, json!({"spec": {"broken": false}})).await?;
    cluster.settle().await;
    assert_eq!(deleted(&cluster), ["services", "deployments.apps"]);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_status_names_a_child_of_a_removed_slot_that_is_not_deleted(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let shop = left(&cluster).await?;
    let service: Service = cluster.get("corner-front").await?.ok_or("there is no Service")?;
    cluster.patch(&service, json!({"metadata": {"finalizers": ["example.com/other"]}})).await?;
    let refused = cluster.faults().on(Verb::Delete.of("services")).reply(403);
    let running = cluster.run([without_web()?]).await?;
    let says = |reason: &'static str| {
        move |shop: &Shop| {
            let is_named = |ready: &&Condition| ready.reason == reason && ready.message.contains("corner-front");
            ready(shop).filter(is_named).is_some_and(|ready| ready.status == "False")
        }
    };
    cluster.wait(&shop, says("SlotFailed")).await;
    refused.lift();
    cluster.wait(&shop, says("Pruning")).await;
    cluster.settle().await;
    assert!(exists::<Deployment>(&cluster, "corner").await?, "the Service still exists");
    cluster.patch(&service, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait(&shop, is_ready).await;
    cluster.settle().await;
    assert!(!exists::<Deployment>(&cluster, "corner").await?);
    running.stop().await
}

/// The function `front` under another name.
fn facade(shop: &Shop) -> Result<Option<Service>> {
    front(shop)
}

#[kooper::test(start_paused = true)]
async fn the_child_of_a_renamed_function_gets_its_label_and_stays(cluster: Cluster) -> Result<()> {
    left(&cluster).await?;
    let before: Service = cluster.get("corner-front").await?.ok_or("there is no Service")?;
    let children = declare().child(facade).previous_children::<Service>().status(fields).build()?;
    let running = cluster.run([controller_of(&children)?]).await?;
    cluster.settle().await;
    let now: Service = cluster.get("corner-front").await?.ok_or("it is gone")?;
    assert_eq!((now.uid(), &*now.labels()["kooper.rs/slot"]), (before.uid(), "facade"));
    assert_eq!(deleted(&cluster), Vec::<String>::new());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn what_a_removed_slot_has_adopted_or_kept_is_kept_with_an_event(cluster: Cluster) -> Result<()> {
    let shop = corner("a", true, &["1"]);
    cluster.create(&config(&shop)?).await?;
    let (config, front) = (config.slot().adopt(), front.slot().adopt());
    let children = declare().child(config).child(password).child(shelves.slot().keep()).child(front).build()?;
    let (running, shop) = run_settled(&cluster, controller_of(&children)?, &shop).await?;
    let password: Secret = cluster.get("corner-password").await?.ok_or("there is no Secret")?;
    cluster.patch(&password, json!({"metadata": {"annotations": {"kooper.rs/keep": "yes"}}})).await?;
    running.stop().await?;

    let children = declare().previous_children::<ConfigMap>().previous_children::<Secret>();
    let children = children.previous_children::<Service>().build()?;
    let running = cluster.run([controller_of(&children)?]).await?;
    cluster.settle().await;
    cluster.patch(&shop, json!({"metadata": {"annotations": {"example.com/note": "a call"}}})).await?;
    cluster.settle().await;
    assert_eq!(deleted(&cluster), ["services"], "the slot has created it");
    let mut events = kept(&cluster).await?;
    events.sort();
    let names = events.iter().map(|text| text.split_once(": ").map_or("", |(slot, _)| slot));
    assert_eq!(names.collect::<Vec<_>>(), ["config", "password", "shelves"], "once for each child");

    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    cluster.settle().await;
    let shelf: ConfigMap = cluster.get("corner-shelf-1").await?.ok_or("it is gone")?;
    assert!(shelf.owner_references().is_empty());
    assert!(exists::<Secret>(&cluster, "corner-password").await?);
    assert!(!exists::<ConfigMap>(&cluster, "corner-a").await?, "what was adopted is deleted with its owner");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_slot_that_no_longer_keeps_its_child_says_so_before_it_is_removed(cluster: Cluster) -> Result<()> {
    let keeps = declare().child(password.slot().once().keep()).build()?;
    let (running, _) = run_settled(&cluster, controller_of(&keeps)?, &corner("a", false, &[])).await?;
    running.stop().await?;
    let labels = async || -> Result<_> {
        let password: Secret = cluster.get("corner-password").await?.ok_or("it is gone")?;
        Ok(password.labels().clone())
    };
    assert_eq!(labels().await?["kooper.rs/kept"], "true");

    let running = cluster.run([controller_of(&declare().child(password.slot().once()).build()?)?]).await?;
    cluster.settle().await;
    assert!(!labels().await?.contains_key("kooper.rs/kept"));
    running.stop().await?;

    let running = cluster.run([controller_of(&declare().previous_children::<Secret>().build()?)?]).await?;
    cluster.settle().await;
    assert!(!exists::<Secret>(&cluster, "corner-password").await?);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn children_of_other_controllers_and_of_handlers_are_left_alone(cluster: Cluster) -> Result<()> {
    let shop = left(&cluster).await?;
    let theirs = json!({"kooper.rs/program": "another", "kooper.rs/controller": "shops", "kooper.rs/slot": "theirs", "kooper.rs/depth": "0"});
    let labels = [json!({}), theirs];
    for (number, labels) in labels.into_iter().enumerate() {
        let owner = shop.controller_owner_ref(&()).ok_or("it has no uid")?;
        let metadata = json!({"name": format!("other-{number}"), "labels": labels, "ownerReferences": [owner]});
        cluster
            .create::<Service>(&from_value(json!({"metadata": metadata, "spec": {"ports": [{"port": 80}]}}))?)
            .await?;
    }
    let running = cluster.run([without_web()?]).await?;
    cluster.settle().await;
    assert_eq!(deleted(&cluster), ["services", "deployments.apps"], "its own");
    assert!(exists::<Service>(&cluster, "other-0").await? && exists::<Service>(&cluster, "other-1").await?);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn children_of_removed_slots_are_part_of_the_waves(cluster: Cluster) -> Result<()> {
    let shop = left(&cluster).await?;
    let front: Service = cluster.get("corner-front").await?.ok_or("there is no Service")?;
    cluster.patch(&front, json!({"metadata": {"finalizers": ["example.com/other"]}})).await?;
    cluster.delete(&shop).await?;
    let running = cluster.run([without_web()?]).await?;
    cluster.settle().await;
    assert!(exists::<Deployment>(&cluster, "corner").await?, "the front still exists");
    cluster.patch(&front, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&shop).await;
    assert_eq!(deleted(&cluster)[..2], ["services", "deployments.apps"]);
    running.stop().await
}

/// A kind that the cluster does not serve.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(group = "monitoring.example.com", version = "v1", kind = "Probe", namespaced)]
struct ProbeSpec {}

#[kooper::test(start_paused = true)]
async fn a_previous_kind_need_not_be_installed(cluster: Cluster) -> Result<()> {
    let children = declare().child(password).previous_children::<Probe>().status(fields).build()?;
    let (running, shop) = run_settled(&cluster, controller_of(&children)?, &corner("a", false, &[])).await?;
    assert!(is_ready(&cluster.get("corner").await?.ok_or("there is no Shop")?));
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    running.stop().await
}

#[test]
fn a_previous_kind_without_owner_references_needs_an_ordered_deletion() -> Result<()> {
    let children = declare::<Shop, ()>().previous_children::<Service>().previous_children::<ClusterRole>().build()?;
    let begin = || Shop::controller("shops").handler(children.handler(async || {}));
    let error = begin().build().err().ok_or("it is built")?;
    assert_eq!((error.field, error.kind), ("cleanup", ConfigErrorKind::Malformed));
    let parts = ["a ClusterRole is cluster-scoped", "`.cleanup(finalizer, children.deletion(cleanup))`"];
    assert!(parts.iter().all(|part| error.problem.contains(part)), "{error}");
    begin().cleanup("example.com/shop", children.deletion(async || {})).build()?;
    Ok(())
}

#[test]
fn a_previous_kind_is_read_and_deleted_and_patched_only_to_release_what_is_kept() -> Result<()> {
    let rules = |controller: Controller| {
        let rules = controller.plan().needs().iter().map(|need| need.rule.to_string());
        let mut rules: Vec<_> = rules.filter_map(|rule| Some(rule.strip_prefix("services: ")?.to_owned())).collect();
        rules.sort();
        rules.dedup();
        rules
    };
    let children = declare().previous_children::<Service>().build()?;
    let controller = Shop::controller("shops").handler(children.handler(async || {})).build()?;
    assert_eq!(rules(controller), ["delete", "list, watch"]);
    assert_eq!(rules(controller_of(&children)?), ["delete", "list, watch", "patch"]);
    Ok(())
}
