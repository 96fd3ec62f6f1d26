//! Children that cannot have an owner reference.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kooper::apiserver::faults::Verb;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{ConfigError, Controller};
use kooper_children::{SlotExt, declare};
use kube::Api;
use serde_json::{from_value, json};

use super::{Shop, controller_of, corner, fields, is_ready, ready, run_ready, run_with, with_name, writes};

pub(super) fn role(shop: &Shop) -> Result<ClusterRole> {
    let name = format!("{}-{}", shop.name_any(), shop.spec.config);
    Ok(from_value(json!({"metadata": {"name": name}, "rules": []}))?)
}

pub(super) fn elsewhere(shop: &Shop, role: &ClusterRole) -> Result<ConfigMap> {
    let metadata = json!({"name": shop.name_any(), "namespace": "elsewhere"});
    Ok(from_value(json!({"metadata": metadata, "data": {"role": role.name_any()}}))?)
}

pub(super) fn ordered() -> Result<Controller, ConfigError> {
    let children = declare().child(role).child(elsewhere.with((role,))).status(fields).build();
    controller_of(&children.expect("the slots are right"))
}

pub(super) async fn namespace(cluster: &Cluster) -> Result<Api<ConfigMap>> {
    cluster.create(&with_name::<Namespace>("elsewhere")).await?;
    Ok(Api::namespaced(cluster.client(), "elsewhere"))
}

#[kooper::test]
async fn children_elsewhere_are_watched_pruned_and_deleted_in_waves(cluster: Cluster) -> Result<()> {
    let configs = namespace(&cluster).await?;
    let (running, shop) = run_ready(&cluster, ordered()?, &corner("a", false, &[])).await?;
    let config = configs.get("corner").await?;
    assert_eq!((config.owner_references(), config.labels()["kooper.rs/owner"].clone()), (&[][..], shop.uid().unwrap()));

    configs.delete("corner", &Default::default()).await?;
    while configs.get_opt("corner").await?.is_none() {
        tokio::task::yield_now().await;
    }
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.wait("corner-b", |_: &ClusterRole| true).await;
    let old: ClusterRole = from_value(json!({"metadata": {"name": "corner-a"}}))?;
    cluster.wait_deleted(&old).await;

    let held = json!({"metadata": {"finalizers": ["example.com/slow"]}});
    let config = configs.get("corner").await?;
    cluster.patch(&config, held).await?;
    cluster.delete(&shop).await?;
    let says = |shop: &Shop| ready(shop).is_some_and(|ready| ready.message.contains("`elsewhere/corner`"));
    cluster.wait(&shop, says).await;
    assert!(cluster.get::<ClusterRole>("corner-b").await?.is_some());
    cluster.patch(&config, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&shop).await;
    assert!(cluster.get::<ClusterRole>("corner-b").await?.is_none());
    running.stop().await
}

#[kooper::test]
async fn children_elsewhere_are_pruned_in_their_order_if_their_slots_were_removed(cluster: Cluster) -> Result<()> {
    let configs = namespace(&cluster).await?;
    let (running, shop) = run_ready(&cluster, ordered()?, &corner("a", false, &[])).await?;
    running.stop().await?;
    let config = configs.get("corner").await?;
    cluster.patch(&config, json!({"metadata": {"finalizers": ["example.com/slow"]}})).await?;

    let children =
        declare().previous_children::<ConfigMap>().previous_children::<ClusterRole>().status(fields).build()?;
    let running = cluster.run([controller_of(&children)?]).await?;
    while configs.get("corner").await?.metadata.deletion_timestamp.is_none() {
        tokio::task::yield_now().await;
    }
    assert!(cluster.get::<ClusterRole>("corner-a").await?.is_some(), "the other one still refers to it");
    cluster.patch(&config, json!({"metadata": {"finalizers": null}})).await?;
    let role: ClusterRole = from_value(json!({"metadata": {"name": "corner-a"}}))?;
    cluster.wait_deleted(&role).await;
    assert!(cluster.get::<Shop>(&shop).await?.is_some());
    running.stop().await
}

/// The watch is so late that the own write is no longer awaited.
#[kooper::test(start_paused = true)]
async fn a_child_of_another_replica_whose_event_is_late_does_not_outlive_its_owner(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    namespace(&cluster).await?;
    let running = cluster.run([ordered()?]).await?;
    cluster.settle().await;
    let frozen = cluster.faults().freeze(Verb::Watch.of("clusterroles"));
    let shop = cluster.create(&corner("a", false, &[])).await?;
    cluster.wait("corner-a", |_: &ClusterRole| true).await;
    let labels = json!({"kooper.rs/owner": shop.uid()});
    let other: ClusterRole = from_value(json!({"metadata": {"name": "corner-b", "labels": labels}}))?;
    cluster.create(&other).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster.delete(&shop).await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let shop: Shop = cluster.get("corner").await?.ok_or("its finalizer was removed")?;
    assert!(cluster.get::<ClusterRole>("corner-b").await?.is_some());
    drop(frozen);
    cluster.wait_deleted(&shop).await;
    for name in ["corner-a", "corner-b"] {
        assert!(cluster.get::<ClusterRole>(name).await?.is_none());
    }
    running.stop().await
}

