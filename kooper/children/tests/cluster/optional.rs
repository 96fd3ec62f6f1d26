//! Children whose kind the cluster may not serve.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{ConfigError, Controller};
use kooper_children::{External, SlotExt, declare};
use kube::{CustomResource, CustomResourceExt, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{Shop, controller_of, corner, fields, is_ready, run_settled, with_name};

/// A kind of another operator.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(group = "monitoring.example.com", version = "v1", kind = "Monitor", namespaced)]
struct MonitorSpec {
    watched: String,
}

fn monitor(shop: &Shop) -> Monitor {
    Monitor::new(&shop.name_any(), MonitorSpec { watched: shop.spec.config.clone() })
}

fn exists(_: &Monitor) -> bool {
    true
}

fn config(shop: &Shop, monitor: Option<&Monitor>) -> ConfigMap {
    let data = Some([("monitored".to_owned(), monitor.is_some().to_string())].into());
    ConfigMap { data, ..with_name(&shop.name_any()) }
}

fn maybe_monitor(shop: &Shop) -> Option<Monitor> {
    Some(monitor(shop))
}

fn optional() -> Result<Controller, ConfigError> {
    let monitor = maybe_monitor.slot().optional().ready(exists);
    let children = declare().child(monitor).child(config.with((maybe_monitor,))).status(fields).build();
    controller_of(&children.expect("the slots are right"))
}

async fn monitored(cluster: &Cluster) -> Result<String> {
    let config: ConfigMap = cluster.get("corner").await?.ok_or("there is no ConfigMap")?;
    Ok(config.data.unwrap_or_default().remove("monitored").unwrap_or_default())
}

#[kooper::test(start_paused = true)]
async fn a_slot_is_skipped_until_its_kind_is_installed(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, optional()?, &corner("a", false, &[])).await?;
    assert!(is_ready(&cluster.get("corner").await?.ok_or("there is no Shop")?), "it counts only once it can be there");
    assert_eq!(monitored(&cluster).await?, "false");
    assert_eq!(running.problem(), None);

    // The watch of a kind that is not there is tried again within this time.
    let cluster = cluster.with_timeout(Duration::from_secs(60));
    cluster.install_crd(&Monitor::crd()).await?;
    let monitor = cluster.wait("corner", |_: &Monitor| true).await;
    cluster.settle().await;
    assert_eq!(monitored(&cluster).await?, "true");
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&monitor).await;
    cluster.wait_deleted(&shop).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_owner_is_deleted_without_the_kind_of_its_child(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, optional()?, &corner("a", false, &[])).await?;
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    running.stop().await
}

fn awaited(shop: &Shop) -> External<Monitor> {
    External::new(ObjectKey::of(shop))
}

fn watched(shop: &Shop, monitor: &Monitor) -> ConfigMap {
    let data = Some([("watched".to_owned(), monitor.spec.watched.clone())].into());
    ConfigMap { data, ..with_name(&shop.name_any()) }
}

#[kooper::test(start_paused = true)]
async fn an_external_object_is_followed_once_its_kind_is_installed(cluster: Cluster) -> Result<()> {
    let slots = declare().child(awaited.slot().optional().ready(exists)).child(watched.with((awaited,)));
    let children = slots.status(fields).build()?;
    let controller = Shop::controller("shops").install_crd().resync(None).handler(children.handler(async || {}));
    let (running, _) = run_settled(&cluster, controller.build()?, &corner("a", false, &[])).await?;
    assert!(cluster.get::<ConfigMap>("corner").await?.is_none());
    cluster.install_crd(&Monitor::crd()).await?;
    cluster.settle().await;
    let monitor = cluster.create(&Monitor::new("corner", MonitorSpec { watched: "a".to_owned() })).await?;
    let is = |watched: &'static str| {
        move |config: &ConfigMap| config.data.as_ref().is_some_and(|data| data["watched"] == watched)
    };
    cluster.wait("corner", is("a")).await;
    cluster.patch(&monitor, serde_json::json!({"spec": {"watched": "b"}})).await?;
    cluster.wait("corner", is("b")).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_kind_that_is_not_optional_is_waited_for(cluster: Cluster) -> Result<()> {
    let children = declare().child(monitor.slot().ready(exists)).status(fields).build()?;
    let controller = Shop::controller("shops").install_crd().handler(children.handler(async || {})).build()?;
    let error = cluster.run([controller]).await.err().ok_or("it is ready")?;
    assert!(error.to_string().contains("monitors.monitoring.example.com: not synced yet"), "{error}");
    Ok(())
}

#[test]
fn a_kind_that_another_slot_needs_is_not_optional() -> Result<()> {
    let needs =
        |controller: &Controller| controller.kinds().any(|kind| kind.kind == "Monitor" && controller.needs_kind(kind));
    let children = declare::<Shop, ()>().child(maybe_monitor.slot().optional()).child(monitor).build()?;
    assert!(needs(&Shop::controller("shops").handler(children.handler(async || {})).build()?));
    assert!(!needs(&optional()?));
    Ok(())
}
