//! Related objects, readers, timers and tasks of replicas that share the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::Controller;
use kooper::controller::{Builder, Task};
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::Cluster;
use serde_json::json;

use super::replicas::{Notes, create, create_in_each_shard, noting, spread, touch};
use crate::fixture::{Log, eventually, with_name};

/// The time for shards to be shared, and for calls after that.
const SETTLE: Duration = Duration::from_secs(30);

const MINUTE: Duration = Duration::from_secs(60);

fn builder() -> Builder<ConfigMap> {
    Controller::builder::<ConfigMap>("works").labels("app=shop").resync(None).shards(Shards::new(16))
}

async fn secret(cluster: &Cluster, name: &str) -> Result<Secret> {
    Ok(cluster.create(&with_name(name)).await?)
}

#[kooper::test(start_paused = true)]
async fn a_change_of_a_related_object_calls_the_handler_once_for_each_object_in_its_owner(
    cluster: Cluster,
) -> Result<()> {
    let notes = Notes::default();
    let objects = create(&cluster, 24).await?;
    let related = secret(&cluster, "all").await?;
    let keys: Vec<_> =
        objects.iter().map(|object| ObjectKey::namespaced(cluster.namespace(), &object.name_any())).collect();
    let start = |who| {
        let (notes, keys) = (notes.clone(), keys.clone());
        let map = move |secret: &Secret| if secret.name_any() == "all" { keys.clone() } else { Vec::new() };
        let handler = move |call: Call| {
            drop(notes.begin(who, &call));
            async {}
        };
        builder().watches(map).handler(handler).build()
    };
    let [first, second] = [cluster.run([start("a")?]).await?, cluster.run([start("b")?]).await?];
    tokio::time::sleep(SETTLE).await;
    let change = async |value: &str| {
        let before = notes.count();
        cluster.patch(&related, json!({"stringData": {"value": value}})).await?;
        tokio::time::sleep(SETTLE).await;
        let calls = notes.calls().split_off(before);
        assert_eq!(calls.len(), 24, "one for each object: {calls:?}");
        let is_related = |reasons: &str| reasons == format!("Secret {}/all", cluster.namespace());
        assert!(calls.iter().all(|call| is_related(&call.reasons)), "{calls:?}");
        let handled = notes.since(before);
        assert_eq!(handled.len(), 24, "{handled:?}");
        Ok::<_, kooper::BoxError>(handled)
    };
    let by_related = change("1").await?;
    assert_eq!(spread(&by_related).len(), 2, "both work");
    // They are the owners.
    assert_eq!(touch(&cluster, &objects, "1", &notes).await?, by_related);
    first.stop().await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&change("2").await?), [("b", 24)].into());
    notes.stop_and_check([second]).await
}

