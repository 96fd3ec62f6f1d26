//! Replicas that die, or that lose their connection, and calls that outlive their shard.

use std::future::Ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::apiserver::faults::Verb;
use kooper::capability::PatchBody;
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::Cluster;
use kooper_runtime::internal::client::{RequestLayer, from_fn};
use serde_json::json;
use tokio::time::Instant;
use tower::ServiceExt;

use super::replicas::{Notes, SETTLE, create, failing, metric, noting, noting_by, obstructed, replica, spread, touch};
use crate::fixture::{Running, events, eventually};

#[kooper::test(start_paused = true)]
async fn the_shards_of_a_replica_that_dies_are_taken_over(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 24).await?;
    let first = cluster.run([noting("a", &notes).build()?]).await?;
    let second = cluster.run([noting("b", &notes).build()?]).await?;
    tokio::time::sleep(SETTLE).await;
    let handled = touch(&cluster, &objects, "1", &notes).await?;
    assert_eq!(spread(&handled).len(), 2);
    let orphaned: Vec<&String> = handled.iter().filter(|(_, by)| by.contains("a")).map(|(key, _)| key).collect();
    first.kill().await;
    let before = notes.count();
    let died = Instant::now();
    eventually("the other replica handles its objects", || {
        let handled = notes.since(before);
        orphaned.iter().all(|key| handled.get(*key).is_some_and(|by| by.contains("b")))
    })
    .await;
    // A lease of 15 s, and a second.
    assert!(died.elapsed() < Duration::from_secs(16), "{:?}", died.elapsed());
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "2", &notes).await?).into_iter().collect::<Vec<_>>(), [("b", 24)]);
    notes.stop_and_check([second]).await
}

#[kooper::test(start_paused = true)]
async fn a_replica_whose_init_fails_is_given_no_shards_of_others(cluster: Cluster) -> Result<()> {
    let (notes, fails) = (Notes::default(), Arc::new(AtomicBool::new(true)));
    let objects = create(&cluster, 24).await?;
    let layer = || failing("nothing", &Arc::default());
    let _first = replica(&cluster, noting("a", &notes).build()?, layer());
    tokio::time::sleep(SETTLE).await;
    let init_fails = fails.clone();
    let init = move || {
        let fails = init_fails.load(Ordering::SeqCst);
        async move { if fails { Err(kooper::BoxError::from("the database is down")) } else { Ok(()) } }
    };
    let second = noting_by("b", &notes, |builder| builder.shards(Shards::new(16)).init(init));
    let _second = replica(&cluster, second.build()?, layer());
    tokio::time::sleep(5 * SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes).await?), [("a", 24)].into());
    fails.store(false, Ordering::SeqCst);
    tokio::time::sleep(5 * SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "2", &notes).await?).len(), 2);
    notes.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_panic_while_leases_are_read_ends_the_controller_and_does_not_go_unnoticed(cluster: Cluster) -> Result<()> {
    let (notes, panics) = (Notes::default(), Arc::new(AtomicBool::new(false)));
    create(&cluster, 4).await?;
    let layer = obstructed("/leases", &panics, || -> Ready<_> { panic!("a bad layer") });
    let mut running = replica(&cluster, noting("a", &notes).build()?, layer);
    tokio::time::sleep(SETTLE).await;
    assert_eq!(notes.count(), 4);
    panics.store(true, Ordering::SeqCst);
    let ended = tokio::time::timeout(SETTLE, &mut running.ended).await?;
    assert!(ended?.is_err(), "the only controller has ended");
    Ok(())
}

/// Loses all requests while it is cut.
fn cut(is_cut: &Arc<AtomicBool>) -> RequestLayer {
    cut_from("/", is_cut)
}

/// Loses the requests with this in their path while it is cut.
fn cut_from(part: &'static str, is_cut: &Arc<AtomicBool>) -> RequestLayer {
    obstructed(part, is_cut, std::future::pending)
}

/// Works on an object for as long as it may, and notes when it last did.
fn working(who: &'static str, notes: &Notes) -> Result<Controller> {
    let notes = notes.clone();
    let builder = Controller::builder::<ConfigMap>("works").labels("app=shop").resync(None).timeout(None);
    let builder = builder.shards(Shards::new(8)).handler(move |call: Call| {
        let running = notes.begin(who, &call);
        async move {
            let _running = running;
            call.cancelled().await;
        }
    });
    Ok(builder.workers(32).build()?)
}

