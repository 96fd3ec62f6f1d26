//! The results of handler calls, without a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;
use kooper::retriever::{channel, fixed};
use kooper::{Call, Controller, HandlerError};
use tokio::time::Instant;

use crate::fixture::{Log, Start, builder, config, eventually, run_edited};

#[tokio::test(start_paused = true)]
async fn every_object_is_handled_once_at_start_and_then_on_each_change() {
    let (retriever, events) = channel([config("a", "1"), config("b", "1")]).unwrap();
    let log = Log::default();
    let running = builder("echo")
        .retriever(retriever)
        .state(log.clone())
        .handler(async |object: Arc<ConfigMap>, call: Call, seen: State<Log>| {
            seen.note(format!("{} {} {}", call.key(), object.data.as_ref().unwrap()["value"], call.reasons()));
        })
        .start();
    eventually("the first list", || log.count() == 2).await;
    events.modify(&config("a", "2")).unwrap();
    events.add(&config("c", "1")).unwrap();
    events.delete(&config("b", "1")).unwrap();
    eventually("the changes", || log.count() == 4).await;
    let mut lines = log.lines();
    lines[..2].sort();
    assert_eq!(lines, ["test/a 1 initial", "test/b 1 initial", "test/a 2 modified", "test/c 1 added"]);
    running.stop().await.unwrap();
    assert_eq!(log.count(), 4, "no handler is called for a deleted object");
}