#[kooper::test(start_paused = true)]
async fn a_reader_has_the_objects_of_all_shards_also_those_of_the_kind_of_the_controller(
    cluster: Cluster,
) -> Result<()> {
    const OBJECTS: usize = 24;
    let (notes, seen) = (Notes::default(), Log::default());
    let objects = create(&cluster, OBJECTS).await?;
    for number in 0..3 {
        secret(&cluster, &format!("secret-{number}")).await?;
    }
    let start = |who| {
        let (notes, seen) = (notes.clone(), seen.clone());
        let handler = move |call: Call, configs: Reader<ConfigMap>, secrets: Reader<Secret>| {
            drop(notes.begin(who, &call));
            let seen = seen.clone();
            async move {
                let values =
                    configs.list().filter_map(|entry| entry.decode().ok()?.data.as_ref()?.get("value").cloned());
                let of_secrets = secrets.list().filter(|entry| entry.name().starts_with("secret-")).count();
                let values: BTreeSet<String> = values.collect();
                let of_configs = configs.list().filter(|entry| entry.name().starts_with("config-")).count();
                seen.note(format!("{who}: {of_configs} configs with {values:?}, {of_secrets} secrets"));
            }
        };
        builder().handler(handler).build()
    };
    let [first, second] = [cluster.run([start("a")?]).await?, cluster.run([start("b")?]).await?];
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "old", &notes).await?).len(), 2);
    for object in &objects {
        cluster.patch(object, json!({"data": {"value": "new"}})).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let before = seen.count();
    for object in &objects {
        cluster.patch(object, json!({"data": {"other": "yes"}})).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let lines = seen.lines().split_off(before);
    let all = |who| format!("{who}: {OBJECTS} configs with {{\"new\"}}, 3 secrets");
    assert_eq!(lines.len(), OBJECTS, "{lines:?}");
    assert_eq!(lines.into_iter().collect::<BTreeSet<_>>(), [all("a"), all("b")].into());
    notes.stop_and_check([first, second]).await
}

#[kooper::test(start_paused = true)]
async fn a_timer_of_an_object_whose_shard_moves_runs_in_the_new_owner_alone(cluster: Cluster) -> Result<()> {
    const EVERY: Duration = Duration::from_secs(120);
    let notes = Notes::default();
    let all = create_in_each_shard(&cluster, 2).await?.len();
    let start = |who| {
        let notes = notes.clone();
        let handler = move |call: Call| {
            drop(notes.begin(who, &call));
            async { Action::requeue_after(EVERY) }
        };
        builder().handler(handler).build()
    };
    let first = cluster.run([start("a")?]).await?;
    eventually("one replica handles all", || notes.since(0).len() == all).await;
    tokio::time::sleep(EVERY / 2).await;
    let second = cluster.run([start("b")?]).await?;
    tokio::time::sleep(SETTLE).await;
    let moved: BTreeSet<String> =
        notes.calls().into_iter().filter(|call| call.who == "b").map(|call| call.object).collect();
    assert_eq!((moved.len(), notes.count()), (all / 2, all + all / 2));

    // The timers of the first replica end after this: those of the moved objects began anew.
    let turn = async |share: BTreeMap<&'static str, usize>, wait: Duration| {
        let before = notes.count();
        tokio::time::sleep(wait).await;
        let calls = notes.calls().split_off(before);
        assert!(calls.iter().all(|call| call.reasons == "requeue"), "{calls:?}");
        assert_eq!(calls.len(), share.values().sum::<usize>(), "each timer once: {calls:?}");
        assert_eq!(spread(&notes.since(before)), share);
    };
    turn([("a", all / 2)].into(), EVERY / 2).await;
    turn([("b", all / 2)].into(), EVERY / 2).await;
    for _ in 0..3 {
        turn([("a", all / 2), ("b", all / 2)].into(), EVERY).await;
    }
    // They come back, and no timer from before is left.
    second.stop().await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = notes.count();
    tokio::time::sleep(3 * EVERY).await;
    assert_eq!((spread(&notes.since(before)), notes.count() - before), ([("a", all)].into(), 3 * all));
    notes.stop_and_check([first]).await
}

#[kooper::test(start_paused = true)]
async fn a_task_beside_shards_runs_in_one_replica_or_everywhere(cluster: Cluster) -> Result<()> {
    let (notes, log) = (Notes::default(), Log::default());
    let objects = create(&cluster, 24).await?;
    let start = |who| -> Result<[Controller; 3]> {
        let leader = Task::builder("leader", MINUTE).leader_election(LeaderElection::new());
        let everywhere = Task::builder("everywhere", MINUTE).everywhere();
        Ok([
            noting(who, &notes).build()?,
            leader.handler(log.noting(move |_: Call| format!("{who} as leader"))).build()?,
            everywhere.handler(log.noting(move |_: Call| format!("{who} everywhere"))).build()?,
        ])
    };
    let [first, second] = [cluster.run(start("a")?).await?, cluster.run(start("b")?).await?];
    tokio::time::sleep(6 * MINUTE + SETTLE).await;
    let runs = || {
        let lines = log.lines().into_iter();
        lines.fold(BTreeMap::<String, usize>::new(), |mut runs, line| {
            *runs.entry(line).or_default() += 1;
            runs
        })
    };
    let before = runs();
    assert_eq!(before.keys().collect::<Vec<_>>(), ["a as leader", "a everywhere", "b everywhere"]);
    assert!(before.values().all(|runs| (6..=8).contains(runs)), "{before:?}");
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes).await?).len(), 2, "both own shards");

    first.kill().await;
    // A run may have begun while the objects were handled.
    let before = runs();
    tokio::time::sleep(6 * MINUTE + SETTLE).await;
    let after = runs();
    assert!(before.iter().all(|(line, runs)| line.starts_with('b') || after[line] == *runs), "{after:?}");
    let further = |line| after[line] - before.get(line).copied().unwrap_or_default();
    assert!(["b as leader", "b everywhere"].into_iter().all(|line| further(line) >= 6), "{after:?}");
    assert_eq!(spread(&touch(&cluster, &objects, "2", &notes).await?), [("b", 24)].into());
    notes.stop_and_check([second]).await
}
