//! Replicas that join and stop share the objects anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kooper::apiserver::faults::Verb;
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::Cluster;
use kooper::{CancellationToken, Controller};
use kooper_runtime::internal::client::from_fn;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use super::replicas::{
    Notes, SETTLE, create, create_in_each_shard, map_and_identities, metric, named, noting, noting_by, override_plan,
    permit_everything, replica, spread, touch,
};
use crate::fixture::{eventually, with_name};

#[kooper::test(start_paused = true)]
async fn one_replica_begins_at_once_also_after_another_one_has_stopped(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    create(&cluster, 8).await?;
    // Otherwise no time passes between a request and its response.
    cluster.faults().on(Verb::Get.of("leases")).delay_answer(Duration::from_millis(10));
    // The lease of one that has not stopped lasts for 15 s, and sessions are read every 2 s.
    for who in ["a", "b", "c"] {
        let (begun, before) = (Instant::now(), notes.count());
        let running = cluster.run([noting(who, &notes).build()?]).await?;
        eventually("each object is handled", || notes.since(before).len() == 8).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{who}: {:?}", begun.elapsed());
        running.stop().await?;
    }
    notes.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn with_one_shard_one_replica_works_and_another_stands_by_until_it_stops(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 8).await?;
    let start = |who| noting_by(who, &notes, |builder| builder.shards(Shards::new(1))).build();
    let first = cluster.run([start("a")?]).await?;
    eventually("one replica handles all", || notes.since(0).len() == 8).await;
    let second = cluster.run([start("b")?]).await?;
    tokio::time::sleep(SETTLE).await;
    let shared = spread(&touch(&cluster, &objects, "1", &notes).await?);
    assert_eq!(shared.into_iter().collect::<Vec<_>>(), [("a", 8)]);
    first.stop().await?;
    eventually("the other replica handles all", || notes.calls().iter().filter(|call| call.who == "b").count() == 8)
        .await;
    let shared = spread(&touch(&cluster, &objects, "2", &notes).await?);
    assert_eq!(shared.into_iter().collect::<Vec<_>>(), [("b", 8)]);
    notes.stop_and_check([second]).await
}

#[kooper::test(start_paused = true)]
async fn replicas_that_join_share_the_objects_and_those_that_stop_hand_them_over(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 48).await?;
    let first = cluster.run([noting("a", &notes).build()?]).await?;
    eventually("one replica handles all", || notes.since(0).len() == 48).await;
    let second = cluster.run([noting("b", &notes).build()?]).await?;
    let third = cluster.run([noting("c", &notes).build()?]).await?;
    tokio::time::sleep(SETTLE).await;
    let by_new = notes.calls().into_iter().filter(|call| call.who != "a").count();
    let shared = spread(&touch(&cluster, &objects, "1", &notes).await?);
    assert!(shared.len() == 3 && shared.values().all(|objects| (4..=30).contains(objects)), "{shared:?}");
    // A new owner handles each object of its shards, because the last owner may have planned a call.
    assert!(by_new >= 48 - shared["a"], "{by_new} of {shared:?}");

    second.stop().await?;
    let before = notes.count();
    tokio::time::sleep(SETTLE).await;
    assert!(notes.since(before).values().all(|by| !by.contains("b")), "it has stopped");
    let shared = spread(&touch(&cluster, &objects, "2", &notes).await?);
    assert_eq!(shared.keys().copied().collect::<Vec<_>>(), ["a", "c"]);

    first.stop().await?;
    tokio::time::sleep(SETTLE).await;
    let shared = spread(&touch(&cluster, &objects, "3", &notes).await?);
    assert_eq!(shared.into_iter().collect::<Vec<_>>(), [("c", 48)]);
    notes.stop_and_check([third]).await
}

/// The longest pauses of objects that are called again and again.
#[derive(Clone, Default)]
struct Pauses(Arc<Mutex<BTreeMap<String, (Instant, Duration)>>>);

impl Pauses {
    fn begin(&self, object: String) {
        let now = Instant::now();
        let mut pauses = self.0.lock();
        let (last, longest) = pauses.entry(object).or_insert((now, Duration::ZERO));
        (*last, *longest) = (now, now.duration_since(*last).max(*longest));
    }

    fn longest(&self) -> Duration {
        self.0.lock().values().map(|(_, longest)| *longest).max().unwrap_or_default()
    }
}

