//! One clock: on tokio's paused clock the server, the controllers and their elections wait for hours in milliseconds.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::jiff::Timestamp;
use kooper::Controller;
use kooper::apiserver::faults::{Verb, WatchEvent};
use kooper::capability::PatchBody;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::testing::Cluster;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fixture::{Log, eventually, wait_for_events, with_name};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

fn config(name: &str) -> ConfigMap {
    with_name(name)
}

/// A controller that notes the objects that it handles, as the leader.
fn elected(log: &Log) -> Controller {
    let note = log.noting(|config: Arc<ConfigMap>| config.name_any());
    let builder = Controller::builder::<ConfigMap>("elected").leader_election(LeaderElection::new());
    builder.resync(None).handler(note).build().unwrap()
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

#[kooper::test(start_paused = true)]
async fn a_standby_takes_over_when_the_lease_of_a_killed_leader_expires(cluster: Cluster) -> Result<()> {
    let (first, second) = (Log::default(), Log::default());
    let leader = cluster.run([elected(&first)]).await?;
    let lease = cluster.wait("test-elected", |lease: &Lease| holder(lease).is_some()).await;
    let standby = cluster.run([elected(&second)]).await?;
    cluster.create(&config("a")).await?;
    eventually("the leader handles it", || first.lines().contains(&"a".to_owned())).await;
    assert_eq!(second.count(), 0);

    let killed = Instant::now();
    leader.kill().await;
    let cluster = cluster.with_timeout(MINUTE);
    let old = holder(&lease);
    cluster.wait(&lease, |lease: &Lease| holder(lease).is_some_and(|new| Some(new) != old)).await;
    let after = killed.elapsed();
    assert!((Duration::from_secs(13)..=Duration::from_secs(16)).contains(&after), "after {after:?}");
    eventually("the standby handles it", || second.lines().contains(&"a".to_owned())).await;
    standby.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_leader_renews_its_lease_by_the_clock_of_the_test(cluster: Cluster) -> Result<()> {
    let log = Log::default();
    let running = cluster.run([elected(&log)]).await?;
    let lease = cluster.wait("test-elected", |lease: &Lease| holder(lease).is_some()).await;
    sleep(10 * MINUTE).await;
    let later: Lease = cluster.get(&lease).await?.expect("it exists");
    assert_eq!((holder(&later), running.problem()), (holder(&lease), None));
    let renewed = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone()).expect("a time").0;
    let between = renewed(&later).duration_since(renewed(&lease)).unsigned_abs();
    assert!(between.abs_diff(10 * MINUTE) < Duration::from_secs(5), "the Lease has the time of the test: {between:?}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_change_that_a_silent_watch_withholds_is_seen_within_180_seconds(cluster: Cluster) -> Result<()> {
    let silent = cluster.faults().on_event(WatchEvent::Added.of("configmaps").named("a")).nth(1).stall();
    let log = Log::default();
    let note = log.noting(|config: Arc<ConfigMap>| config.name_any());
    let controller = Controller::builder::<ConfigMap>("notes").resync(None).handler(note).build()?;
    let running = cluster.run([controller]).await?;

    let created = Instant::now();
    cluster.create(&config("a")).await?;
    eventually("it is handled", || log.lines().contains(&"a".to_owned())).await;
    let after = created.elapsed();
    assert_eq!(silent.times(), 1);
    assert!((MINUTE..=3 * MINUTE).contains(&after), "after {after:?}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_back_off_of_1000_seconds_passes(cluster: Cluster) -> Result<()> {
    async fn label(config: Arc<ConfigMap>, patcher: Patcher<ConfigMap>) -> Result<()> {
        patcher.patch_object(&config, PatchBody::merge(json!({"metadata": {"labels": {"seen": "yes"}}}))).await?;
        Ok(())
    }
    let seconds = Duration::from_secs;
    let refused = cluster.faults().on(Verb::Patch.of("configmaps")).first(3).reply(500);
    let builder = Controller::builder::<ConfigMap>("labels").fields("metadata.name=a").resync(None);
    let controller = builder.backoff(seconds(1000), seconds(1000)).handler(label).build()?;
    let running = cluster.run([controller]).await?;

    let created = Instant::now();
    cluster.create(&config("a")).await?;
    let cluster = cluster.with_timeout(DAY);
    cluster.wait("a", |config: &ConfigMap| config.labels().contains_key("seen")).await;
    assert_eq!(refused.times(), 3);
    let after = created.elapsed();
    // Each delay is drawn from the upper half of its length.
    assert!((seconds(1500)..=seconds(3200)).contains(&after), "after {after:?}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_resync_of_24_hours_comes(cluster: Cluster) -> Result<()> {
    let log = Log::default();
    let note = log.noting(|call: Call| call.reasons().to_string());
    let builder = Controller::builder::<ConfigMap>("daily").fields("metadata.name=a").resync(DAY);
    let running = cluster.run([builder.handler(note).build()?]).await?;
    cluster.create(&config("a")).await?;
    eventually("the first call", || log.count() == 1).await;

    let called = Instant::now();
    while log.count() == 1 && called.elapsed() < 2 * DAY {
        sleep(MINUTE).await;
    }
    assert_eq!(log.lines()[1], "resync");
    assert!(called.elapsed() <= DAY + DAY / 5, "after {:?}", called.elapsed());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_server_and_the_controllers_write_the_time_of_the_test(cluster: Cluster) -> Result<()> {
    async fn record(_: Arc<ConfigMap>, recorder: Recorder) {
        recorder.normal("Seen", "it was handled");
    }
    let builder = Controller::builder::<ConfigMap>("recorder").fields("metadata.name=b").resync(None);
    let running = cluster.run([builder.handler(record).build()?]).await?;
    let first = cluster.create(&config("a")).await?;
    sleep(DAY).await;
    let second = cluster.create(&config("b")).await?;
    let created = |config: &ConfigMap| config.metadata.creation_timestamp.clone().expect("a time").0;
    let passed = |from: Timestamp, to: Timestamp| to.duration_since(from).unsigned_abs();
    assert!(passed(created(&first), created(&second)).abs_diff(DAY) < MINUTE);

    let event = wait_for_events(&cluster, "Seen", |events| !events.is_empty()).await.remove(0);
    let recorded = event.event_time.expect("a time").0;
    assert!(passed(created(&second), recorded) < MINUTE);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_deletion_is_dated_by_the_time_of_the_test(cluster: Cluster) -> Result<()> {
    // Their watches would last for the day.
    cluster.stop_workloads().await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "a", "finalizers": ["example.com/kept"]},
        "spec": {"containers": [{"name": "a", "image": "a"}]}
    }))?;
    let pod = cluster.create(&pod).await?;
    sleep(DAY).await;
    cluster.delete(&pod).await?;
    let marked: Pod = cluster.get(&pod).await?.expect("its finalizer keeps it");
    let (created, deleted) = (marked.metadata.creation_timestamp, marked.metadata.deletion_timestamp);
    let between = deleted.expect("a time").0.duration_since(created.expect("a time").0).unsigned_abs();
    assert!(between.abs_diff(DAY) < MINUTE, "{between:?}");
    Ok(())
}
