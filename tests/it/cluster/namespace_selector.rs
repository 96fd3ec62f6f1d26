//! Controllers of the namespaces that match a label selector.

use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kooper::Controller;
use kooper::apiserver::faults::WatchEvent;
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::testing::Cluster;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::fixture::{Log, eventually};

const HOUR: Duration = Duration::from_secs(3600);

fn named(namespace: &str, labels: &serde_json::Value) -> Result<Namespace> {
    Ok(serde_json::from_value(json!({"metadata": {"name": namespace, "labels": labels}}))?)
}

fn config(namespace: &str) -> Result<ConfigMap> {
    let metadata = json!({"name": "one", "namespace": namespace, "labels": {"noted": "yes"}});
    Ok(serde_json::from_value(json!({"metadata": metadata}))?)
}

/// A namespace with an object, of the team or of none.
async fn create(cluster: &Cluster, namespace: &str, is_ours: bool) -> Result<(Namespace, ConfigMap)> {
    let labels = if is_ours { json!({"team": "a"}) } else { json!({}) };
    let created = cluster.create(&named(namespace, &labels)?).await?;
    Ok((created, cluster.create(&config(namespace)?).await?))
}

async fn set_team(cluster: &Cluster, namespace: &Namespace, team: Option<&str>) -> Result<()> {
    cluster.patch(namespace, json!({"metadata": {"labels": {"team": team}}})).await?;
    Ok(())
}

fn ours() -> Builder<ConfigMap> {
    ConfigMap::controller("ours").labels("noted=yes").namespace_selector("team=a").resync(None)
}

/// Notes the keys of its calls, and the objects that a reader has.
fn noted(log: &Log) -> Result<Controller> {
    let called = log.clone();
    let call = move |config: Arc<ConfigMap>, all: Reader<ConfigMap>| {
        let readable = all.list().filter(|one| one.key().name() == "one").count();
        called.note(format!("{} of {readable}", config.namespace().unwrap_or_default()));
        async {}
    };
    let remove = log.noting(|config: Arc<ConfigMap>| format!("deleted {}", config.namespace().unwrap_or_default()));
    Ok(ours().handler(call).deleted(remove).build()?)
}