#[kooper::test(start_paused = true)]
async fn a_call_that_does_not_end_keeps_its_shard_and_pauses_the_other_objects_for_two_seconds_at_most(
    cluster: Cluster,
) -> Result<()> {
    const LEASE: Duration = Duration::from_secs(15);
    const ATTEMPT: Duration = Duration::from_secs(2);
    let (notes, pauses, end) = (Notes::default(), Pauses::default(), CancellationToken::new());
    let objects = create_in_each_shard(&cluster, 2).await?;
    // Of the two objects of each shard, one hangs.
    let hangs: BTreeSet<String> = objects.iter().step_by(2).map(ResourceExt::name_any).collect();
    let start = |who| {
        let (notes, pauses, end, hangs) = (notes.clone(), pauses.clone(), end.clone(), hangs.clone());
        let controller = Controller::builder::<ConfigMap>("hangs").labels("app=shop").resync(None).timeout(None);
        let controller = controller.workers(64).shards(Shards::new(16)).handler(move |call: Call| {
            let (running, end) = (notes.begin(who, &call), end.clone());
            let hangs = hangs.contains(call.key().name());
            if !hangs {
                pauses.begin(call.key().to_string());
            }
            async move {
                let _running = running;
                if hangs {
                    end.cancelled().await;
                    return Action::done();
                }
                Action::requeue_after(Duration::from_millis(100))
            }
        });
        controller.build()
    };
    let of = |who| -> BTreeSet<String> {
        notes.calls().into_iter().filter(|call| call.who == who).map(|call| call.object).collect()
    };
    let first = cluster.run([start("a")?]).await?;
    eventually("one replica has begun all", || of("a").len() == 32).await;
    let second = cluster.run([start("b")?]).await?;
    tokio::time::sleep(LEASE * 4).await;
    assert_eq!(of("b"), BTreeSet::new(), "the shards stay where they are");
    let attempt = ATTEMPT..ATTEMPT + Duration::from_millis(250);
    assert!(attempt.contains(&pauses.longest()), "{:?}", pauses.longest());

    end.cancel();
    let ended = Instant::now();
    eventually("half of the objects have another owner", || of("b").len() == 16).await;
    println!("handed over after {:?}; the longest pause was {:?}", ended.elapsed(), pauses.longest());
    assert!(ended.elapsed() <= LEASE + Duration::from_millis(250), "at the next attempt: {:?}", ended.elapsed());
    assert!(attempt.contains(&pauses.longest()), "{:?}", pauses.longest());
    notes.stop_and_check([first, second]).await
}

#[kooper::test(start_paused = true)]
async fn the_time_for_which_a_hand_over_pauses_a_shard_is_measured(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    create(&cluster, 16).await?;
    let start = |who| -> Result<_> {
        Ok(replica(&cluster, noting(who, &notes).build()?, from_fn(|request, next| next.oneshot(request))))
    };
    let first = start("a")?;
    eventually("one replica handles all", || notes.since(0).len() == 16).await;
    cluster.faults().on(Verb::Update.of("leases").named("shop-notes")).delay(Duration::from_millis(500));
    let second = start("b")?;
    tokio::time::sleep(SETTLE).await;
    let hand_overs = |running| {
        let series = "kooper_shard_handover_duration_seconds";
        (metric(running, &format!("{series}_count")), metric(running, &format!("{series}_sum")))
    };
    // Half of the 16 shards. Each pauses until the write that gives it away is stored.
    let (count, seconds) = hand_overs(&first);
    assert_eq!((count, metric(&first, "kooper_shards_owned")), (8.0, 8.0));
    assert!((3.99..16.0).contains(&seconds), "{seconds}");
    assert_eq!((hand_overs(&second), metric(&second, "kooper_shards_gained_total")), ((0.0, 0.0), 8.0));
    second.stop().await.map_err(|error| error.to_string())?;
    first.stop().await.map_err(|error| error.to_string())?;
    notes.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn each_owner_handles_every_object_of_a_shard_once(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    create(&cluster, 48).await?;
    let first = cluster.run([noting("a", &notes).build()?]).await?;
    eventually("one replica handles all", || notes.since(0).len() == 48).await;
    let second = cluster.run([noting("b", &notes).build()?]).await?;
    tokio::time::sleep(SETTLE).await;
    let third = cluster.run([noting("c", &notes).build()?]).await?;
    tokio::time::sleep(SETTLE).await;
    first.kill().await;
    tokio::time::sleep(SETTLE).await;
    second.stop().await?;
    tokio::time::sleep(SETTLE).await;
    let by_last = notes.calls().into_iter().filter(|call| call.who == "c").count();
    assert_eq!(by_last, 48, "each object by the last owner");
    third.stop().await?;
    notes.check_that_nothing_else_has_happened();
    notes.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_split_disturbs_no_object(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 48).await?;
    let first = cluster.run([noting("a", &notes).build()?]).await?;
    eventually("one replica handles all", || notes.since(0).len() == 48).await;
    let more = noting_by("b", &notes, |builder| builder.shards(Shards::new(64)));
    let second = cluster.run([more.build()?]).await?;
    tokio::time::sleep(SETTLE).await;
    first.stop().await?;
    tokio::time::sleep(SETTLE).await;
    notes.check_that_nothing_else_has_happened();
    touch(&cluster, &objects, "1", &notes).await?;
    assert_eq!(notes.calls().last().map(|call| call.shard.count), Some(64));
    notes.stop_and_check([second]).await
}

#[kooper::test(start_paused = true)]
async fn fewer_shards_and_those_of_another_field_are_shared_anew_once_all_replicas_have_them(
    cluster: Cluster,
) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 32).await?;
    let mut replicas = Vec::new();
    for who in ["a", "b"] {
        replicas.push(cluster.run([noting(who, &notes).build()?]).await?);
    }
    tokio::time::sleep(SETTLE).await;
    let fewer = |builder: Builder<ConfigMap>| builder.shards(Shards::new(4));
    let by_namespace = |builder: Builder<ConfigMap>| builder.shards_by_namespace(Shards::new(8));
    let versions = [
        (noting_by("c", &notes, fewer), 16),
        (noting_by("d", &notes, fewer), 4),
        (noting_by("e", &notes, by_namespace), 4),
        (noting_by("f", &notes, by_namespace), 8),
    ];
    for (turn, (version, count)) in versions.into_iter().enumerate() {
        replicas.remove(0).stop().await?;
        replicas.push(cluster.run([version.build()?]).await?);
        tokio::time::sleep(SETTLE).await;
        spread(&touch(&cluster, &objects, &turn.to_string(), &notes).await?);
        assert_eq!(notes.calls().last().map(|call| call.shard.count), Some(count), "{turn}");
    }
    notes.stop_and_check(replicas).await
}

