//! The status of the owner.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::apiserver::faults::Verb;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{Changed, ConfigError, Controller};
use kooper_children::{SlotExt, declare};
use serde_json::{Value, json};

use super::{
    Shop, ShopStatus, config, controller, corner, counting, fields, is_ready, ready, run_ready, run_settled, run_with,
    writes,
};

const STATUS: &str = "shops.example.com/status";

/// The types of the conditions that hold.
fn holding(shop: &Shop) -> Vec<&str> {
    let conditions = shop.status.iter().flat_map(|status| &status.conditions);
    conditions.filter(|one| one.status == "True").map(|one| one.type_.as_str()).collect()
}

async fn now(cluster: &Cluster) -> Result<Shop> {
    Ok(cluster.get("corner").await?.ok_or("there is no Shop")?)
}

/// A controller with one child and this handler.
macro_rules! with_handler {
    ($handler:expr) => {
        || -> Result<Controller, ConfigError> {
            let children = declare().child(config).status(fields).build().expect("the slots are right");
            Shop::controller("shops").install_crd().handler(children.handler($handler)).build()
        }
    };
}

/// The status of a Deployment whose pods all run.
fn available(web: &Deployment) -> Value {
    json!({"status": {
        "observedGeneration": web.metadata.generation,
        "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}],
    }})
}

/// The watch is so late that the own write is no longer awaited.
#[kooper::test(start_paused = true)]
async fn a_child_is_judged_by_the_response_to_its_apply_while_the_cache_is_older(cluster: Cluster) -> Result<()> {
    cluster.stop_workloads().await;
    let (controller, calls) = counting()?;
    let (running, shop) = run_with(&cluster, controller, &corner("a", false, &[])).await?;
    let web: Deployment = cluster.wait("corner", |_: &Deployment| true).await;
    cluster.patch_status(&web, available(&web)).await?;
    cluster.wait(&shop, is_ready).await;
    let frozen = cluster.faults().freeze(Verb::Watch.of("deployments.apps"));

    let shop = cluster.patch(&shop, json!({"spec": {"shelves": ["1"]}})).await?;
    let is_reported =
        |shop: &Shop| ready(shop).is_some_and(|ready| ready.observed_generation == shop.metadata.generation);
    let waits = |shop: &Shop| ready(shop).is_some_and(|ready| ready.message.starts_with("waits for web: "));
    let reported = cluster.wait(&shop, is_reported).await;
    assert!(waits(&reported), "{reported:?}");
    let before = calls.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(20)).await;
    cluster.patch(&shop, json!({"metadata": {"annotations": {"example.com/note": "a call"}}})).await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(calls.load(Ordering::SeqCst) > before, "it is called");
    let again = now(&cluster).await?;
    assert!(waits(&again), "{again:?}");

    drop(frozen);
    let web: Deployment = cluster.get("corner").await?.ok_or("there is no Deployment")?;
    assert_eq!(web.metadata.generation, Some(2));
    cluster.patch_status(&web, available(&web)).await?;
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}

async fn open(shop: Arc<Shop>, statuses: StatusWriter<Shop>, call: u32) -> Result<Action> {
    let open = if call == 1 { 2 } else { 1 };
    statuses.apply_status(&shop, &ShopStatus { open, ..ShopStatus::default() }).await?;
    Ok(if call < 2 { Action::requeue_after(Duration::from_secs(20)) } else { Action::done() })
}

/// The watch is so late that the own write is no longer awaited.
#[kooper::test(start_paused = true)]
async fn a_status_is_compared_with_the_stored_one_again_when_a_late_cache_has_it(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(60));
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let handler = move |shop: Arc<Shop>, statuses: StatusWriter<Shop>| {
        open(shop, statuses, counted.fetch_add(1, Ordering::SeqCst))
    };
    let builder = Shop::controller("shops").install_crd().changed([Changed::Generation]).resync(None);
    let (running, shop) = run_with(&cluster, builder.handler(handler).build()?, &corner("a", false, &[])).await?;
    let is_open = |counters: i32| move |shop: &Shop| shop.status.as_ref().is_some_and(|status| status.open == counters);
    cluster.wait(&shop, is_open(1)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let frozen = cluster.faults().freeze(Verb::Watch.of("shops.example.com"));
    cluster.wait(&shop, is_open(2)).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(calls.load(Ordering::SeqCst) > 2, "one has received the object without the write");
    drop(frozen);
    cluster.wait(&shop, is_open(1)).await;
    running.stop().await
}

