//! Deletions while the caches lack children that exist.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kooper::apiserver::faults::{Fault, Frozen, Verb};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper_children::{SlotExt, declare};
use serde_json::json;

use super::explored::waves;
use super::{Shop, config, controller_of, corner, front, run_settled, writes};

/// Creates a shop. No cache gets its children of this resource.
async fn opened(cluster: &Cluster, unseen: &str) -> Result<(Shop, Frozen)> {
    cluster.settle().await;
    let frozen = cluster.faults().freeze(Verb::Watch.of(unseen));
    let shop = cluster.create(&corner("a", true, &[])).await?;
    cluster.wait("corner-front", |_: &Service| true).await;
    cluster.wait("corner-ledger", |_: &ConfigMap| true).await;
    // The own writes are no longer awaited.
    tokio::time::sleep(Duration::from_secs(10)).await;
    Ok((shop, frozen))
}

/// Counts the lists of these resources from now on.
fn counted<const N: usize>(cluster: &Cluster, resources: [&str; N]) -> [Fault; N] {
    resources.map(|resource| cluster.faults().on(Verb::List.of(resource)).delay(Duration::ZERO))
}

#[kooper::test(start_paused = true)]
async fn a_child_that_no_cache_has_is_deleted_in_its_wave(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let running = cluster.run([waves()?]).await?;
    let (shop, _frozen) = opened(&cluster, "services").await?;
    let [services, configs] = counted(&cluster, ["services", "configmaps"]);
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    // Before the end, each kind is listed once because of the ClusterRole.
    assert!(services.times() > configs.times(), "{} {}", services.times(), configs.times());
    let resources = ["services", "clusterroles.rbac.authorization.k8s.io", "configmaps"];
    let writes = writes(&cluster, &resources);
    let mut deleted: Vec<_> = writes.iter().filter_map(|write| write.strip_prefix("delete ")).collect();
    deleted.dedup();
    assert_eq!(deleted, resources);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_whose_labels_a_policy_has_removed_and_that_no_cache_has_outlives_its_owner_if_it_is_kept(
    cluster: Cluster,
) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let running = cluster.run([waves()?]).await?;
    let (shop, frozen) = opened(&cluster, "configmaps").await?;
    let ledger: ConfigMap = cluster.get("corner-ledger").await?.ok_or("there is no ConfigMap")?;
    let labels: BTreeMap<_, Option<&str>> = ledger.labels().keys().map(|label| (label, None)).collect();
    cluster.patch(&ledger, json!({"metadata": {"labels": labels}})).await?;
    closes_and_keeps_the_ledger(&cluster, &shop, frozen).await?;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_whose_creation_was_not_answered_is_known_to_the_deletion(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let running = cluster.run([waves()?]).await?;
    let lost = cluster.faults().on(Verb::Patch.of("configmaps").named("corner-ledger")).first(1).drop_response();
    let (shop, frozen) = opened(&cluster, "configmaps").await?;
    assert_eq!(lost.times(), 1);
    closes_and_keeps_the_ledger(&cluster, &shop, frozen).await?;
    running.stop().await
}

async fn closes_and_keeps_the_ledger(cluster: &Cluster, shop: &Shop, frozen: Frozen) -> Result<()> {
    cluster.delete(shop).await?;
    cluster.wait_deleted(shop).await;
    drop(frozen);
    cluster.settle().await;
    assert!(cluster.get::<ConfigMap>("corner-a").await?.is_none());
    let ledger: ConfigMap = cluster.get("corner-ledger").await?.ok_or("the garbage collector has deleted it")?;
    assert_eq!(ledger.owner_references(), []);
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_deletion_asks_nothing_if_the_caches_have_all_children(cluster: Cluster) -> Result<()> {
    let children = declare().child(config).child(front.slot().after(config)).build()?;
    let (running, shop) = run_settled(&cluster, controller_of(&children)?, &corner("a", true, &[])).await?;
    let lists = counted(&cluster, ["services", "configmaps"]);
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    assert_eq!(lists.map(|lists| lists.times()), [0, 0]);
    running.stop().await
}