#[kooper::test(start_paused = true)]
async fn objects_are_handled_while_their_namespace_matches_and_readers_have_all(cluster: Cluster) -> Result<()> {
    let (first, _) = create(&cluster, "first", true).await?;
    let (second, object) = create(&cluster, "second", false).await?;
    let log = Log::default();
    let running = cluster.run([noted(&log)?]).await?;
    eventually("the first one is handled", || log.count() == 1).await;
    cluster.settle().await;
    assert_eq!(log.lines(), ["first of 2"]);

    set_team(&cluster, &second, Some("a")).await?;
    eventually("the second one is handled", || log.count() == 2).await;
    cluster.settle().await;
    assert_eq!(log.lines()[1..], ["second of 2"], "the first one is not called again");

    for namespace in [&first, &second] {
        set_team(&cluster, namespace, Some("b")).await?;
    }
    cluster.settle().await;
    cluster.patch(&object, json!({"data": {"color": "red"}})).await?;
    cluster.delete(&object).await?;
    cluster.settle().await;
    assert_eq!(log.count(), 2, "neither a change nor a deletion: {:?}", log.lines());

    create(&cluster, "third", true).await?;
    set_team(&cluster, &first, Some("a")).await?;
    eventually("both are handled", || log.count() == 4).await;
    let mut lines = log.lines().split_off(2);
    lines.sort();
    assert!(lines[0].starts_with("first of") && lines[1].starts_with("third of"), "{lines:?}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn what_was_planned_for_an_object_ends_when_its_namespace_no_longer_matches(cluster: Cluster) -> Result<()> {
    let (repeated, _) = create(&cluster, "repeated", true).await?;
    let (failing, _) = create(&cluster, "failing", true).await?;
    let log = Log::default();
    let noted = log.clone();
    let call = move |config: Arc<ConfigMap>| {
        let namespace = config.namespace().unwrap_or_default();
        noted.note(namespace.clone());
        async move {
            if namespace == "failing" { Err("it fails") } else { Ok(Action::requeue_after(Duration::from_secs(60))) }
        }
    };
    let running = cluster.run([ours().handler(call).build()?]).await?;
    let count = |namespace: &str| log.lines().iter().filter(|line| **line == namespace).count();
    eventually("both are called again", || count("repeated") > 2 && count("failing") > 2).await;
    for namespace in [&repeated, &failing] {
        set_team(&cluster, namespace, None).await?;
    }
    sleep(Duration::from_secs(1)).await;
    let calls = log.count();
    sleep(HOUR).await;
    assert_eq!(log.count(), calls);

    set_team(&cluster, &failing, Some("a")).await?;
    eventually("it is called again", || log.count() > calls + 2).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_call_that_runs_when_its_namespace_no_longer_matches_ends_and_is_not_repeated(
    cluster: Cluster,
) -> Result<()> {
    let (namespace, object) = create(&cluster, "one", true).await?;
    let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
    let (noted, opened) = (log.clone(), gate.clone());
    let call = move |call: Call| {
        let (log, gate) = (noted.clone(), opened.clone());
        async move {
            log.note("begin");
            drop(gate.acquire().await);
            log.note(if call.is_cancelled() { "cancelled" } else { "end" });
            Err::<(), _>("it is not retried")
        }
    };
    let running = cluster.run([ours().timeout(None).handler(call).build()?]).await?;
    eventually("it runs", || log.count() == 1).await;
    // A change that waits for the end of the call.
    cluster.patch(&object, json!({"data": {"color": "red"}})).await?;
    set_team(&cluster, &namespace, None).await?;
    cluster.settle().await;
    gate.add_permits(1);
    sleep(HOUR).await;
    assert_eq!(log.lines(), ["begin", "end"]);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn deleted_is_called_for_the_objects_of_a_namespace_that_is_deleted(cluster: Cluster) -> Result<()> {
    let (namespace, _) = create(&cluster, "one", true).await?;
    let log = Log::default();
    let running = cluster.run([noted(&log)?]).await?;
    eventually("it is handled", || log.count() == 1).await;
    // The namespace is gone first, as far as the controller knows.
    let late = cluster.faults().on_event(WatchEvent::Deleted.of("configmaps")).delay(HOUR);
    cluster.delete(&namespace).await?;
    cluster.wait_deleted(&namespace).await;
    eventually("it is deleted", || log.count() == 2).await;
    drop(late);
    assert_eq!(log.lines()[1], "deleted one");

    // Another namespace has the name now, and does not match.
    create(&cluster, "one", false).await?;
    cluster.settle().await;
    assert_eq!(log.count(), 2, "{:?}", log.lines());
    running.stop().await
}

fn cleaning(log: &Log, on_leave: bool) -> Result<Controller> {
    let cleanup = log.noting(|config: Arc<ConfigMap>| format!("cleaned {}", config.namespace().unwrap_or_default()));
    let builder = ours().handler(async || {}).cleanup("example.com/ours", cleanup);
    Ok(if on_leave { builder.cleanup_on_leave() } else { builder }.build()?)
}

async fn has_finalizer(cluster: &Cluster, namespace: &str) -> Result<bool> {
    let config = cluster.get::<ConfigMap>(&ObjectKey::namespaced(namespace, "one")).await?;
    Ok(config.is_some_and(|config| !config.finalizers().is_empty()))
}

#[kooper::test(start_paused = true)]
async fn an_object_keeps_its_finalizer_and_is_cleaned_up_when_it_is_deleted(cluster: Cluster) -> Result<()> {
    let (namespace, object) = create(&cluster, "one", true).await?;
    let log = Log::default();
    let running = cluster.run([cleaning(&log, false)?]).await?;
    cluster.wait(&object, |config: &ConfigMap| !config.finalizers().is_empty()).await;
    set_team(&cluster, &namespace, None).await?;
    cluster.settle().await;
    assert!(has_finalizer(&cluster, "one").await? && log.count() == 0, "{:?}", log.lines());
    // So its namespace can be deleted, too.
    cluster.delete(&namespace).await?;
    cluster.wait_deleted(&namespace).await;
    assert_eq!(log.lines(), ["cleaned one"]);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn on_leave_cleans_up_the_objects_of_a_namespace_that_no_longer_matches(cluster: Cluster) -> Result<()> {
    let (namespace, object) = create(&cluster, "one", true).await?;
    create(&cluster, "other", true).await?;
    let log = Log::default();
    let running = cluster.run([cleaning(&log, true)?]).await?;
    cluster.wait(&object, |config: &ConfigMap| !config.finalizers().is_empty()).await;
    set_team(&cluster, &namespace, None).await?;
    cluster.wait(&object, |config: &ConfigMap| config.finalizers().is_empty()).await;
    cluster.settle().await;
    assert_eq!(log.lines(), ["cleaned one"]);
    assert!(has_finalizer(&cluster, "other").await? && !has_finalizer(&cluster, "one").await?);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_runs_while_the_namespace_of_its_object_matches(cluster: Cluster) -> Result<()> {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let (namespace, _) = create(&cluster, "one", true).await?;
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let daemon = move || {
        counter.fetch_add(1, Ordering::SeqCst);
        let counted = Counted(counter.clone());
        async move {
            let _counted = counted;
            std::future::pending::<()>().await;
        }
    };
    let running = cluster.run([ours().handler(async || {}).daemon(daemon).build()?]).await?;
    for other in [None, Some("b")] {
        eventually("it runs", || count.load(Ordering::SeqCst) == 1).await;
        set_team(&cluster, &namespace, other).await?;
        eventually("it is dropped", || count.load(Ordering::SeqCst) == 0).await;
        set_team(&cluster, &namespace, Some("a")).await?;
    }
    running.stop().await
}

#[test]
fn the_command_line_replaces_the_selector_and_nothing_else_is_watched_then() -> Result<()> {
    let watched = |controller: &Controller| controller.plan().caches().count();
    let cleaning =
        |builder: Builder<ConfigMap>| builder.cleanup("example.com/ours", async || {}).handler(async || {}).build();
    let selected = || ConfigMap::controller("ours").namespace_selector("team=a");
    let mut controller = cleaning(selected())?;
    assert_eq!(watched(&controller), 1, "the metadata of those that may have left");
    assert!(controller.set_namespaces(vec!["mall".to_owned()]));
    assert_eq!((controller.namespaces(), watched(&controller)), (&["mall".to_owned()][..], 0));

    // A selector of labels still lets objects leave.
    let mut labelled = cleaning(selected().labels("noted=yes"))?;
    assert!(labelled.set_namespaces(vec!["mall".to_owned()]));
    assert_eq!(watched(&labelled), 1);
    Ok(())
}

#[test]
fn a_selector_for_namespaces_excludes_names_shards_and_tasks() {
    let problem = |builder: Builder<ConfigMap>| builder.handler(async || {}).build().unwrap_err().to_string();
    assert!(problem(ours().namespaces(["shop"])).contains("namespaces: namespaces are selected by their labels or"));
    assert!(problem(ours().own_namespace()).contains("namespaces: namespaces are selected by their labels or"));
    assert!(problem(ours().shards(kooper::shards::Shards::new(4))).contains("shards: shards and a selector for"));
    assert!(problem(ours().namespace_selector("a in b")).contains("namespaces: the selector \"a in b\""));
    let task =
        kooper::controller::Task::builder("task", HOUR).namespace_selector("team=a").handler(async || {}).build();
    let problem = task.unwrap_err().to_string();
    assert!(problem.contains("namespaces: a task has no objects to select: write the namespaces as"), "{problem}");
}
