//! Conflicts: a write of another client came first.

use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kooper::apiserver::faults::Verb;
use kooper::capability::{PatchBody, owned_by};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{BoxError, Call, Controller, Creator, Patcher};
use serde_json::json;

use crate::fixture::{Log, eventually, with_name};

const HOUR: Duration = Duration::from_secs(3600);

fn config(name: &str) -> ConfigMap {
    let mut config: ConfigMap = with_name(name);
    config.metadata.labels = Some([("app".to_owned(), "conflicts".to_owned())].into());
    config
}

fn builder() -> kooper::controller::Builder<ConfigMap> {
    Controller::builder::<ConfigMap>("conflicts").labels("app=conflicts").resync(None).backoff(HOUR, HOUR)
}

async fn warnings(cluster: &Cluster) -> usize {
    let events = cluster.list::<Event>().await.expect("they can be listed");
    events.iter().filter(|event| event.type_.as_deref() == Some("Warning")).count()
}

#[kooper::test(start_paused = true)]
async fn a_write_to_any_version_is_sent_again_after_a_conflict(cluster: Cluster) -> Result<()> {
    let log = Log::default();
    let handler = async |call: Call, patcher: Patcher<ConfigMap>, log: State<Log>| {
        log.note("call");
        patcher.patch(call.key(), PatchBody::merge(json!({"data": {"done": "yes"}}))).await?;
        log.note("done");
        Ok::<_, BoxError>(())
    };
    let conflicts = cluster.faults().on(Verb::Patch.of("configmaps")).first(3).reply(409);
    let running = cluster.run([builder().state(log.clone()).handler(handler).build()?]).await?;
    cluster.create(&config("a")).await?;
    eventually("it is done", || log.count() >= 2).await;
    assert_eq!((conflicts.times(), log.lines()[..2].join(" ")), (3, "call done".to_owned()));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_conflict_costs_a_call_and_neither_a_back_off_nor_an_event(cluster: Cluster) -> Result<()> {
    let log = Log::default();
    let handler = async |object: Arc<ConfigMap>, call: Call, patcher: Patcher<ConfigMap>, log: State<Log>| {
        log.note(format!("{} {}", call.attempt(), call.reasons()));
        let version = object.metadata.resource_version.as_deref();
        let patch = json!({"metadata": {"resourceVersion": version}, "data": {"done": "yes"}});
        patcher.patch(call.key(), PatchBody::merge(patch)).await?;
        log.note("done");
        Ok::<_, BoxError>(())
    };
    cluster.faults().on(Verb::Patch.of("configmaps")).first(3).reply(409);
    let running = cluster.run([builder().state(log.clone()).handler(handler).build()?]).await?;
    cluster.create(&config("a")).await?;
    let started = tokio::time::Instant::now();
    eventually("it is done", || log.lines().contains(&"done".to_owned())).await;
    assert!(started.elapsed() < Duration::from_secs(1), "after {:?}", started.elapsed());
    assert_eq!(log.lines()[..5], ["1 added", "1 retry", "1 retry", "1 retry", "done"]);
    assert_eq!(warnings(&cluster).await, 0);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_conflict_that_remains_is_a_failure_with_a_back_off(cluster: Cluster) -> Result<()> {
    let (calls, reasons) = (Arc::new(AtomicUsize::new(0)), Log::default());
    let (counted, noted) = (calls.clone(), reasons.clone());
    let handler = move |object: Arc<ConfigMap>, creator: Creator<Secret>| {
        counted.fetch_add(1, Ordering::SeqCst);
        let reasons = noted.clone();
        async move {
            let taken: Secret = with_name("taken");
            let created = creator.create(&owned_by(&*object, taken)?).await;
            if let Err(error) = &created {
                reasons.note(error.source().map(ToString::to_string).unwrap_or_default());
            }
            created?;
            Ok::<_, BoxError>(())
        }
    };
    let controller = builder().owns(Secret::all()).handler(handler).build()?;
    let running = cluster.run([controller]).await?;
    let owner = cluster.create(&config("owner")).await?;
    eventually("the first owner has it", || calls.load(Ordering::SeqCst) >= 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = calls.load(Ordering::SeqCst);
    cluster.create(&config("other")).await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = calls.load(Ordering::SeqCst);
    assert!((2..=12).contains(&(after - before)), "{} calls", after - before);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(calls.load(Ordering::SeqCst), after, "the back-off is an hour");
    assert_eq!(warnings(&cluster).await, 2, "one for each object");
    let named = format!("; ConfigMap `owner` ({}) controls it", owner.metadata.uid.as_deref().unwrap_or_default());
    let reasons = reasons.lines();
    assert!(reasons.last().is_some_and(|reason| reason.ends_with(&named)), "{reasons:#?}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn edits_of_one_object_by_many_calls_lose_nothing(cluster: Cluster) -> Result<()> {
    const OBJECTS: usize = 40;
    let handler = |object: Arc<ConfigMap>, logs: Patcher<ConfigMap>| async move {
        let key = ObjectKey::new(object.metadata.namespace.as_deref(), "log");
        let line = format!("{}\n", object.name_any());
        let edited = logs
            .edit(&key, |log| {
                let text = log.data.get_or_insert_default().entry("lines".to_owned()).or_default();
                if !text.contains(&line) {
                    text.push_str(&line);
                }
            })
            .await?;
        assert!(edited.data.is_some_and(|data| data["lines"].contains(&line)));
        Ok::<_, BoxError>(())
    };
    let mut log = config("log");
    log.metadata.labels = None;
    log.metadata.finalizers = Some(vec!["example.com/kept".to_owned()]);
    let log = cluster.create(&log).await?;
    let running = cluster.run([builder().workers(8).handler(handler).build()?]).await?;
    for number in 0..OBJECTS {
        cluster.create(&config(&format!("object-{number}x"))).await?;
    }
    let lines = |log: &ConfigMap| log.data.as_ref().map_or(0, |data| data["lines"].lines().count());
    let log = cluster.wait(&log, |log: &ConfigMap| lines(log) == OBJECTS).await;
    assert_eq!(log.metadata.finalizers.as_deref(), Some(&["example.com/kept".to_owned()][..]));
    assert_eq!(warnings(&cluster).await, 0);
    running.stop().await
}