#[kooper::test(start_paused = true)]
async fn objects_of_a_namespace_stay_together_if_it_decides_their_shard(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let mut objects = Vec::new();
    for tenant in 0..16 {
        cluster.create(&with_name::<Namespace>(&format!("tenant-{tenant}"))).await?;
        for name in ["one", "two", "three"] {
            objects.push(cluster.create(&named(&format!("tenant-{tenant}"), name)).await?);
        }
    }
    let by_namespace = |who| noting_by(who, &notes, |builder| builder.shards_by_namespace(Shards::new(16))).build();
    let first = cluster.run([by_namespace("a")?]).await?;
    let second = cluster.run([by_namespace("b")?]).await?;
    tokio::time::sleep(SETTLE).await;
    let handled = touch(&cluster, &objects, "1", &notes).await?;
    assert_eq!(spread(&handled).len(), 2, "both work");
    for tenant in 0..16 {
        let mut of_tenant = handled.iter().filter(|(key, _)| key.starts_with(&format!("tenant-{tenant}/")));
        let by = of_tenant.next().expect("it has objects").1;
        assert!(of_tenant.all(|(_, other)| other == by), "{handled:?}");
    }
    notes.stop_and_check([first, second]).await
}

#[kooper::test(start_paused = true)]
async fn a_person_drains_a_replica_and_moves_shards(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 32).await?;
    let first = cluster.run([noting("a", &notes).build()?]).await?;
    let second = cluster.run([noting("b", &notes).build()?]).await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes).await?).len(), 2);
    let (map, identities) = map_and_identities(&cluster).await?;
    let one = identities.first().expect("a replica has a session");

    // As the command `shards` writes it.
    let drained = json!({"drained": [one]});
    let moved = json!({"of": 16, "moved": (0..16).map(|shard| (shard.to_string(), json!(one))).collect::<Value>()});
    let mut owners = Vec::new();
    for overrides in [&drained, &moved] {
        override_plan(&cluster, &map, overrides.to_string().into()).await?;
        tokio::time::sleep(SETTLE).await;
        let handled = spread(&touch(&cluster, &objects, &overrides.to_string(), &notes).await?);
        assert_eq!(handled.values().copied().collect::<Vec<_>>(), [32], "one replica owns all shards");
        owners.extend(handled.into_keys());
    }
    assert_ne!(owners[0], owners[1]);

    override_plan(&cluster, &map, Value::Null).await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "2", &notes).await?).len(), 2, "the plan alone decides again");
    notes.stop_and_check([first, second]).await
}

