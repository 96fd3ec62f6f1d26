//! Tasks that run in a shard of a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kooper::controller::{Builder, Task};
use kooper::kube::{Client, Config};
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::Cluster;
use kooper::{Controller, Operator};
use kooper_runtime::internal::leader::new_identity;

use super::replicas::{Notes, create, failing, noting, noting_by, permit_everything, replica_of, spread, touch};
use crate::fixture::{Log, eventually, run_edited};

const MINUTE: Duration = Duration::from_secs(60);

/// The time for shards to be shared, and for a run of each task.
const SETTLE: Duration = Duration::from_secs(200);

/// A task each of whose runs takes most of the interval.
fn task(who: &'static str, name: &str, notes: &Notes) -> Builder<Task> {
    let notes = notes.clone();
    Task::builder(name, MINUTE).shard_of("notes").handler(move |call: Call| {
        let running = notes.begin(who, &call);
        async move {
            tokio::time::sleep(Duration::from_secs(40)).await;
            drop(running);
        }
    })
}

/// A controller with shards and twelve tasks. Their notes are apart.
fn controllers(who: &'static str, by_namespace: bool, (objects, tasks): &(Notes, Notes)) -> Result<Vec<Controller>> {
    let shards = if by_namespace { Shards::new(16).by_namespace() } else { Shards::new(16) };
    let mut controllers = vec![noting_by(who, objects, |builder| builder.shards(shards)).build()?];
    for number in 0..12 {
        controllers.push(task(who, &format!("task-{number}"), tasks).build()?);
    }
    Ok(controllers)
}

/// Runs replicas that own the same numbers of shards, until only the second one is left.
async fn check_that_tasks_follow_their_shards(cluster: &Cluster, by_namespace: bool) -> Result<()> {
    let notes = (Notes::default(), Notes::default());
    let start = |who| controllers(who, by_namespace, &notes);
    let first = cluster.run(start("a")?).await?;
    tokio::time::sleep(SETTLE).await;
    let alone = notes.1.since(0);
    assert!(alone.len() == 12 && alone.values().all(|by| by.len() == 1 && by.contains("a")), "{alone:?}");

    let second = cluster.run(start("b")?).await?;
    // A shard whose task runs is not given away before the run has ended.
    tokio::time::sleep(5 * SETTLE).await;
    let before = notes.1.count();
    tokio::time::sleep(SETTLE).await;
    let shared = notes.1.since(before);
    assert!(shared.len() == 12 && shared.values().all(|by| by.len() == 1), "{shared:?}");
    assert_eq!(spread(&shared).len(), 2, "both run tasks: {shared:?}");

    first.kill().await;
    tokio::time::sleep(SETTLE).await;
    let before = notes.1.count();
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&notes.1.since(before)), [("b", 12)].into());
    second.stop().await?;
    notes.1.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_task_runs_in_the_replica_that_owns_its_shard(cluster: Cluster) -> Result<()> {
    check_that_tasks_follow_their_shards(&cluster, false).await
}

#[kooper::test(start_paused = true)]
async fn tasks_are_spread_over_the_replicas_although_all_objects_are_in_one_namespace(cluster: Cluster) -> Result<()> {
    check_that_tasks_follow_their_shards(&cluster, true).await
}

