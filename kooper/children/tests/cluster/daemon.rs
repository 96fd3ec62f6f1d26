//! Daemons beside declared children.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::apiserver::faults::{Reply, Verb};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{BoxError, ConfigError, Controller};
use kooper_children::declare;
use kube::core::response::Status;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::flags::events;
use super::{Shop, config, corner, fields, is_ready, ready, run_ready, run_with};

/// The annotation that notes a failure.
const FAILED: &str = "kooper.rs/daemon-failed";

/// A controller whose daemon is called with the number of its run.
fn controller<F: Future<Output = Result<()>> + Send + 'static>(
    run: impl Fn(u32) -> F + Clone + Send + Sync + 'static,
) -> Result<Controller, ConfigError> {
    controller_with(None, run)
}

/// The same with a limit of retries.
fn controller_with<F: Future<Output = Result<()>> + Send + 'static>(
    retries: Option<u32>,
    run: impl Fn(u32) -> F + Clone + Send + Sync + 'static,
) -> Result<Controller, ConfigError> {
    let runs = Arc::new(AtomicU32::new(0));
    let daemon = move |_: Arc<Shop>| run(runs.fetch_add(1, Ordering::SeqCst));
    let children = declare().child(config).status(fields).build().expect("the slots are right");
    let builder = Shop::controller("shops").install_crd().backoff(Duration::from_secs(1), Duration::from_secs(300));
    builder.retries(retries).handler(children.handler(async || {})).daemon(children.daemon(daemon)).build()
}

async fn forever() -> Result<()> {
    std::future::pending().await
}

/// Never returns, and records the longest time between two of its seconds.
async fn tick(longest: Arc<AtomicU64>) -> Result<()> {
    loop {
        let since = Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        longest.fetch_max(since.elapsed().as_secs(), Ordering::SeqCst);
    }
}

fn conflict() -> BoxError {
    let conflict = Status::failure("the object has been modified", "Conflict").with_code(409);
    kube::Error::Api(conflict.boxed()).into()
}

/// Returns whether the owner is not ready because its daemon panicked in this file.
fn has_panicked(shop: &Shop) -> bool {
    let failed = ready(shop).filter(|one| one.status == "False" && one.reason == "DaemonFailed");
    let place = failed.and_then(|one| one.message.strip_prefix("the daemon has failed: it panicked at "));
    place.is_some_and(|place| place.contains("cluster/daemon.rs:"))
}

fn has_failed(message: &'static str) -> impl Fn(&Shop) -> bool {
    move |shop| {
        let failed = ready(shop).filter(|one| one.status == "False" && one.reason == "DaemonFailed");
        failed.is_some_and(|one| one.message == format!("the daemon has failed: {message}"))
    }
}