#[kooper::test(start_paused = true)]
async fn more_replicas_than_members_are_ready_and_wait(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create_in_each_shard(&cluster, 1).await?;
    let share = |who| noting_by(who, &notes, |builder| builder.shards(Shards::new(4).members(2))).build();
    let first = cluster.run([share("a")?]).await?;
    let second = cluster.run([share("b")?]).await?;
    tokio::time::sleep(SETTLE).await;
    // It returns when the replica is ready.
    let third = cluster.run([share("c")?]).await?;
    tokio::time::sleep(SETTLE).await;
    assert!(!spread(&touch(&cluster, &objects, "1", &notes).await?).contains_key("c"));
    first.stop().await?;
    tokio::time::sleep(SETTLE).await;
    assert!(spread(&touch(&cluster, &objects, "2", &notes).await?).contains_key("c"), "a place became free");
    notes.stop_and_check([second, third]).await
}

/// Two installations that should have different instance names.
#[kooper::test(start_paused = true)]
async fn a_replica_that_watches_other_namespaces_is_ready_and_waits(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 12).await?;
    let own = cluster.namespace().to_owned();
    let elsewhere: Namespace = serde_json::from_value(json!({"metadata": {"name": "elsewhere"}}))?;
    cluster.create(&elsewhere).await?;
    let share = |who, namespace: &str| {
        noting_by(who, &notes, |builder| builder.shards(Shards::new(4)).namespaces([namespace.to_owned()])).build()
    };
    let first = cluster.run([share("a", &own)?]).await?;
    tokio::time::sleep(SETTLE).await;
    let second = cluster.run([share("b", "elsewhere")?]).await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes).await?), [("a", 12)].into());
    let third = cluster.run([share("c", &own)?]).await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "2", &notes).await?).len(), 2, "replicas of one installation share");

    let maps = || async {
        let leases: Vec<Lease> = cluster.list().await?;
        let scopes = leases.iter().filter_map(|lease| lease.annotations().get("kooper.rs/namespaces").cloned());
        Ok::<_, kooper::BoxError>(scopes.collect::<BTreeSet<_>>())
    };
    assert_eq!(maps().await?, [own.clone()].into());
    first.stop().await?;
    third.stop().await?;
    tokio::time::sleep(SETTLE).await;
    assert!(maps().await?.contains("elsewhere"), "it works when the others have stopped");
    notes.stop_and_check([second]).await
}

#[kooper::test(start_paused = true)]
async fn of_two_installations_that_start_at_the_same_moment_one_works_and_then_the_other(
    cluster: Cluster,
) -> Result<()> {
    let notes = Notes::default();
    let elsewhere: Namespace = serde_json::from_value(json!({"metadata": {"name": "elsewhere"}}))?;
    cluster.create(&elsewhere).await?;
    let namespaces = [cluster.namespace(), "elsewhere"];
    permit_everything(&cluster).await?;
    let mut objects = [Vec::new(), Vec::new()];
    for (objects, namespace) in objects.iter_mut().zip(namespaces) {
        for number in 0..12 {
            objects.push(cluster.create(&named(namespace, &format!("config-{number}"))).await?);
        }
    }
    // Each has read that there is no session before the other one has one.
    cluster.faults().on(Verb::Get.of("leases")).delay_answer(Duration::from_millis(10));
    let share = |who, namespace: &str| {
        noting_by(who, &notes, |builder| builder.shards(Shards::new(4)).namespaces([namespace.to_owned()])).build()
    };
    let [first, second] = [share("a", namespaces[0])?, share("b", namespaces[1])?];
    let (first, second) = tokio::try_join!(cluster.run([first]), cluster.run([second]))?;
    tokio::time::sleep(SETTLE).await;
    let begun = notes.count();
    let all: Vec<ConfigMap> = objects.concat();
    for object in &all {
        cluster.patch(object, json!({"data": {"value": "1"}})).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let working: Vec<_> = spread(&notes.since(begun)).into_iter().collect();
    let is_first = working == [("a", 12)];
    assert!(is_first || working == [("b", 12)], "one works on all of its objects, and the other on none: {working:?}");

    let (works, waits) = if is_first { (first, second) } else { (second, first) };
    works.stop().await?;
    tokio::time::sleep(SETTLE).await;
    let (who, objects) = if is_first { ("b", &objects[1]) } else { ("a", &objects[0]) };
    assert_eq!(spread(&touch(&cluster, objects, "2", &notes).await?), [(who, 12)].into());
    notes.stop_and_check([waits]).await
}
