//! Owners that a user has paused.

use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kooper::apiserver::faults::Verb;
use kooper::prelude::*;
use kooper::testing::{Cluster, FakeCluster};
use kooper::{ConfigError, Controller};
use kooper_children::declare;
use serde_json::{Value, json};

use super::{Shop, config, corner, fields, is_ready, ready, run_ready, run_with, writes};

const STATUS: &str = "shops.example.com/status";
const PAUSE: &str = "example.com/pause";

/// A controller of shops with one child, whose calls are counted.
fn counting(calls: &Arc<AtomicU32>) -> Result<Controller, ConfigError> {
    let calls = calls.clone();
    let children = declare().child(config).status(fields).build().expect("the slot is right");
    let count = move || {
        calls.fetch_add(1, Ordering::Relaxed);
        async {}
    };
    let builder = Shop::controller("shops").install_crd().pause(PAUSE).handler(children.handler(count));
    builder.cleanup("example.com/shop", children.deletion(async || {})).build()
}

fn pause(value: impl Into<Value>) -> Value {
    json!({"metadata": {"annotations": {PAUSE: value.into()}}})
}

fn paused(shop: &Shop) -> Option<&Condition> {
    shop.status.as_ref()?.conditions.iter().find(|one| one.type_ == "Paused")
}

async fn now(cluster: &Cluster) -> Result<Shop> {
    cluster.settle().await;
    Ok(cluster.get("corner").await?.ok_or("there is no Shop")?)
}