#[kooper::test(start_paused = true)]
async fn an_owner_whose_daemon_fails_is_not_ready_until_it_has_run_for_a_minute(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let started = Arc::new(Mutex::new(None::<Instant>));
    let last = started.clone();
    let run = move |run| {
        let last = last.clone();
        async move {
            match run {
                0 | 1 => Err("the bulb is broken".into()),
                2 => panic!("a short circuit"),
                _ => {
                    last.lock().get_or_insert_with(Instant::now);
                    forever().await
                }
            }
        }
    };
    let (running, shop) = run_with(&cluster, controller(run)?, &corner("a", false, &[])).await?;
    cluster.wait(&shop, has_failed("the bulb is broken")).await;
    assert!(cluster.get::<ConfigMap>("corner-a").await?.is_some(), "its children are applied");
    cluster.wait(&shop, has_panicked).await;
    let shop = cluster.wait(&shop, is_ready).await;
    assert!(!shop.annotations().contains_key(FAILED), "{shop:?}");
    let ran = started.lock().map(|started| started.elapsed());
    assert!(ran >= Some(Duration::from_secs(60)), "{ran:?}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_has_recovered_also_if_its_object_changes_more_than_once_a_minute(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let run = |run| async move { if run == 0 { Err("the bulb is broken".into()) } else { forever().await } };
    let (running, shop) = run_with(&cluster, controller(run)?, &corner("a", false, &[])).await?;
    let shop = cluster.wait(&shop, has_failed("the bulb is broken")).await;
    for number in 0..4 {
        cluster.patch(&shop, json!({"spec": {"config": number.to_string()}})).await?;
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert!(is_ready(&cluster.get("corner").await?.ok_or("it is gone")?));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_recovery_that_cannot_be_noted_is_noted_later_and_the_daemon_goes_on_meanwhile(
    cluster: Cluster,
) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    // The first patch notes the failure.
    let refused = cluster.faults().on(Verb::Patch.of("shops")).nth(2).reply(422);
    let delayed = cluster.faults().on(Verb::Patch.of("shops")).nth(3).delay(Duration::from_secs(20));
    let longest = Arc::new(AtomicU64::new(0));
    let measured = longest.clone();
    let run = move |run| {
        let measured = measured.clone();
        async move { if run == 0 { Err("the bulb is broken".into()) } else { tick(measured).await } }
    };
    let (running, shop) = run_with(&cluster, controller(run)?, &corner("a", false, &[])).await?;
    cluster.wait(&shop, has_failed("the bulb is broken")).await;
    cluster.wait(&shop, is_ready).await;
    assert_eq!((refused.times(), delayed.times()), (1, 1));
    let longest = longest.load(Ordering::SeqCst);
    assert!((1..5).contains(&longest), "{longest} s");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_failure_whose_note_a_webhook_rejects_with_404_is_noted_at_the_next_attempt(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let denied = Reply::new(404).message("admission webhook \"a.io\" denied the request: frozen");
    let refused = cluster.faults().on(Verb::Patch.of("shops")).nth(1).reply(denied);
    // Without a retry, no later run notes a failure.
    let run = |_| async { Err::<(), BoxError>("the bulb is broken".into()) };
    let running = cluster.run([controller_with(Some(0), run)?]).await?;
    let (shop, created) = (cluster.create(&corner("a", false, &[])).await?, Instant::now());
    cluster.wait(&shop, has_failed("the bulb is broken")).await;
    assert_eq!(refused.times(), 1);
    assert!(created.elapsed() < Duration::from_secs(60), "{:?}", created.elapsed());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_conflict_of_a_daemon_is_not_noted_as_a_failure(cluster: Cluster) -> Result<()> {
    let patches = cluster.faults().on(Verb::Patch.of("shops")).delay(Duration::ZERO);
    let again = Arc::new(Notify::new());
    let called = again.clone();
    let run = move |run| {
        let called = called.clone();
        async move {
            if run == 0 {
                return Err(conflict());
            }
            called.notify_one();
            forever().await
        }
    };
    let (running, shop) = run_with(&cluster, controller(run)?, &corner("a", false, &[])).await?;
    tokio::time::timeout(Duration::from_secs(60), again.notified()).await?;
    cluster.wait(&shop, is_ready).await;
    assert_eq!(patches.times(), 0);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_conflict_of_a_daemon_that_is_not_retried_is_noted_as_a_failure(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let run = |run| async move { if run == 0 { Err(conflict()) } else { forever().await } };
    let (running, shop) = run_with(&cluster, controller_with(Some(0), run)?, &corner("a", false, &[])).await?;
    let failed = |shop: &Shop| ready(shop).is_some_and(|one| one.status == "False" && one.reason == "DaemonFailed");
    let shop = cluster.wait(&shop, failed).await;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_event_about_a_daemon_that_panicked_has_the_place(cluster: Cluster) -> Result<()> {
    let run = |run| async move { if run == 0 { panic!("a short circuit") } else { forever().await } };
    let (running, shop) = run_with(&cluster, controller(run)?, &corner("a", false, &[])).await?;
    cluster.wait(&shop, has_panicked).await;
    let message = loop {
        if let [event, ..] = &*events(&cluster, "ReconcileFailed").await? {
            break event.message.clone().unwrap_or_default();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(message.contains("panicked at ") && message.contains("cluster/daemon.rs:"), "{message}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_owner_whose_daemon_has_finished_after_a_failure_is_ready(cluster: Cluster) -> Result<()> {
    let run = |run| async move { if run == 0 { Err("the bulb is broken".into()) } else { Ok(()) } };
    let (running, shop) = run_with(&cluster, controller(run)?, &corner("a", false, &[])).await?;
    cluster.wait(&shop, has_failed("the bulb is broken")).await;
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_daemon_that_runs_from_the_beginning_writes_nothing_to_its_object(cluster: Cluster) -> Result<()> {
    let patches = cluster.faults().on(Verb::Patch.of("shops")).delay(Duration::ZERO);
    let (running, shop) = run_ready(&cluster, controller(|_| forever())?, &corner("a", false, &[])).await?;
    tokio::time::sleep(Duration::from_secs(600)).await;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.wait("corner-b", |_: &ConfigMap| true).await;
    assert_eq!(patches.times(), 0);
    running.stop().await
}

/// The version of a program whose daemon was removed.
#[kooper::test(start_paused = true)]
async fn a_failure_from_before_does_not_count_without_a_daemon(cluster: Cluster) -> Result<()> {
    let children = declare().child(config).status(fields).build()?;
    let controller = Shop::controller("shops").install_crd().handler(children.handler(async || {})).build()?;
    let running = cluster.run([controller]).await?;
    let mut shop = corner("a", false, &[]);
    shop.annotations_mut().insert(FAILED.to_owned(), "the bulb is broken".to_owned());
    let shop = cluster.create(&shop).await?;
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}
