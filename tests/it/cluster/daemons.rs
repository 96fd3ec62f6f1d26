//! Daemons: functions that run until their object changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::children::declare;
use kooper::controller::Builder;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{BoxError, Controller};
use kube::core::Status;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fixture::{Log, behind_a_proxy, events, eventually, run_with, with_name};

const SECOND: Duration = Duration::from_secs(1);

fn config(value: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(
        json!({"metadata": {"name": "one", "labels": {"run": "yes"}}, "data": {"value": value}}),
    )?)
}

fn value(config: &ConfigMap) -> String {
    config.data.as_ref().and_then(|data| data.get("value").cloned()).unwrap_or_default()
}

/// The daemons that run, and how they began and ended.
#[derive(Clone, Default)]
struct Daemons {
    log: Log,
    running: Arc<Mutex<HashMap<String, u32>>>,
    most: Arc<AtomicU32>,
}

/// An error whose text panics.
#[derive(Debug)]
struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("the text of an error")
    }
}

impl std::error::Error for Unspeakable {}

#[kooper::test(start_paused = true)]
async fn a_daemon_whose_error_has_no_text_is_started_again(cluster: Cluster) -> Result<()> {
    let daemons = Daemons::default();
    let controller = daemons.controller(false, async |_| Err(Unspeakable.into()))?;
    let running = cluster.run([controller]).await?;
    cluster.create(&config("1")?).await?;
    eventually("it is started again", || daemons.lines().len() >= 3).await;
    running.stop().await
}

/// Ends when the daemon is dropped, also in the middle of its work.
struct Running(Daemons, String);

impl Daemons {
    fn begin(&self, config: &ConfigMap) -> Running {
        let key = config.name_any();
        let mut running = self.running.lock();
        let count = running.entry(key.clone()).or_default();
        *count += 1;
        self.most.fetch_max(*count, Ordering::SeqCst);
        self.log.note(format!("begin {}", value(config)));
        Running(self.clone(), key)
    }

    /// A controller whose daemon is `run`, by default one that never ends.
    fn controller<F: Future<Output = Result<()>> + Send>(
        &self,
        election: bool,
        run: impl Fn(String) -> F + Clone + Send + Sync + 'static,
    ) -> Result<Controller> {
        let builder = Controller::builder::<ConfigMap>("configs").labels("run=yes");
        self.build(if election { builder.leader_election(LeaderElection::new()) } else { builder }, run)
    }

    fn build<F: Future<Output = Result<()>> + Send>(
        &self,
        builder: Builder<ConfigMap>,
        run: impl Fn(String) -> F + Clone + Send + Sync + 'static,
    ) -> Result<Controller> {
        let daemons = self.clone();
        let daemon = move |config: Arc<ConfigMap>| {
            let (running, run) = (daemons.begin(&config), run.clone());
            async move {
                let result = run(value(&config)).await;
                drop(running);
                result
            }
        };
        Ok(builder.handler(async || {}).daemon(daemon).build()?)
    }

    fn lines(&self) -> Vec<String> {
        self.log.lines()
    }

    fn count(&self) -> u32 {
        self.running.lock().values().sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(count) = self.0.running.lock().get_mut(&self.1) {
            *count -= 1;
        }
        self.0.log.note("end");
    }
}

async fn forever(_: String) -> Result<()> {
    loop {
        sleep(SECOND).await;
    }
}