#[kooper::test(start_paused = true)]
async fn a_task_that_fails_in_its_shard_holds_up_no_hand_over(cluster: Cluster) -> Result<()> {
    let notes = (Notes::default(), Notes::default());
    let objects = create(&cluster, 24).await?;
    let start = |who| -> Result<Vec<Controller>> {
        let fail = async || -> Result<()> { Err("nothing helps".into()) };
        let mut controllers = controllers(who, false, &notes)?;
        controllers.push(Task::builder("failing", MINUTE).shard_of("notes").handler(fail).build()?);
        Ok(controllers)
    };
    let [first, second] = [cluster.run(start("a")?).await?, cluster.run(start("b")?).await?];
    tokio::time::sleep(5 * SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes.0).await?).len(), 2);
    first.stop().await?;
    assert_eq!(spread(&touch(&cluster, &objects, "2", &notes.0).await?), [("b", 24)].into());
    second.stop().await?;
    notes.0.check();
    notes.1.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_task_at_times_runs_once_at_each_of_them_wherever_its_shard_is(cluster: Cluster) -> Result<()> {
    let (objects, tasks, times) = (Notes::default(), Notes::default(), Log::default());
    let start = |who: &'static str| -> Result<[Controller; 2]> {
        let (tasks, times) = (tasks.clone(), times.clone());
        let handler = move |call: Call| {
            drop(tasks.begin(who, &call));
            times.note(call.now().strftime("%d %H:%M").to_string());
            async {}
        };
        let hourly = Task::cron("hourly", "0 * * * *").shard_of("notes").handler(handler).build()?;
        Ok([noting(who, &objects).build()?, hourly])
    };
    let mut last = cluster.run(start("a")?).await?;
    for who in ["b", "c"] {
        tokio::time::sleep(60 * MINUTE).await;
        let next = cluster.run(start(who)?).await?;
        tokio::time::sleep(5 * MINUTE).await;
        std::mem::replace(&mut last, next).stop().await?;
    }
    tokio::time::sleep(120 * MINUTE).await;
    // Four hours and ten minutes.
    let (runs, distinct) = (times.lines(), times.lines().into_iter().collect::<BTreeSet<_>>());
    assert!((4..=5).contains(&runs.len()) && runs.len() == distinct.len(), "{runs:?}");
    assert!(runs.iter().all(|time| time.ends_with(":00")), "{runs:?}");
    last.stop().await?;
    tasks.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_task_runs_although_its_objects_are_listed_long_after_its_shard_was_gained(cluster: Cluster) -> Result<()> {
    permit_everything(&cluster).await?;
    let (notes, log, fails) = (Notes::default(), Log::default(), Arc::new(AtomicBool::new(true)));
    let objects = create(&cluster, 3).await?;
    let task =
        Task::builder("late", MINUTE).shard_of("notes").handler(log.noting(|_: Reader<Secret>| "run".to_owned()));
    let controllers = [noting("a", &notes).build()?, task.build()?];
    let replica = replica_of(&cluster, controllers, failing("/secrets", &fails));
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes).await?), [("a", 3)].into(), "the shards are owned");
    assert_eq!(log.count(), 0);
    fails.store(false, Ordering::SeqCst);
    eventually("the task runs", || log.count() > 0).await;
    replica.stop().await?;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_run_of_a_task_has_the_drain_time_after_a_stop(cluster: Cluster) -> Result<()> {
    permit_everything(&cluster).await?;
    for drain in [Duration::from_secs(20), Duration::MAX] {
        let (notes, log) = (Notes::default(), Log::default());
        let task = Task::builder("long", 10 * MINUTE).shard_of("notes").state(log.clone()).handler(
            async |noted: State<Log>| {
                noted.note("begins");
                tokio::time::sleep(Duration::from_secs(15)).await;
                noted.note("ends");
            },
        );
        let controllers = [noting("a", &notes).build()?, task.build()?];
        let replica = run_edited(Some(cluster.client()), controllers, |builder| {
            let builder = builder.program("shop").lease_namespace(cluster.namespace()).identity(new_identity());
            builder.drain_timeout(drain)
        });
        eventually("the run has begun", || log.count() == 1).await;
        replica.stop().await?;
        assert_eq!(log.lines(), ["begins", "ends"], "{drain:?}");
    }
    Ok(())
}

#[test]
fn a_task_in_a_shard_of_a_controller_that_has_none_is_an_error() -> Result<()> {
    let build = |controller: &str, shards: bool| -> Result<String> {
        let notes = Notes::default();
        let other = noting_by("a", &notes, |builder| if shards { builder.shards(Shards::new(16)) } else { builder });
        let task = Task::builder("sweep", MINUTE).shard_of(controller).handler(async || {}).build()?;
        let client = Client::try_from(Config::new("http://127.0.0.1:1".parse()?))?;
        let built = Operator::builder().client(client).controller(other.build()?).controller(task).build();
        Ok(built.map_or_else(|error| error.to_string(), |_| "built".to_owned()))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    assert_eq!(build("notes", true)?, "built");
    for (controller, shards) in [("others", true), ("notes", false), ("sweep", true)] {
        let error = build(controller, shards)?;
        assert!(error.contains(&format!("the program has no controller `{controller}` with shards: write")), "{error}");
    }
    Ok(())
}

#[test]
fn a_task_runs_in_a_shard_or_in_the_leader_or_everywhere() {
    let builder = || Task::builder("sweep", MINUTE).shard_of("notes").handler(async || {});
    let mistakes: BTreeMap<&str, _> =
        [("everywhere", builder().everywhere()), ("shard_of", builder().leader_election(LeaderElection::new()))].into();
    for (field, mistake) in mistakes {
        let error = mistake.build().unwrap_err();
        assert_eq!(error.field, field, "{error}");
        assert!(error.to_string().contains("exclude each other"), "{error}");
    }
}