#[tokio::test(start_paused = true)]
async fn each_object_is_reconciled_again_within_each_resync_interval() {
    let log = Log::default();
    let _running = Controller::builder::<ConfigMap>("resync")
        .resync(Duration::from_secs(45))
        .retriever(fixed([config("a", "1")]).unwrap())
        .handler(log.noting(|call: Call| call.reasons().to_string()))
        .start();
    let start = Instant::now();
    eventually("five calls", || log.count() == 5).await;
    assert!(start.elapsed() <= Duration::from_secs(4 * 45 + 1));
    assert_eq!(log.lines(), ["initial", "resync", "resync", "resync", "resync"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_only_the_call_of_its_key() {
    let log = Log::default();
    let objects: Vec<_> = (0..1000).map(|n| config(&format!("o-{n}"), "1")).chain([config("good", "1")]).collect();
    let running = builder("panics")
        .retries(0)
        .retriever(fixed(objects).unwrap())
        .state(log.clone())
        .handler(async |object: Arc<ConfigMap>, seen: State<Log>| {
            assert!(object.name_any() == "good", "out of milk");
            seen.note(object.name_any());
        })
        .start();
    eventually("the good one", || log.count() == 1).await;
    let panics = "controller_runtime_reconcile_panics_total{controller=\"panics\"}";
    eventually("a thousand panics", || running.metric(panics) == Some(1000.0)).await;
    assert!(running.health.alive().is_ok() && running.health.ready().is_ok());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_is_retried_until_it_succeeds_and_never_dropped() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let log = Log::default();
    let seen = log.clone();
    let running = builder("stubborn")
        .retriever(fixed([config("a", "1")]).unwrap())
        .handler(move |call: Call| {
            let attempt = counted.fetch_add(1, Ordering::SeqCst) + 1;
            assert_eq!(call.attempt(), attempt);
            let seen = seen.clone();
            async move {
                if attempt < 30 {
                    return Err("not yet");
                }
                seen.note("done");
                Ok(())
            }
        })
        .start();
    let wait = async {
        while log.count() == 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(86_400), wait).await.expect("it succeeds eventually");
    assert_eq!(running.metric("controller_runtime_reconcile_errors_total{controller=\"stubborn\"}"), Some(29.0));
    let requeued = "kooper_controller_queued_events_total{controller=\"stubborn\",requeue=\"true\"}";
    assert_eq!(running.metric(requeued), Some(29.0));
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_waits_for_the_next_change() {
    let (retriever, events) = channel([config("a", "bad")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let _running = builder("picky")
        .retriever(retriever)
        .handler(move |object: Arc<ConfigMap>| {
            let value = object.data.as_ref().unwrap()["value"].clone();
            seen.note(value.clone());
            async move { if value == "bad" { Err(HandlerError::permanent("the value is bad")) } else { Ok(()) } }
        })
        .start();
    eventually("one call", || log.count() == 1).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(log.count(), 1);
    events.modify(&config("a", "good")).unwrap();
    eventually("the change", || log.lines() == ["bad", "good"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_with_a_delay_is_retried_after_it() {
    let log = Log::default();
    let seen = log.clone();
    let _running = builder("later")
        .retriever(fixed([config("a", "1")]).unwrap())
        .handler(move |call: Call| {
            seen.note(format!("{}: {}", call.attempt(), call.reasons()));
            async { Err::<(), _>(HandlerError::retry_after(Duration::from_secs(600), "the database is away")) }
        })
        .start();
    let start = Instant::now();
    eventually("three calls", || log.count() == 3).await;
    let took = start.elapsed().as_secs();
    assert!((1200..1205).contains(&took), "{took} s");
    assert_eq!(log.lines(), ["1: initial", "2: retry", "3: retry"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_exceeds_its_timeout_is_cancelled_and_retried() {
    let log = Log::default();
    let running = builder("slow")
        .timeout(Duration::from_secs(30))
        .retriever(fixed([config("a", "1")]).unwrap())
        .state(log.clone())
        .handler(async |call: Call, seen: State<Log>| {
            seen.note(format!("attempt {}", call.attempt()));
            if call.attempt() == 1 {
                std::future::pending::<()>().await;
            }
        })
        .start();
    eventually("the second attempt", || log.lines() == ["attempt 1", "attempt 2"]).await;
    assert_eq!(running.metric("kooper_handler_timeouts_total{controller=\"slow\"}"), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn no_two_workers_handle_the_same_key_at_once() {
    let (retriever, events) = channel([config("a", "0")]).unwrap();
    let at_once = Arc::new(AtomicU32::new(0));
    let log = Log::default();
    let (seen, inside) = (log.clone(), at_once.clone());
    let running = builder("serial")
        .workers(8)
        .retriever(retriever)
        .handler(move |object: Arc<ConfigMap>| {
            let (seen, inside) = (seen.clone(), inside.clone());
            async move {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two workers on one key");
                tokio::time::sleep(Duration::from_millis(50)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                seen.note(object.data.as_ref().unwrap()["value"].clone());
            }
        })
        .start();
    for n in 1..=100 {
        events.modify(&config("a", &n.to_string())).unwrap();
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    eventually("the last state", || log.lines().last().is_some_and(|value| value == "100")).await;
    assert!(log.count() < 40, "changes that arrive together are handled together");
    assert_eq!(running.metric("controller_runtime_reconcile_panics_total{controller=\"serial\"}"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_running_handlers_and_starts_no_new_ones() {
    let log = Log::default();
    let running = builder("drain")
        .workers(1)
        .retriever(fixed([config("a", "1"), config("b", "1")]).unwrap())
        .state(log.clone())
        .handler(async |call: Call, seen: State<Log>| {
            seen.note("begun");
            call.cancelled().await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            seen.note("ended");
        })
        .start();
    eventually("the first call", || log.count() == 1).await;
    let start = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(log.lines(), ["begun", "ended"]);
    assert!(start.elapsed() < Duration::from_secs(12));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_the_stop_is_aborted_when_the_drain_time_is_over() {
    let log = Log::default();
    let seen = log.clone();
    let running = builder("deaf")
        .retriever(fixed([config("a", "1")]).unwrap())
        .handler(move || {
            seen.note("begun");
            std::future::pending::<()>()
        })
        .start();
    eventually("the call", || log.count() == 1).await;
    let start = Instant::now();
    running.stop().await.unwrap();
    let took = start.elapsed().as_secs();
    assert!((20..=23).contains(&took), "{took} s");
}

#[test]
fn a_handler_that_blocks_is_reported_as_stuck_and_its_worker_is_replaced() {
    // Real threads, because a blocked one cannot be paused. The limits are in the
    // paused time of the workers' runtime.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    let release = Arc::new(std::sync::Barrier::new(2));
    let log = Log::default();
    let (seen, barrier) = (log.clone(), release.clone());
    runtime.block_on(async {
        let running = builder("blocked")
            .workers(1)
            .retries(0)
            .timeout(Duration::from_secs(1))
            .stuck_after(Duration::from_millis(10))
            .retriever(fixed([config("a", "1"), config("b", "1")]).unwrap())
            .handler(move |call: Call| {
                let (seen, barrier) = (seen.clone(), barrier.clone());
                async move {
                    seen.note(call.key().name().to_owned());
                    if call.key().name() == "a" {
                        barrier.wait();
                        seen.note("a ended");
                    }
                }
            })
            .start();
        eventually("both keys, by one worker and its replacement", || {
            log.lines().contains(&"a".to_owned()) && log.lines().contains(&"b".to_owned())
        })
        .await;
        eventually("it is reported", || {
            running.health.ready().is_ok_and(|text| text.contains("1 handler calls are stuck"))
        })
        .await;
        assert!(running.health.alive().is_ok());
        release.wait();
        eventually("the stuck call comes back", || {
            running.metric("kooper_stuck_calls{controller=\"blocked\"}") == Some(0.0)
        })
        .await;
        running.stop().await.unwrap();
    });
}

#[test]
fn a_call_that_blocks_its_thread_is_known_until_it_ends_although_its_controller_has_ended() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    let release = Arc::new(std::sync::Barrier::new(2));
    let log = Log::default();
    let (seen, barrier) = (log.clone(), release.clone());
    runtime.block_on(async {
        let blocked = builder("blocked").retriever(fixed([config("a", "1")]).unwrap()).handler(move |call: Call| {
            let (seen, barrier) = (seen.clone(), barrier.clone());
            async move {
                seen.note(call.key().name().to_owned());
                barrier.wait();
            }
        });
        let blocked = [blocked.build().unwrap()];
        let mut running = run_edited(None, blocked, |operator| operator.drain_timeout(Duration::ZERO));
        eventually("the call", || log.lines() == ["a"]).await;
        running.shutdown.cancel();
        assert!((&mut running.ended).await.unwrap().is_ok());
        let calls = || running.metric("controller_runtime_active_workers{controller=\"blocked\"}");
        assert_eq!(calls(), Some(1.0), "the watchdog and the hand-over of its shard depend on it");
        release.wait();
        eventually("it ends", || calls() == Some(0.0)).await;
    });
}

#[test]
fn an_object_that_is_created_again_is_handled_once_the_stuck_deletion_of_its_name_has_ended() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    let release = Arc::new(std::sync::Barrier::new(2));
    let log = Log::default();
    let (deleted, barrier) = (log.clone(), release.clone());
    runtime.block_on(async {
        let (retriever, events) = channel([config("a", "1")]).unwrap();
        let running = builder("blocked")
            .workers(1)
            .retries(0)
            .timeout(Duration::from_secs(1))
            .stuck_after(Duration::from_millis(10))
            .retriever(retriever)
            .deleted(move |object: Arc<ConfigMap>| {
                let (log, barrier) = (deleted.clone(), barrier.clone());
                async move {
                    log.note(format!("deleted {}", object.data.as_ref().unwrap()["value"]));
                    barrier.wait();
                }
            })
            .handler(log.noting(|object: Arc<ConfigMap>| format!("handled {}", object.data.as_ref().unwrap()["value"])))
            .start();
        eventually("the first object", || log.lines() == ["handled 1"]).await;
        events.delete(&config("a", "1")).unwrap();
        eventually("its deletion is stuck", || {
            running.health.ready().is_ok_and(|text| text.contains("1 handler calls are stuck"))
        })
        .await;
        events.add(&config("a", "2")).unwrap();
        release.wait();
        eventually("the second object", || log.lines() == ["handled 1", "deleted 1", "handled 2"]).await;
        running.stop().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn a_call_that_exceeds_its_timeout_can_clean_up() {
    let log = Log::default();
    let running = builder("tidy")
        .retries(0)
        .timeout(Duration::from_secs(30))
        .retriever(fixed([config("a", "1")]).unwrap())
        .state(log.clone())
        .handler(async |call: Call, seen: State<Log>| {
            call.cancelled().await;
            seen.note("tidied up");
        })
        .start();
    eventually("the end", || log.count() == 1).await;
    let timeouts = "kooper_handler_timeouts_total{controller=\"tidy\"}";
    eventually("it counts as a timeout", || running.metric(timeouts) == Some(1.0)).await;
}