#[kooper::test]
async fn a_deletion_goes_on_under_another_name_of_the_controller(cluster: Cluster) -> Result<()> {
    let configs = namespace(&cluster).await?;
    let (running, shop) = run_ready(&cluster, ordered()?, &corner("a", false, &[])).await?;
    let config = configs.get("corner").await?;
    cluster.patch(&config, json!({"metadata": {"finalizers": ["example.com/slow"]}})).await?;
    cluster.delete(&shop).await?;
    let says = |shop: &Shop| ready(shop).is_some_and(|ready| ready.message.contains("`elsewhere/corner`"));
    cluster.wait(&shop, says).await;
    running.stop().await?;

    let children = declare().child(role).child(elsewhere.with((role,))).status(fields).build()?;
    let renamed = Shop::controller("stores")
        .install_crd()
        .previous_names(["shops"])
        .handler(children.handler(async || {}))
        .cleanup("example.com/shop", children.deletion(async || {}))
        .build()?;
    let running = cluster.run([renamed]).await?;
    cluster.patch(&config, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&shop).await;
    assert!(cluster.get::<ClusterRole>("corner-a").await?.is_none());
    running.stop().await
}

#[kooper::test]
async fn a_child_elsewhere_of_another_owner_is_left_alone(cluster: Cluster) -> Result<()> {
    let configs = namespace(&cluster).await?;
    let others: ConfigMap =
        from_value(json!({"metadata": {"name": "corner", "labels": {"kooper.rs/owner": "another"}}}))?;
    let others = configs.create(&Default::default(), &others).await?;
    let (running, shop) = run_with(&cluster, ordered()?, &corner("a", false, &[])).await?;
    let says = |shop: &Shop| ready(shop).is_some_and(|ready| ready.message.contains("another"));
    cluster.wait(&shop, says).await;
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    assert_eq!(configs.get("corner").await?.resource_version(), others.resource_version());
    running.stop().await
}

fn seal(shop: &Shop) -> Result<ConfigMap> {
    Ok(from_value(json!({"metadata": {"name": format!("{}-seal", shop.name_any())}, "data": {"by": "the function"}}))?)
}

fn print(shop: &Shop, seal: &ConfigMap) -> Result<ConfigMap> {
    Ok(from_value(json!({"metadata": {"name": format!("{}-print", shop.name_any())}, "data": seal.data}))?)
}

/// A user with write access there can copy the labels.
#[kooper::test]
async fn an_object_in_another_namespace_with_the_labels_of_a_child_is_not_taken_for_it(cluster: Cluster) -> Result<()> {
    namespace(&cluster).await?;
    let children = declare().child(seal.slot().once()).child(print.with((seal,))).status(fields).build()?;
    let (running, shop) = run_ready(&cluster, controller_of(&children)?, &corner("a", false, &[])).await?;
    let own: ConfigMap = cluster.get("corner-seal").await?.ok_or("there is no seal")?;
    let mut forged =
        ConfigMap { data: Some([("by".to_owned(), "a client".to_owned())].into()), ..ConfigMap::default() };
    forged.metadata.name = Some("a".to_owned());
    forged.metadata.namespace = Some("elsewhere".to_owned());
    forged.labels_mut().extend(own.labels().clone());
    forged.labels_mut().insert("kooper.rs/owner".to_owned(), shop.uid().unwrap_or_default());
    let forged = cluster.create(&forged).await?;
    cluster.delete(&own).await?;
    cluster.wait("corner-seal", |seal: &ConfigMap| seal.uid() != own.uid()).await;
    cluster.wait(&shop, is_ready).await;
    let print: ConfigMap = cluster.get("corner-print").await?.ok_or("there is no print")?;
    assert_eq!(print.data, own.data);
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    cluster.wait_deleted(&forged).await;
    running.stop().await
}

/// A child in another namespace, without inputs.
fn outpost(shop: &Shop) -> Result<ConfigMap> {
    elsewhere(shop, &role(shop)?)
}

#[kooper::test]
async fn without_an_ordered_deletion_they_are_refused(cluster: Cluster) -> Result<()> {
    namespace(&cluster).await?;
    let shop = corner("a", false, &[]);
    let of_cluster = declare().child(role).status(fields).build()?;
    let of_namespace = declare().child(outpost).status(fields).build()?;
    let builder = || Shop::controller("shops").install_crd();
    for (controller, why) in [
        (builder().handler(of_cluster.handler(async || {})), "ClusterRole `corner-a` is cluster-scoped"),
        (builder().handler(of_namespace.handler(async || {})), "ConfigMap `corner` in namespace `elsewhere`"),
    ] {
        let running = cluster.run([controller.build()?]).await?;
        let shop = cluster.create(&shop).await?;
        let says = |shop: &Shop| {
            let failed = ready(shop).filter(|ready| ready.reason == "SlotFailed");
            failed.is_some_and(|ready| ready.message.contains(why) && ready.message.contains("`deletion = ordered`"))
        };
        cluster.wait(&shop, says).await;
        cluster.delete(&shop).await?;
        running.stop().await?;
    }
    let written = writes(&cluster, &["clusterroles.rbac.authorization.k8s.io", "configmaps"]);
    assert_eq!(written, Vec::<String>::new());
    Ok(())
}