#[kooper::test(start_paused = true)]
async fn a_daemon_runs_until_its_object_changes_and_begins_again_after_its_end(cluster: Cluster) -> Result<()> {
    let daemons = Daemons::default();
    let running = cluster.run([daemons.controller(false, forever)?]).await?;
    let config = cluster.create(&config("a")?).await?;
    eventually("it runs", || daemons.count() == 1).await;
    // A change of the metadata is no new generation.
    cluster.patch(&config, json!({"metadata": {"labels": {"color": "red"}}})).await?;
    sleep(3600 * SECOND).await;
    assert_eq!(daemons.lines(), ["begin a"], "neither labels, resyncs nor a timeout end it");
    cluster.patch(&config, json!({"data": {"value": "b"}})).await?;
    eventually("it begins again", || daemons.lines().len() == 3).await;
    assert_eq!(daemons.lines(), ["begin a", "end", "begin b"]);
    running.stop().await?;
    assert_eq!((daemons.count(), daemons.most.load(Ordering::SeqCst)), (0, 1), "the stop has dropped it");
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn no_two_daemons_of_an_object_run_at_once_however_often_it_changes(cluster: Cluster) -> Result<()> {
    let daemons = Daemons::default();
    let running = cluster.run([daemons.controller(false, forever)?]).await?;
    let mut current = cluster.create(&config("0")?).await?;
    for round in 1..40 {
        cluster.patch(&current, json!({"data": {"value": round.to_string()}})).await?;
        if round % 7 == 0 {
            cluster.delete(&current).await?;
            current = cluster.create(&config("new")?).await?;
        }
        // Sometimes the daemon of the last change has not begun yet.
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        } else {
            sleep(SECOND / 100).await;
        }
    }
    eventually("the last one runs", || daemons.count() == 1 && daemons.lines().last() == Some(&"begin 39".into()))
        .await;
    cluster.delete(&current).await?;
    eventually("its deletion ends it", || daemons.count() == 0).await;
    assert_eq!(daemons.most.load(Ordering::SeqCst), 1);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_whose_object_is_deleted_while_it_starts_does_not_stay(cluster: Cluster) -> Result<()> {
    let daemons = Daemons::default();
    let running = cluster.run([daemons.controller(false, forever)?]).await?;
    for _ in 0..20 {
        let config = cluster.create(&config("a")?).await?;
        cluster.delete(&config).await?;
    }
    cluster.settle().await;
    sleep(60 * SECOND).await;
    assert_eq!((daemons.count(), daemons.most.load(Ordering::SeqCst) <= 1), (0, true), "{:?}", daemons.lines());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_that_waits_for_its_finalizer_does_not_run(cluster: Cluster) -> Result<()> {
    let daemons = Daemons::default();
    let running = cluster.run([daemons.controller(false, forever)?]).await?;
    let mut held = config("a")?;
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    let held = cluster.create(&held).await?;
    eventually("it runs", || daemons.count() == 1).await;
    cluster.delete(&held).await?;
    eventually("the deletion timestamp ends it", || daemons.count() == 0).await;
    sleep(60 * SECOND).await;
    assert_eq!(daemons.lines(), ["begin a", "end"]);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_that_fails_or_panics_begins_again_with_back_off(cluster: Cluster) -> Result<()> {
    let daemons = Daemons::default();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let run = move |_: String| {
        let run = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match run {
                0 => Err("it fails at once".into()),
                1 => panic!("it panics"),
                2 => {
                    sleep(3600 * SECOND).await;
                    Err("it fails after an hour".into())
                }
                _ => forever(String::new()).await,
            }
        }
    };
    let running = cluster.run([daemons.controller(false, run)?]).await?;
    cluster.create(&config("a")?).await?;
    eventually("it begins a third time", || runs.load(Ordering::SeqCst) == 3).await;
    sleep(3601 * SECOND).await;
    // It ran longer than the longest back-off, so that it begins with the shortest.
    eventually("it begins a fourth time", || runs.load(Ordering::SeqCst) == 4).await;
    assert_eq!((daemons.count(), daemons.most.load(Ordering::SeqCst)), (1, 1), "{:?}", daemons.lines());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_that_has_finished_begins_again_only_when_its_object_changes(cluster: Cluster) -> Result<()> {
    let daemons = Daemons::default();
    let running = cluster.run([daemons.controller(false, async |_| Ok(()))?]).await?;
    let config = cluster.create(&config("a")?).await?;
    eventually("it has finished", || daemons.lines().len() == 2).await;
    sleep(3600 * SECOND).await;
    assert_eq!(daemons.lines(), ["begin a", "end"]);
    cluster.patch(&config, json!({"data": {"value": "b"}})).await?;
    eventually("it has finished again", || daemons.lines().len() == 4).await;
    assert_eq!(daemons.lines(), ["begin a", "end", "begin b", "end"]);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_that_changes_its_own_object_sees_the_change(cluster: Cluster) -> Result<()> {
    async fn count(config: Arc<ConfigMap>, patcher: Patcher<ConfigMap>) -> Result<()> {
        let next: u32 = value(&config).parse::<u32>()? + 1;
        if next <= 3 {
            let body = kooper::capability::PatchBody::merge(json!({"data": {"value": next.to_string()}}));
            patcher.patch_object(&config, body).await?;
        }
        forever(String::new()).await
    }
    let builder = Controller::builder::<ConfigMap>("counts").labels("run=yes");
    let running = cluster.run([builder.handler(async || {}).daemon(count).build()?]).await?;
    cluster.create(&config("0")?).await?;
    cluster.wait("one", |config: &ConfigMap| value(config) == "3").await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn daemons_stop_with_leadership_and_begin_in_the_next_leader(cluster: Cluster) -> Result<()> {
    let (first, second) = (Daemons::default(), Daemons::default());
    let leader = cluster.run([first.controller(true, forever)?]).await?;
    cluster.create(&config("a")?).await?;
    eventually("the leader runs it", || first.count() == 1).await;
    let standby = cluster.run([second.controller(true, forever)?]).await?;
    sleep(60 * SECOND).await;
    assert_eq!(second.lines(), [""; 0]);
    let leases: Vec<_> = cluster.list::<Lease>().await?.iter().map(ResourceExt::name_any).collect();
    assert!(leases.contains(&"test-configs-daemon".to_owned()), "{leases:?}");

    let stopped = Instant::now();
    leader.stop().await?;
    assert_eq!(first.count(), 0);
    assert!(stopped.elapsed() < 5 * SECOND, "a daemon ends at its next await: {:?}", stopped.elapsed());
    eventually("the standby runs it", || second.count() == 1).await;

    // Cut off, it ends before its Lease expires.
    let cut = cluster.faults().on(kooper::apiserver::faults::Verb::Patch.of("leases")).reply(500);
    let put = cluster.faults().on(kooper::apiserver::faults::Verb::Update.of("leases")).reply(500);
    eventually("the lost leadership ends it", || second.count() == 0).await;
    drop((cut, put));
    standby.kill().await;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_daemon_runs_while_its_filter_selects_the_object_whatever_has_changed(cluster: Cluster) -> Result<()> {
    let daemons = Daemons::default();
    let when = |config: &ConfigMap| config.labels().get("color").is_some_and(|color| color == "red");
    let builder = Controller::builder::<ConfigMap>("configs").labels("run=yes").when(when);
    let running = cluster.run([daemons.build(builder, forever)?]).await?;
    let config = cluster.create(&config("a")?).await?;
    for (color, count) in [("red", 1), ("green", 0), ("red", 1)] {
        cluster.patch(&config, json!({"metadata": {"labels": {"color": color}}})).await?;
        eventually(color, || daemons.count() == count).await;
    }
    running.stop().await?;
    assert_eq!(daemons.lines(), ["begin a", "end", "begin a", "end"]);
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_daemon_runs_unless_its_object_is_paused_or_not_selected_and_is_restarted_on_request(
    cluster: Cluster,
) -> Result<()> {
    let daemons = Daemons::default();
    let builder = Controller::builder::<ConfigMap>("configs").labels("run=yes");
    let builder = builder.pause("example.com/pause").reconcile_now("example.com/now");
    let running = cluster.run([daemons.build(builder, forever)?]).await?;
    let config = cluster.create(&config("a")?).await?;
    eventually("it runs", || daemons.count() == 1).await;
    let state = || (daemons.count(), daemons.lines().iter().filter(|line| *line == "begin a").count());
    for (what, metadata, expected) in [
        ("a pause ends it", json!({"annotations": {"example.com/pause": "true"}}), (0, 1)),
        ("a request does not begin it", json!({"annotations": {"example.com/now": "1"}}), (0, 1)),
        ("it is resumed", json!({"annotations": {"example.com/pause": null}}), (1, 2)),
        ("a request restarts it", json!({"annotations": {"example.com/now": "2"}}), (1, 3)),
        ("another request restarts it", json!({"annotations": {"example.com/now": "3"}}), (1, 4)),
        ("a lost label ends it", json!({"labels": {"run": "no"}}), (0, 4)),
        ("it is selected again", json!({"labels": {"run": "yes"}}), (1, 5)),
    ] {
        cluster.patch(&config, json!({"metadata": metadata})).await?;
        eventually(what, || state() == expected).await;
        sleep(600 * SECOND).await;
        assert_eq!(state(), expected, "{what}");
    }
    assert_eq!(daemons.most.load(Ordering::SeqCst), 1);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_that_requests_a_requeue_begins_again_after_the_delay(cluster: Cluster) -> Result<()> {
    let begun = Arc::new(Mutex::new(Vec::new()));
    let noted = begun.clone();
    let daemon = move |_: Arc<ConfigMap>| {
        noted.lock().push(Instant::now());
        async { Action::requeue_after(600 * SECOND) }
    };
    let builder = Controller::builder::<ConfigMap>("configs").labels("run=yes").handler(async || {});
    let running = cluster.run([builder.daemon(daemon).build()?]).await?;
    cluster.create(&config("a")?).await?;
    eventually("it begins a third time", || begun.lock().len() == 3).await;
    let delays: Vec<_> = begun.lock().windows(2).map(|two| (two[1] - two[0]).as_secs()).collect();
    assert!(delays.iter().all(|delay| (600..=601).contains(delay)), "{delays:?}");
    running.stop().await
}

/// Only one of the daemons that lack a permission tries whether it was granted.
#[kooper::test(start_paused = true)]
async fn daemons_that_lack_a_permission_begin_soon_after_one_of_them_runs(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(3600 * SECOND);
    let (granted, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (is_granted, counted) = (granted.clone(), begun.clone());
    let run = move |_: String| {
        let (is_granted, counted) = (is_granted.load(Ordering::SeqCst), counted.clone());
        async move {
            if !is_granted {
                let status = Status::failure("secrets is forbidden: no rule", "Forbidden").with_code(403);
                return Err(kube::Error::Api(status.boxed()).into());
            }
            counted.fetch_add(1, Ordering::SeqCst);
            forever(String::new()).await
        }
    };
    let running = cluster.run([Daemons::default().controller(false, run)?]).await?;
    for number in 0..30 {
        let mut config = config("a")?;
        config.metadata.name = Some(format!("config-{number}"));
        cluster.create(&config).await?;
    }
    sleep(60 * SECOND).await;
    assert_eq!(events(&cluster, "ReconcileFailed").await.len(), 30);
    granted.store(true, Ordering::SeqCst);
    eventually("one of them runs", || begun.load(Ordering::SeqCst) > 0).await;
    sleep(900 * SECOND).await;
    assert_eq!(begun.load(Ordering::SeqCst), 30);
    sleep(900 * SECOND).await;
    assert_eq!(events(&cluster, "Recovered").await.len(), 30);
    running.stop().await
}

async fn read(_: Arc<ConfigMap>, secrets: Reader<Secret>) -> Result<()> {
    drop(secrets);
    Ok(())
}

#[kooper::controller(resource = ConfigMap, daemon = read, reads = [(Secret, labels = "app=shop")], main = false)]
async fn reading() {}

#[test]
fn a_selection_can_be_that_of_a_reader_of_the_daemon_alone() {
    assert!(reading::controller().is_ok());
}

fn bulb(owner: &ConfigMap) -> Secret {
    with_name(&format!("{}-bulb", owner.name_any()))
}

#[kooper::test(start_paused = true)]
async fn a_failure_is_noted_although_a_proxy_has_answered_its_note_with_404(cluster: Cluster) -> Result<()> {
    let (client, notes) = behind_a_proxy(cluster.client(), "configmaps");
    let children = declare().child(bulb).build()?;
    // Without a retry, no later run notes a failure.
    let lamps = ConfigMap::controller("lamps").labels("run=yes").retries(0).handler(children.handler(async || {}));
    let daemon = |_: Arc<ConfigMap>| async { Err::<(), BoxError>("the bulb is broken".into()) };
    let running = run_with(Some(client), [lamps.daemon(children.daemon(daemon)).build()?]);
    let lamp = cluster.create(&config("1")?).await?;
    let is_noted = |lamp: &ConfigMap| lamp.annotations().contains_key("kooper.rs/daemon-failed");
    cluster.wait(&lamp, is_noted).await;
    assert_eq!(notes.load(Ordering::SeqCst), 2);
    Ok(running.stop().await?)
}