#[kooper::test(start_paused = true)]
async fn a_replica_that_is_cut_off_stops_working_before_others_take_its_objects(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    create(&cluster, 16).await?;
    let is_cut = Arc::new(AtomicBool::new(false));
    let first = replica(&cluster, working("a", &notes)?, cut(&is_cut));
    eventually("it works on all objects", || notes.since(0).len() == 16).await;
    let second = replica(&cluster, working("b", &notes)?, cut(&Arc::default()));
    // Calls that do not end keep their shards.
    tokio::time::sleep(SETTLE).await;
    assert!(notes.calls().iter().all(|call| call.who == "a"));
    is_cut.store(true, Ordering::SeqCst);
    eventually("the other replica works on all objects", || {
        notes.calls().iter().filter(|call| call.who == "b").count() == 16
    })
    .await;
    // Each call of the first replica had ended before.
    notes.check();
    is_cut.store(false, Ordering::SeqCst);
    second.stop().await.map_err(|error| error.to_string())?;
    first.stop().await.map_err(|error| error.to_string())?;
    notes.check();
    Ok(())
}

/// The number of shards without an owner, and the seconds since the first of them has none.
fn unowned(running: &Running) -> (f64, f64) {
    (metric(running, "kooper_shards_unowned"), metric(running, "kooper_shards_unowned_seconds"))
}

#[kooper::test(start_paused = true)]
async fn the_time_for_which_shards_have_no_owner_is_measured(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    create(&cluster, 16).await?;
    let is_cut = Arc::new(AtomicBool::new(false));
    let first = replica(&cluster, noting("a", &notes).build()?, cut(&is_cut));
    let second = replica(&cluster, noting("b", &notes).build()?, cut(&Arc::default()));
    tokio::time::sleep(SETTLE).await;
    assert_eq!([unowned(&first), unowned(&second)], [(0.0, 0.0); 2]);

    // The first replica is cut off, and the second one cannot write that it takes over its shards.
    let refused = cluster.faults().on(Verb::Update.of("leases").named("shop-notes")).reply(503);
    is_cut.store(true, Ordering::SeqCst);
    let since = Instant::now();
    eventually("its shards have no owner", || unowned(&second).0 == 8.0).await;
    // A lease of 15 s after the last renewal, of which there is one in 2 s.
    assert!((13..=16).contains(&since.elapsed().as_secs()), "{:?}", since.elapsed());
    // One that starts now does not know the map.
    let third = replica(&cluster, noting("c", &notes).build()?, cut_from("/leases", &is_cut));
    tokio::time::sleep(Duration::from_secs(100)).await;
    for (replica, expected) in [(&second, 8.0), (&third, 0.0)] {
        let (count, seconds) = unowned(replica);
        assert_eq!(count, expected);
        assert!((99.0..102.0).contains(&seconds), "{seconds}");
    }

    refused.lift();
    eventually("its shards have an owner", || unowned(&second) == (0.0, 0.0)).await;
    is_cut.store(false, Ordering::SeqCst);
    tokio::time::sleep(SETTLE).await;
    for running in [first, second, third] {
        assert_eq!(unowned(&running), (0.0, 0.0));
        running.stop().await.map_err(|error| error.to_string())?;
    }
    notes.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn replicas_with_many_members_work_although_all_reads_together_take_longer_than_a_timeout(
    cluster: Cluster,
) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 16).await?;
    let slow = || {
        from_fn(|request, next| async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            next.oneshot(request).await
        })
    };
    let start = |who| -> Result<Running> {
        let share = |builder: Builder<ConfigMap>| builder.shards(Shards::new(16).members(64));
        Ok(replica(&cluster, noting_by(who, &notes, share).build()?, slow()))
    };
    let first = start("a")?;
    eventually("it handles all objects", || notes.since(0).len() == 16).await;
    let second = start("b")?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes).await?).len(), 2);
    first.stop().await.map_err(|error| error.to_string())?;
    second.stop().await.map_err(|error| error.to_string())?;
    notes.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_task_that_outlives_its_call_writes_nothing_after_the_shard_was_given_away(cluster: Cluster) -> Result<()> {
    create(&cluster, 16).await?;
    let (fenced, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (fenced.clone(), written.clone());
    let handler = move |config: Arc<ConfigMap>, configs: Patcher<ConfigMap>, client: Client, recorder: Recorder| {
        let (fenced, written) = counts.clone();
        // Not `Call::spawn`, which would be awaited.
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(300)).await;
            let patched = configs.patch_object(&config, PatchBody::merge(json!({"data": {"late": "yes"}}))).await;
            let api = kube::Api::<ConfigMap>::namespaced(client, &config.namespace().unwrap_or_default());
            let read = api.get_opt(&config.name_any()).await;
            recorder.normal("Late", "the task outlives its call");
            let reason = "NotOwning";
            assert_eq!(patched.is_err(), read.is_err(), "{patched:?} {read:?}");
            assert!(patched.is_ok() || format!("{patched:?} {read:?}").matches(reason).count() >= 2, "{patched:?}");
            if patched.is_err() { &fenced } else { &written }.fetch_add(1, Ordering::SeqCst);
        });
        async {}
    };
    let builder = Controller::builder::<ConfigMap>("late").labels("app=shop").resync(None).shards(Shards::new(8));
    let first = cluster.run([builder.rbac(["configmaps: get, patch"]).handler(handler).build()?]).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    // The role of the program is that of its last start.
    let idle = Controller::builder::<ConfigMap>("late").labels("app=shop").shards(Shards::new(8));
    let idle = idle.rbac(["configmaps: get, patch"]).handler(async |_: Patcher<ConfigMap>, _: Recorder| {});
    let second = cluster.run([idle.build()?]).await?;
    eventually("each task has tried", || fenced.load(Ordering::SeqCst) + written.load(Ordering::SeqCst) >= 16).await;
    let (fenced, written) = (fenced.load(Ordering::SeqCst), written.load(Ordering::SeqCst));
    assert!(fenced > 0 && written > 0, "{fenced} fenced, {written} written");
    // It writes all that was recorded.
    first.stop().await?;
    assert_eq!(events(&cluster, "Late").await.len(), written, "none for an object of another replica");
    second.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_shards_are_shared_anew_after_their_map_was_deleted(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 24).await?;
    let first = cluster.run([noting("a", &notes).build()?]).await?;
    let second = cluster.run([noting("b", &notes).build()?]).await?;
    tokio::time::sleep(SETTLE).await;
    let leases: Vec<Lease> = cluster.list().await?;
    let name = |lease: &&Lease| lease.metadata.name.as_deref().is_some_and(|name| name.ends_with("-notes"));
    let map = leases.iter().find(name).ok_or("there is a map")?;
    cluster.delete(map).await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes).await?).len(), 2);
    notes.stop_and_check([first, second]).await
}