#[kooper::test(start_paused = true)]
async fn an_owner_says_that_it_is_paused_until_it_is_resumed(cluster: Cluster) -> Result<()> {
    let calls = Arc::default();
    let (running, shop) = run_with(&cluster, counting(&calls)?, &corner("a", false, &[])).await?;
    let before = now(&cluster).await?;
    assert!(is_ready(&before) && paused(&before).is_none());
    let (count, sent) = (calls.load(Ordering::Relaxed), writes(&cluster, &[STATUS]).len());

    cluster.patch(&shop, pause("true")).await?;
    let says = now(&cluster).await?;
    let condition = paused(&says).ok_or("it does not say so")?;
    assert_eq!((&*condition.status, &*condition.reason), ("True", "PauseAnnotation"));
    let parts = ["`example.com/pause`", "`shops`", "until the annotation is removed"];
    assert!(parts.iter().all(|part| condition.message.contains(part)), "{condition:?}");
    assert_eq!(ready(&says), ready(&before), "the children were not looked at");
    assert_eq!(writes(&cluster, &[STATUS]).len(), sent + 1);

    // Changes, resyncs, a deleted child and another process cause no other write.
    for suffix in ["b", "c"] {
        cluster.patch(&shop, json!({"spec": {"config": suffix}})).await?;
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    let child: ConfigMap = cluster.get("corner-a").await?.ok_or("there is no ConfigMap")?;
    cluster.delete(&child).await?;
    cluster.settle().await;
    running.stop().await?;
    let running = cluster.run([counting(&calls)?]).await?;
    let still = now(&cluster).await?;
    assert_eq!(still.status.as_ref().and_then(|status| status.observed_generation), before.metadata.generation);
    assert_eq!((ready(&still), paused(&still)), (ready(&before), Some(condition)));
    assert_eq!((calls.load(Ordering::Relaxed), writes(&cluster, &[STATUS]).len()), (count, sent + 1));
    assert!(cluster.get::<ConfigMap>("corner-a").await?.is_none());

    cluster.patch(&shop, pause(Value::Null)).await?;
    let resumed = now(&cluster).await?;
    assert!(is_ready(&resumed) && paused(&resumed).is_none(), "{resumed:?}");
    assert!(cluster.get::<ConfigMap>("corner-c").await?.is_some());
    assert_eq!(writes(&cluster, &[STATUS]).len(), sent + 2);
    let events: Vec<Event> = cluster.list().await?;
    let event = events.iter().find(|event| event.reason.as_deref() == Some("Paused")).ok_or("there is no Event")?;
    assert_eq!(event.message.as_ref(), Some(&condition.message));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_owner_that_was_never_reconciled_says_only_that_it_is_paused(cluster: Cluster) -> Result<()> {
    let calls = Arc::default();
    let running = cluster.run([counting(&calls)?]).await?;
    for name in ["corner", "market"] {
        let mut shop = corner("a", false, &[]);
        shop.metadata.name = Some(name.to_owned());
        shop.annotations_mut().insert(PAUSE.to_owned(), "true".to_owned());
        cluster.create(&shop).await?;
    }
    let shop = now(&cluster).await?;
    let status = shop.status.as_ref().ok_or("there is no status")?;
    assert_eq!((status.conditions.len(), status.observed_generation), (1, None));
    assert!(paused(&shop).is_some() && shop.finalizers().is_empty(), "{shop:?}");
    assert_eq!(writes(&cluster, &[STATUS]).len(), 2);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    cluster.patch(&shop, pause(Value::Null)).await?;
    assert!(is_ready(&now(&cluster).await?));
    let other: Shop = cluster.get("market").await?.ok_or("there is no Shop")?;
    cluster.delete(&other).await?;
    cluster.wait_deleted(&other).await;
    running.stop().await
}

#[tokio::test]
async fn a_fake_cluster_reconciles_a_paused_owner_as_a_worker_does() -> Result<()> {
    let (cluster, calls) = (FakeCluster::new(), Arc::default());
    let mut shop = corner("a", false, &[]);
    shop.annotations_mut().insert(PAUSE.to_owned(), "true".to_owned());
    cluster.put(&shop)?;
    let action = cluster.reconcile(&counting(&calls)?, &ObjectKey::namespaced("default", "corner")).await?;
    assert_eq!((action, calls.load(Ordering::Relaxed)), (Action::done(), 0));
    assert_eq!(cluster.summary(), ["apply shops.example.com/status default/corner"]);
    let condition = &cluster.sent()[0].body["status"]["conditions"][0];
    assert_eq!(condition["type"], "Paused");
    assert!(
        condition["message"].as_str().is_some_and(|message| message.contains("`example.com/pause`")),
        "{condition}"
    );
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_paused_owner_is_cleaned_up_when_it_is_deleted(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_ready(&cluster, counting(&Arc::default())?, &corner("a", false, &[])).await?;
    cluster.patch(&shop, pause("true")).await?;
    assert!(paused(&now(&cluster).await?).is_some());
    let child: ConfigMap = cluster.get("corner-a").await?.ok_or("there is no ConfigMap")?;
    cluster.patch(&child, json!({"metadata": {"finalizers": ["example.com/slow"]}})).await?;
    cluster.delete(&shop).await?;
    let going = now(&cluster).await?;
    assert!(ready(&going).is_some_and(|ready| ready.reason == "Deleting"), "{going:?}");
    assert!(paused(&going).is_none(), "its deletion is not paused");
    cluster.patch(&child, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&shop).await;
    assert!(cluster.get::<ConfigMap>("corner-a").await?.is_none());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_status_that_is_refused_is_written_later(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_ready(&cluster, counting(&Arc::default())?, &corner("a", false, &[])).await?;
    cluster.settle().await;
    let refused = cluster.faults().on(Verb::Patch.of("shops/status")).first(5).reply(500);
    cluster.patch(&shop, pause("true")).await?;
    cluster.wait(&shop, |shop: &Shop| paused(shop).is_some()).await;
    assert_eq!(refused.times(), 5);
    running.stop().await
}

/// A version of the program without the key `pause`, whose handler sets such a condition itself.
#[kooper::test(start_paused = true)]
async fn a_version_that_pauses_nothing_removes_the_condition_and_not_that_of_its_handler(
    cluster: Cluster,
) -> Result<()> {
    async fn open(shop: Arc<Shop>, statuses: StatusWriter<Shop>) -> Result<()> {
        let mut status = shop.status.clone().unwrap_or_default();
        if shop.spec.front {
            let mut conditions = Conditions::of(&shop, &status.conditions);
            conditions.set("Paused", true, "Mine", "the handler says so");
            status.conditions = conditions.into_vec();
        }
        statuses.apply_status(&shop, &status).await?;
        Ok(())
    }
    let running = cluster.run([counting(&Arc::default())?]).await?;
    let mut shop = corner("a", false, &[]);
    shop.annotations_mut().insert(PAUSE.to_owned(), "true".to_owned());
    let shop = cluster.create(&shop).await?;
    assert!(paused(&now(&cluster).await?).is_some());
    running.stop().await?;

    let children = declare().child(config).status(fields).build()?;
    let controller = Shop::controller("shops").install_crd().handler(children.handler(open)).build()?;
    let running = cluster.run([controller]).await?;
    let without = now(&cluster).await?;
    assert!(is_ready(&without) && paused(&without).is_none(), "{without:?}");
    cluster.patch(&shop, json!({"spec": {"front": true}})).await?;
    let own = now(&cluster).await?;
    assert!(is_ready(&own) && paused(&own).is_some_and(|paused| paused.reason == "Mine"), "{own:?}");
    running.stop().await
}
