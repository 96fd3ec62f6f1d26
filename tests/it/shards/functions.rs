//! Keys from outside, removed objects and objects to clean up, while shards change hands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::controller::{Builder, ReconcileAll};
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::Cluster;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::replicas::{Notes, create, create_in_each_shard};
use crate::fixture::{Log, eventually};

/// The time for shards to be shared, and for calls after that.
const SETTLE: Duration = Duration::from_secs(30);

fn builder() -> Builder<ConfigMap> {
    Controller::builder::<ConfigMap>("functions").labels("app=shop").resync(None).shards(Shards::new(16))
}

/// The number of notes of each line.
fn counts(log: &Log) -> BTreeMap<String, usize> {
    log.lines().into_iter().fold(BTreeMap::new(), |mut counts, line| {
        *counts.entry(line).or_default() += 1;
        counts
    })
}

#[kooper::test(start_paused = true)]
async fn a_key_from_outside_is_handled_by_the_owner_of_its_object_alone(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 24).await?;
    let start = |who| {
        let notes = notes.clone();
        let (send, keys) = unbounded_channel::<ObjectKey>();
        let keys = stream::unfold(keys, async |mut keys| keys.recv().await.map(|key| (key, keys)));
        let handler = move |call: Call| {
            drop(notes.begin(who, &call));
            async {}
        };
        Ok::<_, kooper::BoxError>((send, builder().source(keys).handler(handler).build()?))
    };
    let wake = |senders: &[&UnboundedSender<ObjectKey>]| {
        for object in &objects {
            let key = ObjectKey::namespaced(cluster.namespace(), &object.name_any());
            senders.iter().for_each(|sender| sender.send(key.clone()).expect("it is read"));
        }
    };
    let ((to_a, a), (to_b, b)) = (start("a")?, start("b")?);
    let (first, second) = (cluster.run([a]).await?, cluster.run([b]).await?);
    tokio::time::sleep(SETTLE).await;
    let before = notes.count();
    wake(&[&to_a, &to_b]);
    tokio::time::sleep(SETTLE).await;
    let handled = notes.since(before);
    assert!(handled.len() == 24 && notes.count() == before + 24, "{handled:?}");
    assert!(["a", "b"].iter().all(|who| handled.values().any(|by| by.contains(who))), "{handled:?}");
    // One that does not reach the owner is not passed on.
    let (before, of_a) = (notes.count(), handled.values().filter(|by| by.contains("a")).count());
    wake(&[&to_a]);
    tokio::time::sleep(SETTLE).await;
    assert_eq!(notes.count(), before + of_a);
    // Those that arrive while the first replica hands its shards over are handled by the new owner.
    wake(&[&to_a, &to_b]);
    first.stop().await?;
    tokio::time::sleep(SETTLE).await;
    let before = notes.count();
    wake(&[&to_b]);
    tokio::time::sleep(SETTLE).await;
    let handled = notes.since(before);
    assert!(handled.len() == 24 && handled.values().all(|by| by.contains("b")), "{handled:?}");
    notes.stop_and_check([second]).await
}

#[kooper::test(start_paused = true)]
async fn a_trigger_for_all_calls_a_replica_for_its_own_objects_alone(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    create(&cluster, 24).await?;
    let start = |who| {
        let notes = notes.clone();
        let (send, mut triggers) = unbounded_channel::<()>();
        let triggers = ReconcileAll(stream::poll_fn(move |context| triggers.poll_recv(context)));
        let handler = move |call: Call| {
            drop(notes.begin(who, &call));
            async {}
        };
        Ok::<_, kooper::BoxError>((send, builder().source(triggers).handler(handler).build()?))
    };
    let ((to_a, a), (to_b, b)) = (start("a")?, start("b")?);
    let (first, second) = (cluster.run([a]).await?, cluster.run([b]).await?);
    tokio::time::sleep(SETTLE).await;
    let before = notes.count();
    to_a.send(())?;
    tokio::time::sleep(SETTLE).await;
    let of_a = notes.since(before);
    assert!((1..24).contains(&of_a.len()) && of_a.values().all(|by| by.iter().eq(["a"].iter())), "{of_a:?}");
    to_b.send(())?;
    tokio::time::sleep(SETTLE).await;
    let handled = notes.since(before);
    assert!(handled.len() == 24 && notes.count() == before + 24, "{handled:?}");
    notes.stop_and_check([first, second]).await
}