#[kooper::test(start_paused = true)]
async fn a_lease_of_another_program_is_left_alone(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    create(&cluster, 8).await?;
    let running = cluster.run([noting("a", &notes).build()?]).await?;
    tokio::time::sleep(SETTLE).await;
    running.stop().await?;
    let handled = notes.count();
    let map: Lease = cluster.get("test-notes").await?.ok_or("the Lease of the map stays")?;
    assert!(!map.annotations().contains_key("kooper.rs/shards"), "the last replica removes the map");
    let others = json!({"metadata": {"annotations": {"kooper.rs/controller": "other/shop"}}});
    let others = cluster.patch(&map, others).await?;

    let refused = cluster.run([noting("b", &notes).build()?]).await.err().ok_or("it is not ready")?;
    assert!(refused.to_string().contains("test-notes belongs to other/shop"), "{refused}");
    let now: Lease = cluster.get(&*map.name_any()).await?.ok_or("it was deleted")?;
    assert_eq!((now.resource_version(), notes.count()), (others.resource_version(), handled));
    cluster.delete(&now).await?;
    let running = cluster.run([noting("b", &notes).build()?]).await?;
    eventually("its objects are handled", || notes.count() >= handled + 8).await;
    notes.stop_and_check([running]).await
}

/// The Lease has the same name as before, and a person has deleted that of the map, as the message says.
#[kooper::test(start_paused = true)]
async fn replicas_of_a_renamed_controller_use_the_leases_of_members_from_before(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    create(&cluster, 8).await?;
    let replica = |who| noting_by(who, &notes, |builder| builder.shards(Shards::new(16).members(2))).build();
    let [first, second] = [cluster.run([replica("a")?]).await?, cluster.run([replica("b")?]).await?];
    tokio::time::sleep(SETTLE).await;
    first.stop().await?;
    second.stop().await?;
    let handled = notes.count();
    let leases: Vec<Lease> = cluster.list().await?;
    assert_eq!(leases.len(), 3, "that of the map, and those of both members");
    for lease in leases {
        if lease.name_any() == "test-notes" {
            cluster.delete(&lease).await?;
        } else {
            let earlier = json!({"metadata": {"annotations": {"kooper.rs/controller": "test/earlier/shards"}}});
            cluster.patch(&lease, earlier).await?;
        }
    }
    let running = cluster.run([replica("c")?]).await?;
    eventually("its objects are handled", || notes.count() >= handled + 8).await;
    notes.stop_and_check([running]).await
}

/// Without its mark it is the map nevertheless: calls run by it.
#[kooper::test(start_paused = true)]
async fn a_map_whose_mark_was_removed_is_still_the_map(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 8).await?;
    let [first, second] =
        [cluster.run([noting("a", &notes).build()?]).await?, cluster.run([noting("b", &notes).build()?]).await?];
    tokio::time::sleep(SETTLE).await;
    let text = |lease: &Lease| lease.annotations().get("kooper.rs/shards").cloned();
    let map = cluster.list::<Lease>().await?.into_iter().find(|lease| text(lease).is_some()).ok_or("there is a map")?;
    let before = spread(&touch(&cluster, &objects, "1", &notes).await?);
    let now = cluster.patch(&map, json!({"metadata": {"annotations": {"kooper.rs/controller": null}}})).await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "2", &notes).await?), before);
    let later: Lease = cluster.get(&*map.name_any()).await?.ok_or("it was deleted")?;
    assert_eq!((text(&later), later.uid()), (text(&now), now.uid()));
    notes.stop_and_check([first, second]).await
}
