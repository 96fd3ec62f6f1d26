//! Tasks: functions that are called at an interval.

use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kooper::Controller;
use kooper::controller::Task;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::testing::Cluster;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fixture::{self, Log, eventually};

const MINUTE: Duration = Duration::from_secs(60);

fn config(name: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({"metadata": {"name": name, "labels": {"swept": "yes"}}}))?)
}

#[kooper::task(every = "10m", reads = [(ConfigMap, labels = "swept=yes")], main = false)]
async fn sweep(configs: Reader<ConfigMap>, deleter: Deleter<ConfigMap>) -> Result<()> {
    for config in configs.list() {
        deleter.delete(config.key()).await?;
    }
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_task_reads_synced_caches_when_it_starts_and_again_after_its_interval(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(60 * MINUTE);
    let first = cluster.create(&config("first")?).await?;
    let running = cluster.run([sweep::task()?]).await?;
    cluster.wait_deleted(&first).await;

    let started = Instant::now();
    let second = cluster.create(&config("second")?).await?;
    cluster.wait_deleted(&second).await;
    let after = started.elapsed();
    assert!((8 * MINUTE..=11 * MINUTE).contains(&after), "after {after:?}");
    running.stop().await
}

/// A task whose runs are noted.
fn noted(log: &Log, election: bool) -> Result<Controller> {
    let builder = Task::builder("noted", 10 * MINUTE);
    let builder = if election { builder.leader_election(LeaderElection::new()) } else { builder };
    let note = log.noting(|call: Call| call.reasons().to_string());
    Ok(builder.handler(note).build()?)
}

#[kooper::test(start_paused = true)]
async fn a_task_with_leader_election_runs_in_one_replica(cluster: Cluster) -> Result<()> {
    let (first, second) = (Log::default(), Log::default());
    let leader = cluster.run([noted(&first, true)?]).await?;
    eventually("the leader runs it", || first.count() == 1).await;
    let standby = cluster.run([noted(&second, true)?]).await?;
    sleep(60 * MINUTE).await;
    assert!((6..=8).contains(&first.count()), "{:?}", first.lines());
    assert_eq!(second.count(), 0);

    leader.kill().await;
    let (runs, lost) = (first.count(), Instant::now());
    eventually("the next leader runs it", || second.count() == 1).await;
    assert!(lost.elapsed() < MINUTE, "at the beginning of its term: {:?}", lost.elapsed());
    assert_eq!(first.count(), runs);
    assert!(cluster.list::<Lease>().await?.iter().any(|lease| lease.name_any() == "test-noted"));
    standby.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_or_panics_is_retried_before_the_next_interval() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let run = move || {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            match run {
                0 => Err("the first run fails".to_owned()),
                1 => panic!("the second run panics"),
                _ => Ok(()),
            }
        }
    };
    let task = Task::builder("fails", 60 * MINUTE).handler(run).build().unwrap();
    let (started, running) = (Instant::now(), fixture::run([task]));
    eventually("it succeeds", || runs.load(Ordering::Relaxed) == 3).await;
    let after = started.elapsed();
    assert!((Duration::from_secs(1)..=Duration::from_secs(10)).contains(&after), "after {after:?}");

    sleep(50 * MINUTE).await;
    assert_eq!(runs.load(Ordering::Relaxed), 3, "the interval begins anew");
    eventually("it runs again", || runs.load(Ordering::Relaxed) == 4).await;
    let retries = running.metric(r#"workqueue_retries_total{controller="fails",name="fails"}"#);
    assert_eq!(retries, Some(2.0), "{}", running.metrics());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn runs_do_not_overlap_and_those_that_are_missed_are_left_out() {
    let log = Log::default();
    let begin = Instant::now();
    let run = move |log: State<Log>| async move {
        log.note(format!("begin {}", begin.elapsed().as_secs() / 60));
        sleep(25 * MINUTE).await;
        log.note("end");
    };
    let task = Task::builder("slow", 10 * MINUTE).timeout(None).state(log.clone()).handler(run).build().unwrap();
    let running = fixture::run([task]);
    sleep(60 * MINUTE).await;
    eventually("it has run three times", || log.count() == 6).await;
    let lines = log.lines();
    let begins: Vec<u64> = lines.iter().filter_map(|line| line.strip_prefix("begin ")?.parse().ok()).collect();
    assert!(lines.chunks(2).all(|run| run[0].starts_with("begin") && run[1] == "end"), "{lines:?}");
    assert!(begins.windows(2).all(|pair| (26..=30).contains(&(pair[1] - pair[0]))), "{lines:?}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_at_its_timeout_and_a_stop_waits_for_it_no_longer_than_the_drain() {
    let cancelled = Log::default();
    let run = async |call: Call, log: State<Log>| {
        call.cancelled().await;
        log.note("cancelled");
    };
    let task =
        Task::builder("waits", 60 * MINUTE).timeout(5 * MINUTE).state(cancelled.clone()).handler(run).build().unwrap();
    let running = fixture::run([task]);
    eventually("the time is over", || cancelled.count() == 1).await;
    // It is retried.
    sleep(MINUTE).await;
    running.stop().await.unwrap();
    assert_eq!(cancelled.count(), 2, "the stop cancels the run");
}

#[tokio::test(start_paused = true)]
async fn a_task_with_a_schedule_runs_at_its_times_and_retries_a_run_that_fails() {
    let log = Log::default();
    let noted = log.clone();
    let run = move |call: Call| {
        noted.note(format!("{} {}", call.now().strftime("%M"), call.attempt()));
        let is_first = noted.count() == 1;
        async move { if is_first { Err("the first run fails") } else { Ok(()) } }
    };
    let task = Task::cron("noted", "*/10 * * * *").handler(run).build().unwrap();
    let running = fixture::run([task]);
    sleep(60 * MINUTE).await;
    let lines = log.lines();
    let runs: Vec<_> = lines.iter().filter_map(|line| line.strip_suffix(" 1")).collect();
    assert!((5..=7).contains(&runs.len()), "{lines:?}");
    assert!(runs.iter().all(|minute| minute.ends_with('0')), "not at the start: {lines:?}");
    assert_eq!(lines.iter().position(|line| line.ends_with(" 2")), Some(1), "a retry does not wait: {lines:?}");
    assert_eq!(lines.len(), runs.len() + 1, "{lines:?}");
    running.stop().await.unwrap();
}

#[kooper::test(start_paused = true)]
async fn the_next_leader_waits_for_the_next_time_of_a_schedule(cluster: Cluster) -> Result<()> {
    let (first, second) = (Log::default(), Log::default());
    let replica = |log: &Log| {
        let note = log.noting(|call: Call| call.now().strftime("%M").to_string());
        Task::cron("noted", "*/10 * * * *").leader_election(LeaderElection::new()).handler(note).build()
    };
    let leader = cluster.run([replica(&first)?]).await?;
    eventually("the leader runs it", || first.count() == 1).await;
    let standby = cluster.run([replica(&second)?]).await?;
    sleep(MINUTE).await;
    leader.kill().await;
    sleep(6 * MINUTE).await;
    assert_eq!(second.count(), 0, "not at the beginning of its term");
    sleep(4 * MINUTE).await;
    let lines = [first.lines(), second.lines()].concat();
    assert!(lines.len() == 2 && lines.iter().all(|minute| minute.ends_with('0')), "{lines:?}");
    standby.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_replica_that_leads_again_waits_for_the_next_time_of_a_schedule(cluster: Cluster) -> Result<()> {
    let log = Log::default();
    let note = log.noting(|call: Call| call.now().strftime("%M").to_string());
    let task = Task::cron("noted", "*/10 * * * *").leader_election(LeaderElection::new()).handler(note).build()?;
    let running = cluster.run([task]).await?;
    eventually("the leader runs it", || log.count() == 1).await;
    // Another replica leads at the next time, and ends soon after it without a release.
    sleep(10 * MINUTE - Duration::from_secs(5)).await;
    for lease in cluster.list::<Lease>().await?.iter().filter(|lease| lease.name_any() == "test-noted") {
        cluster.patch(lease, json!({"spec": {"holderIdentity": "another"}})).await?;
    }
    sleep(MINUTE).await;
    assert_eq!(log.count(), 1, "not at the beginning of its term: {:?}", log.lines());
    sleep(10 * MINUTE).await;
    let lines = log.lines();
    assert!(lines.len() == 2 && lines.iter().all(|minute| minute.ends_with('0')), "{lines:?}");
    running.stop().await
}

#[test]
fn the_role_of_a_task_is_that_of_its_arguments() -> Result<()> {
    let task = sweep::task()?;
    let mut rules: Vec<_> = task.plan().needs().iter().map(|need| need.rule.to_string()).collect();
    rules.sort();
    assert_eq!(rules, ["configmaps: delete", "configmaps: list, watch"]);
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_task_reads_the_objects_of_its_namespaces_only(cluster: Cluster) -> Result<()> {
    for namespace in ["shop", "mall", "market"] {
        cluster.create(&serde_json::from_value::<Namespace>(json!({"metadata": {"name": namespace}}))?).await?;
        let metadata = json!({"name": "one", "namespace": namespace});
        cluster.create(&serde_json::from_value::<Secret>(json!({"metadata": metadata}))?).await?;
    }
    let log = Log::default();
    let list = log.noting(|secrets: Reader<Secret>| {
        let mut found: Vec<_> = secrets.list().map(|secret| secret.key().to_string()).collect();
        found.sort();
        found.join(" ")
    });
    let task = Task::builder("lists", MINUTE).namespaces(["shop", "mall"]).handler(list).build()?;
    let running = cluster.run([task]).await?;
    eventually("it runs", || log.count() > 0).await;
    // All caches are synced before.
    assert_eq!(log.lines()[0], "mall/one shop/one");
    running.stop().await
}

#[test]
fn an_interval_of_zero_is_an_error() {
    let error = Task::builder("spins", Duration::ZERO).handler(async || {}).build().unwrap_err();
    assert_eq!((error.field, error.to_string().contains("zero")), ("every", true), "{error}");
}

#[test]
fn a_limit_of_retries_is_an_error_because_nothing_would_end_the_wait() {
    let error = Task::builder("limited", MINUTE).retries(3).handler(async || {}).build().unwrap_err();
    assert_eq!(error.field, "retries", "{error}");
    assert!(error.to_string().contains("a task has no changes that would end the wait: remove `retries`"), "{error}");
}

#[test]
fn a_task_that_runs_everywhere_has_no_leader_election() {
    let builder = || Task::builder("both", MINUTE).everywhere().handler(async || {});
    assert!(builder().build().unwrap().runs_everywhere());
    let error = builder().leader_election(LeaderElection::new()).build().unwrap_err();
    assert_eq!(error.field, "everywhere", "{error}");
    assert!(error.to_string().contains("a task runs in each replica or in one. Remove one of the two"), "{error}");
}

#[test]
fn a_task_has_namespaces_but_no_selector_because_it_has_no_objects() {
    let builder = || Task::builder("limited", MINUTE).namespaces(["shop"]).handler(async || {});
    assert_eq!(builder().build().unwrap().namespaces(), ["shop"]);
    assert_eq!(builder().labels("app=shop").build().unwrap_err().field, "labels");
    assert_eq!(builder().namespaces(["Nope"]).build().unwrap_err().field, "namespaces");
}

#[tokio::test(start_paused = true)]
async fn the_run_after_a_long_one_with_a_terminal_error_begins_at_its_usual_time() {
    let log = Log::default();
    let noted = log.clone();
    let fail = move || {
        noted.note("run");
        async {
            sleep(3 * MINUTE).await;
            Err::<(), _>(HandlerError::permanent("nothing helps"))
        }
    };
    let task = Task::builder("failing", 10 * MINUTE).timeout(None).handler(fail).build().unwrap();
    let running = fixture::run([task]);
    // The sixth run has ended, and the seventh one has not begun.
    sleep(Duration::from_secs(53 * 60 + 30)).await;
    assert_eq!(log.count(), 6, "{:?}", log.lines());
    running.stop().await.unwrap();
}

#[kooper::test(start_paused = true)]
async fn a_task_runs_again_after_a_terminal_error_and_whatever_the_resync_is(cluster: Cluster) -> Result<()> {
    let log = Log::default();
    let noted = log.clone();
    let fail = move || {
        noted.note("run");
        async { Err::<(), _>(HandlerError::permanent("nothing helps")) }
    };
    let mut task = Task::builder("failing", 10 * MINUTE).handler(fail).build()?;
    task.set_resync(Some(MINUTE))?;
    let running = cluster.run([task]).await?;
    sleep(65 * MINUTE).await;
    assert!((6..=8).contains(&log.count()), "{:?}", log.lines());
    running.stop().await
}
