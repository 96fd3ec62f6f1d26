//! Annotations by which users pause an object, or have it reconciled.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{Changed, Controller};
use serde_json::{Value, json};

/// A controller whose calls are counted. It is called for new labels, and to clean up.
fn counted(calls: &Arc<AtomicU32>) -> Result<Controller> {
    let builder = ConfigMap::controller("counts").resync(None).changed([Changed::Labels]).labels("counted=yes");
    let count = async |_: Arc<ConfigMap>, calls: State<Arc<AtomicU32>>| {
        calls.fetch_add(1, Ordering::Relaxed);
    };
    let cleanup = async |_: Arc<ConfigMap>, calls: State<Arc<AtomicU32>>| {
        calls.fetch_add(100, Ordering::Relaxed);
    };
    let builder = builder.pause("example.com/pause").reconcile_now("example.com/now");
    Ok(builder.state(calls.clone()).handler(count).cleanup("example.com/counts", cleanup).build()?)
}

fn config(annotations: &Value) -> Result<ConfigMap> {
    let labels = json!({"counted": "yes"});
    Ok(serde_json::from_value(json!({"metadata": {"name": "one", "labels": labels, "annotations": annotations}}))?)
}

async fn reasons(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let events: Vec<Event> = cluster.list().await?;
    Ok(events.into_iter().filter_map(|event| event.reason).collect())
}

#[kooper::test(start_paused = true)]
async fn a_paused_object_is_handled_once_it_is_resumed(cluster: Cluster) -> Result<()> {
    let calls = Arc::default();
    let running = cluster.run([counted(&calls)?]).await?;
    let config = cluster.create(&config(&json!({"example.com/pause": "true"}))?).await?;
    cluster.settle().await;
    cluster.patch(&config, json!({"metadata": {"labels": {"new": "label"}}})).await?;
    cluster.settle().await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    cluster.patch(&config, json!({"metadata": {"annotations": {"example.com/pause": null}}})).await?;
    cluster.settle().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1, "the annotation counts, although `changed` does not name it");
    cluster.patch(&config, json!({"metadata": {"annotations": {"example.com/pause": "true"}}})).await?;
    cluster.settle().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(reasons(&cluster).await?, BTreeSet::from(["Paused", "Resumed"].map(str::to_owned)));

    cluster.delete(&config).await?;
    cluster.wait_deleted(&config).await;
    assert_eq!(calls.load(Ordering::Relaxed), 101, "it was cleaned up");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_new_value_of_an_annotation_calls_the_handler(cluster: Cluster) -> Result<()> {
    let calls = Arc::default();
    let running = cluster.run([counted(&calls)?]).await?;
    let config = cluster.create(&config(&json!({}))?).await?;
    cluster.settle().await;
    for (name, value, expected) in [("now", "1", 2), ("note", "1", 2), ("now", "1", 2), ("now", "2", 3)] {
        cluster.patch(&config, json!({"metadata": {"annotations": {format!("example.com/{name}"): value}}})).await?;
        cluster.settle().await;
        assert_eq!(calls.load(Ordering::Relaxed), expected, "{name}={value}");
    }
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_failing_object_is_called_at_once_if_a_user_asks_for_it(cluster: Cluster) -> Result<()> {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let fail = move |_: Arc<ConfigMap>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Err::<(), _>("it fails".to_owned()) }
    };
    let builder = ConfigMap::controller("fails").resync(None).labels("counted=yes").reconcile_now("example.com/now");
    let hours = Duration::from_secs(7200);
    let running = cluster.run([builder.backoff(hours, hours).handler(fail).build()?]).await?;
    let config = cluster.create(&config(&json!({}))?).await?;
    while calls.load(Ordering::Relaxed) < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.patch(&config, json!({"metadata": {"annotations": {"example.com/now": "1"}}})).await?;
    let before = tokio::time::Instant::now();
    while calls.load(Ordering::Relaxed) < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(before.elapsed() < Duration::from_secs(60), "the clock is paused: it did not wait for the back-off");
    running.stop().await
}
