//! Children that have changed since they were read, according to the API server.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::apiserver::faults::Verb;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{ConfigError, Controller};
use kooper_children::declare;
use serde_json::json;

use super::flags::events;
use super::{Shop, corner, fields, is_ready, ready, run_ready, with_name, writes};

fn filled(shop: &Shop) -> ConfigMap {
    let data = Some([("config".to_owned(), shop.spec.config.clone())].into());
    ConfigMap { data, ..with_name(&shop.name_any()) }
}

/// A controller that is not called without a change or a retry.
fn controller(retries: Option<u32>) -> Result<Controller, ConfigError> {
    let children = declare().child(filled).status(fields).build().expect("the slot is right");
    let builder = Shop::controller("shops").install_crd().resync(None).retries(retries);
    builder.handler(children.handler(async || {})).build()
}

fn has_failed(shop: &Shop) -> bool {
    ready(shop).is_some_and(|ready| {
        let is_of_slot = ready.reason == "SlotFailed" && ready.message.starts_with("filled: ");
        ready.status == "False" && is_of_slot && ready.observed_generation == shop.metadata.generation
    })
}

#[kooper::test(start_paused = true)]
async fn a_conflict_that_passes_is_no_state_of_the_owner(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_ready(&cluster, controller(None)?, &corner("a", false, &[])).await?;
    // A write is sent six times in a call.
    let refused = cluster.faults().on(Verb::Patch.of("configmaps")).first(12).reply(409);
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.wait(&shop, is_ready).await;
    assert_eq!(refused.times(), 12);
    assert_eq!(writes(&cluster, &["shops.example.com/status"]).len(), 2, "one for each generation");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_whose_write_meets_a_conflict_again_and_again_is_told_in_the_status(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(600));
    let running = cluster.run([controller(None)?]).await?;
    let refused = cluster.faults().on(Verb::Patch.of("configmaps")).reply(409);
    let shop = cluster.create(&corner("a", false, &[])).await?;
    cluster.wait(&shop, has_failed).await;
    refused.lift();
    cluster.wait(&shop, is_ready).await;
    let refused = cluster.faults().on(Verb::Patch.of("configmaps")).reply(409);
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.wait(&shop, has_failed).await;
    refused.lift();
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn without_retries_a_conflict_is_a_failure_like_any_other(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_ready(&cluster, controller(Some(0))?, &corner("a", false, &[])).await?;
    let refused = cluster.faults().on(Verb::Patch.of("configmaps")).reply(409);
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.wait(&shop, has_failed).await;
    while events(&cluster, "ReconcileFailed").await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    refused.lift();
    cluster.patch(&shop, json!({"spec": {"config": "c"}})).await?;
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}