/// The same for a status that no handler applies.
#[kooper::test(start_paused = true)]
async fn a_summary_is_compared_with_the_stored_one_again_when_a_late_cache_has_it(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(60));
    let [is_good, polls] = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
    let (judged, polled) = (is_good.clone(), polls.clone());
    let slot = config.slot().ready(move |_: &ConfigMap| judged.load(Ordering::SeqCst));
    let children = declare().child(slot).status(fields).build()?;
    let handler = children.handler(move || {
        let polls = polled.load(Ordering::SeqCst);
        async move { if polls { Action::requeue_after(Duration::from_secs(20)) } else { Action::done() } }
    });
    let builder = Shop::controller("shops").install_crd().changed([Changed::Generation]).resync(None);
    let (running, shop) = run_ready(&cluster, builder.handler(handler).build()?, &corner("a", false, &[])).await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let frozen = cluster.faults().freeze(Verb::Watch.of("shops.example.com"));
    is_good.store(false, Ordering::SeqCst);
    cluster.wait(&shop, |shop: &Shop| !is_ready(shop)).await;
    is_good.store(true, Ordering::SeqCst);
    polls.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(!is_ready(&now(&cluster).await?), "the cache has the status from before");
    drop(frozen);
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_status_of_the_handler_and_the_summary_are_one_write(cluster: Cluster) -> Result<()> {
    async fn opens(shop: Arc<Shop>, statuses: StatusWriter<Shop>) -> Result<()> {
        let open = i32::try_from(shop.spec.shelves.len())?;
        statuses.apply_status(&shop, &ShopStatus { open, ..ShopStatus::default() }).await?;
        Ok(())
    }
    let (running, shop) = run_settled(&cluster, with_handler!(opens)()?, &corner("a", false, &["1"])).await?;
    assert_eq!(writes(&cluster, &[STATUS]).len(), 1);
    cluster.patch(&shop, json!({"spec": {"shelves": ["1", "2"]}})).await?;
    cluster.settle().await;
    assert_eq!(writes(&cluster, &[STATUS]).len(), 2);
    let shop = now(&cluster).await?;
    assert!(is_ready(&shop) && shop.status.is_some_and(|status| status.open == 2));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_status_that_a_handler_returns_has_the_conditions(cluster: Cluster) -> Result<()> {
    async fn opens(shop: Arc<Shop>) -> Result<Status<ShopStatus>> {
        if shop.spec.front {
            return Err("the front is open".into());
        }
        Ok(Status(ShopStatus { open: 7, ..ShopStatus::default() }))
    }
    let (running, shop) = run_settled(&cluster, with_handler!(opens)()?, &corner("a", false, &[])).await?;
    let open = now(&cluster).await?;
    assert!(is_ready(&open) && open.status.is_some_and(|status| status.open == 7));
    assert_eq!(writes(&cluster, &[STATUS]).len(), 1);
    cluster.patch(&shop, json!({"spec": {"front": true}})).await?;
    let says = |shop: &Shop| ready(shop).is_some_and(|ready| ready.message == "the front is open");
    let failing = cluster.wait(&shop, says).await;
    assert!(failing.status.is_some_and(|status| status.open == 7), "what it was is kept");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_handler_that_keeps_failing_after_its_write_stays_not_ready(cluster: Cluster) -> Result<()> {
    async fn fails(shop: Arc<Shop>, statuses: StatusWriter<Shop>) -> Result<()> {
        statuses.apply_status(&shop, &ShopStatus { open: 1, ..ShopStatus::default() }).await?;
        if shop.spec.front { Ok(()) } else { Err("there is no front".into()) }
    }
    let (running, shop) = run_with(&cluster, with_handler!(fails)()?, &corner("a", false, &[])).await?;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let failing = now(&cluster).await?;
    assert_eq!(ready(&failing).map(|one| (one.status.as_str(), one.reason.as_str())), Some(("False", "HandlerFailed")));
    assert_eq!(writes(&cluster, &[STATUS]).len(), 2, "it was ready once, and does not flap");
    cluster.patch(&shop, json!({"spec": {"front": true}})).await?;
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}

#[kooper::test]
async fn a_child_that_cannot_become_ready_stalls_the_owner(cluster: Cluster) -> Result<()> {
    cluster.stop_workloads().await;
    let (running, shop) = run_with(&cluster, controller()?, &corner("a", true, &[])).await?;
    let web: Deployment = cluster.wait("corner", |_: &Deployment| true).await;
    let stuck = json!({"status": {"observedGeneration": web.metadata.generation, "conditions": [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
    ]}});
    cluster.patch_status(&web, stuck).await?;
    let shop = cluster.wait(&shop, |shop: &Shop| holding(shop) == ["Stalled"]).await;
    let ready = ready(&shop).ok_or("it is not ready")?;
    assert_eq!(ready.message, "web: Progressing: ProgressDeadlineExceeded");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn conditions_of_the_handler_stay_beside_those_of_the_children(cluster: Cluster) -> Result<()> {
    async fn open(shop: Arc<Shop>, statuses: StatusWriter<Shop>) -> Result<()> {
        let mut conditions = Conditions::of(&shop, &[]);
        conditions.set("Open", true, "Always", "it is open").not_ready("Mine", "the handler says so");
        let status = ShopStatus { open: 7, conditions: conditions.into_vec(), observed_generation: None };
        statuses.apply_status(&shop, &status).await?;
        Ok(())
    }
    let (running, _) = run_settled(&cluster, with_handler!(open)()?, &corner("a", false, &[])).await?;
    let shop = now(&cluster).await?;
    assert_eq!((holding(&shop), is_ready(&shop)), (vec!["Open", "Ready"], true));
    let before = writes(&cluster, &[STATUS]).len();
    assert_eq!(before, 1, "the handler's, with that of the end of the call");
    cluster.patch(&shop, json!({"metadata": {"annotations": {"example.com/note": "a call"}}})).await?;
    cluster.settle().await;
    assert_eq!(writes(&cluster, &[STATUS]).len(), before, "nothing has changed");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_handler_that_writes_no_status_keeps_the_fields_of_others(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, with_handler!(async || {})()?, &corner("a", false, &[])).await?;
    assert_eq!(writes(&cluster, &[STATUS]).len(), 1);
    let other = json!({"type": "Theirs", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut conditions = serde_json::to_value(now(&cluster).await?.status.unwrap_or_default().conditions)?;
    conditions.as_array_mut().ok_or("a list")?.push(other);
    cluster.patch_status(&shop, json!({"status": {"open": 5, "conditions": conditions}})).await?;
    cluster.patch(&shop, json!({"spec": {"broken": true}})).await?;
    let shop = cluster.wait(&shop, |shop: &Shop| holding(shop) == ["Theirs"]).await;
    assert_eq!(shop.status.map(|status| status.open), Some(5));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_status_names_the_child_whose_deletion_is_rejected(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let (running, shop) = run_ready(&cluster, controller()?, &corner("a", true, &[])).await?;
    let refused = cluster.faults().on(Verb::Delete.of("services")).reply(403);
    cluster.delete(&shop).await?;
    let message = "waits until services `default/corner-front` is gone";
    cluster.wait(&shop, |shop: &Shop| ready(shop).is_some_and(|ready| ready.message == message)).await;
    refused.lift();
    cluster.wait_deleted(&shop).await;
    running.stop().await
}

#[test]
fn a_status_with_other_names_is_a_mistake() {
    #[derive(kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize)]
    #[kube(group = "example.com", version = "v1", kind = "Mall", status = "MallStatus", schema = "disabled")]
    struct MallSpec {}

    #[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
    struct MallStatus {
        conditions: Vec<Condition>,
        observed_generation: Option<i64>,
    }

    let children = declare::<Mall, ()>().status(|status, fields| {
        fields.conditions(&mut status.conditions).observed_generation(&mut status.observed_generation);
    });
    let error = children.build().unwrap_err();
    assert!(error.to_string().contains("without `observedGeneration`: add `#[serde(rename_all"), "{error}");
}