#[kooper::test(start_paused = true)]
async fn deleted_is_called_by_the_owner_and_not_because_a_shard_has_left(cluster: Cluster) -> Result<()> {
    let log = Log::default();
    let objects = create(&cluster, 24).await?;
    let start = || {
        let deleted = log.noting(|config: Arc<ConfigMap>| config.name_any());
        builder().deleted(deleted).handler(async || {}).build()
    };
    let first = cluster.run([start()?]).await?;
    let second = cluster.run([start()?]).await?;
    tokio::time::sleep(SETTLE).await;
    let third = cluster.run([start()?]).await?;
    tokio::time::sleep(SETTLE).await;
    first.stop().await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(log.lines(), Vec::<String>::new());
    for object in &objects {
        cluster.delete(object).await?;
    }
    tokio::time::sleep(SETTLE).await;
    assert_eq!(counts(&log), objects.iter().map(|object| (object.name_any(), 1)).collect());
    second.stop().await?;
    third.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_cleanup_that_runs_ends_before_its_shard_changes_hands(cluster: Cluster) -> Result<()> {
    let (notes, log) = (Notes::default(), Log::default());
    let objects = create(&cluster, 16).await?;
    let start = |who| {
        let (notes, log) = (notes.clone(), log.clone());
        let cleanup = move |config: Arc<ConfigMap>, call: Call| {
            let (running, log) = (notes.begin(who, &call), log.clone());
            async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                log.note(config.name_any());
                drop(running);
            }
        };
        builder().workers(16).timeout(None).cleanup("example.com/functions", cleanup).handler(async || {}).build()
    };
    let first = cluster.run([start("a")?]).await?;
    tokio::time::sleep(SETTLE).await;
    for object in &objects {
        cluster.delete(object).await?;
    }
    eventually("all are being cleaned up", || notes.count() == 16).await;
    let second = cluster.run([start("b")?]).await?;
    eventually("all have been cleaned up", || log.count() >= 16).await;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(counts(&log), objects.iter().map(|object| (object.name_any(), 1)).collect());
    assert!(notes.calls().iter().all(|call| call.who == "a"), "{:?}", notes.calls());
    assert_eq!(cluster.list::<ConfigMap>().await?.iter().filter(|one| one.labels().contains_key("app")).count(), 0);
    notes.stop_and_check([first, second]).await
}

#[kooper::test(start_paused = true)]
async fn the_next_owner_cleans_up_objects_that_are_not_selected_any_more(cluster: Cluster) -> Result<()> {
    let (notes, log, may_end) = (Notes::default(), Log::default(), Arc::new(AtomicBool::new(false)));
    let objects = create(&cluster, 16).await?;
    let start = |who| {
        let (notes, log, may_end) = (notes.clone(), log.clone(), may_end.clone());
        let cleanup = move |call: Call| {
            drop(notes.begin(who, &call));
            let ended = may_end.load(Ordering::SeqCst);
            if ended {
                log.note(call.key().to_string());
            }
            // It is not called again by this replica, unless it gains the shard again.
            async move { if ended { Ok(()) } else { Err(HandlerError::permanent("it cannot be cleaned up yet")) } }
        };
        builder().cleanup("example.com/functions", cleanup).handler(async || {}).build()
    };
    let first = cluster.run([start("a")?]).await?;
    tokio::time::sleep(SETTLE).await;
    for object in &objects {
        cluster.patch(object, json!({"metadata": {"labels": {"app": null}}})).await?;
        cluster.delete(object).await?;
    }
    eventually("the first replica has tried each", || notes.since(0).len() == 16).await;
    let before = notes.count();
    let second = cluster.run([start("b")?]).await?;
    tokio::time::sleep(SETTLE).await;
    let handed_over: BTreeMap<String, usize> = notes.since(before).into_keys().map(|key| (key, 1)).collect();
    assert!((1..16).contains(&handed_over.len()), "{handed_over:?}");
    may_end.store(true, Ordering::SeqCst);
    second.stop().await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(counts(&log), handed_over);
    first.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_ends_before_its_shard_changes_hands_and_begins_in_the_next_owner(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let start = |who| {
        let notes = notes.clone();
        let daemon = move |call: Call| {
            let running = notes.begin(who, &call);
            async move {
                let _running = running;
                std::future::pending::<()>().await;
            }
        };
        builder().handler(async || {}).daemon(daemon).build()
    };
    let all = create_in_each_shard(&cluster, 2).await?.len();
    let of = |who| notes.calls().iter().filter(|call| call.who == who).count();
    let first = cluster.run([start("a")?]).await?;
    eventually("all run", || of("a") >= all).await;
    let second = cluster.run([start("b")?]).await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(of("b"), all / 2, "half of the shards have changed hands");
    first.stop().await?;
    eventually("the second replica runs all", || of("b") >= all).await;
    notes.stop_and_check([second]).await
}
