//! Behaviour that Kooper for Go promises or breaks, and that of this library, without a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::controller::MetricsCompat;
use kooper::object::Object;
use kooper::prelude::*;
use kooper::retriever::{Event, Page, RetrieveError, Sender, channel, fixed, from_fns};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::fixture::{Hiding, Log, Running, Start, builder, config, eventually};

fn value(object: &ConfigMap) -> &str {
    &object.data.as_ref().unwrap()["value"]
}

/// One worker that is busy with the object `busy` until the gate is opened.
fn held(name: &str, log: &Log) -> (Running, Sender, Arc<Semaphore>) {
    let (retriever, events) = channel([config("busy", "1")]).unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let (seen, shut) = (log.clone(), gate.clone());
    let handler = move |object: Arc<ConfigMap>| {
        let (seen, shut) = (seen.clone(), shut.clone());
        async move {
            seen.note(format!("{} {}", object.name_any(), value(&object)));
            if object.name_any() == "busy" {
                let _ = shut.acquire().await;
            }
        }
    };
    (builder(name).workers(1).timeout(None).retriever(retriever).handler(handler).start(), events, gate)
}

#[tokio::test(start_paused = true)]
async fn a_retriever_of_two_closures_can_be_wrapped_by_another() {
    let list = |_| async {
        let objects = ["seen", "hidden"].map(|name| Object::from_typed(&config(name, "listed")));
        let mut page = Page::default();
        page.objects.extend(objects);
        page.version = "1".to_owned();
        Ok(page)
    };
    let watch = |_| async {
        let event = Event::Added(Object::from_typed(&config("late", "watched")).unwrap());
        Ok(stream::iter([Ok(event)]).chain(stream::pending()))
    };
    let log = Log::default();
    let handler = log.noting(|object: Arc<ConfigMap>| format!("{} {}", object.name_any(), value(&object)));
    let retriever = Hiding(from_fns::<ConfigMap, _, _, _, _, _>(list, watch), "hidden");
    let _running = builder("closures").retriever(retriever).handler(handler).start();
    eventually("what is listed and what is watched", || log.count() == 2).await;
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["late watched", "seen listed"]);
}

#[tokio::test(start_paused = true)]
async fn three_workers_and_a_resync_of_three_minutes_are_the_default() {
    let objects: Vec<_> = (0..9).map(|n| config(&format!("o-{n}"), "1")).collect();
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let log = Log::default();
    let (seen, now, top) = (log.clone(), inside.clone(), most.clone());
    let handler = move |call: Call| {
        let (seen, now, top) = (seen.clone(), now.clone(), top.clone());
        async move {
            top.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(100)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            seen.note(call.key().name());
        }
    };
    let defaults = Controller::builder::<ConfigMap>("defaults").retriever(fixed(objects).unwrap());
    let _running = defaults.handler(handler).start();
    let start = Instant::now();
    eventually("each twice and some thrice", || log.lines().iter().filter(|name| *name == "o-0").count() == 3).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let took = start.elapsed();
    assert!((180..=361).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn every_add_is_counted_and_the_length_counts_only_waiting_keys() {
    let log = Log::default();
    let (running, events, gate) = held("adds", &log);
    eventually("the worker is busy", || log.count() == 1).await;
    for n in 0..3 {
        events.modify(&config("other", &n.to_string())).unwrap();
    }
    let queued = "kooper_controller_queued_events_total{controller=\"adds\",requeue=\"false\"}";
    eventually("the first list and three changes", || running.metric(queued) == Some(4.0)).await;
    let length = "kooper_controller_event_queue_length{controller=\"adds\"}";
    assert_eq!(running.metric(length), Some(1.0), "one key waits, however often it was added; one runs");
    let adds = "workqueue_adds_total{controller=\"adds\",name=\"adds\"}";
    assert_eq!(running.metric(adds), Some(2.0), "the backlog shows before a worker takes it");
    gate.add_permits(1);
    eventually("the key that waited", || log.lines() == ["busy 1", "other 2"]).await;
    assert_eq!((running.metric(length), running.metric(adds)), (Some(0.0), Some(2.0)));
}

#[tokio::test(start_paused = true)]
async fn the_time_in_the_queue_runs_from_the_first_add() {
    let log = Log::default();
    let (running, events, gate) = held("waits", &log);
    eventually("the worker is busy", || log.count() == 1).await;
    for n in 0..3 {
        events.modify(&config("other", &n.to_string())).unwrap();
        sleep(Duration::from_secs(5)).await;
    }
    gate.add_permits(1);
    eventually("the key that waited", || log.count() == 2).await;
    let sum = running.metric("kooper_controller_event_in_queue_duration_seconds_sum{controller=\"waits\"}").unwrap();
    assert!((15.0..16.0).contains(&sum), "{sum}");
}

#[tokio::test(start_paused = true)]
async fn a_key_without_an_object_is_counted_and_calls_no_handler() {
    let log = Log::default();
    let (running, events, gate) = held("gone", &log);
    eventually("the worker is busy", || log.count() == 1).await;
    events.add(&config("other", "1")).unwrap();
    events.delete(&config("other", "1")).unwrap();
    let queued = "kooper_controller_queued_events_total{controller=\"gone\",requeue=\"false\"}";
    eventually("three events", || running.metric(queued) == Some(3.0)).await;
    gate.add_permits(1);
    let processed = "kooper_controller_processed_event_duration_seconds_count{controller=\"gone\",success=\"true\"}";
    eventually("two keys processed", || running.metric(processed) == Some(2.0)).await;
    let waited = "kooper_controller_event_in_queue_duration_seconds_count{controller=\"gone\"}";
    assert_eq!(running.metric(waited), Some(2.0));
    assert_eq!(log.lines(), ["busy 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_deleted_counts_once_by_how_it_ended() {
    let (retriever, events) = channel([config("good", "1"), config("bad", "1")]).unwrap();
    let running = builder("deletions")
        .retriever(retriever)
        .deleted(|object: Arc<ConfigMap>| async move { assert_ne!(object.name_any(), "bad") })
        .handler(|| async {})
        .start();
    let processed = |success: bool| {
        let series = "kooper_controller_processed_event_duration_seconds_count";
        running.metric(&format!("{series}{{controller=\"deletions\",success=\"{success}\"}}")).unwrap_or_default()
    };
    eventually("both are handled", || processed(true) == 2.0).await;
    for name in ["good", "bad"] {
        events.delete(&config(name, "1")).unwrap();
    }
    eventually("both are deleted", || processed(true) + processed(false) >= 4.0).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!((processed(true), processed(false)), (3.0, 1.0));
    for counter in ["panics", "errors"] {
        let series = format!("controller_runtime_reconcile_{counter}_total{{controller=\"deletions\"}}");
        assert_eq!(running.metric(&series), Some(1.0), "{counter}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_resets_the_retry_budget() {
    let (retriever, events) = channel([config("a", "0")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let handler = move |object: Arc<ConfigMap>, call: Call| {
        seen.note(format!("{} {}", value(&object), call.attempt()));
        async move { if call.attempt() <= 2 { Err("not yet") } else { Ok(()) } }
    };
    let _running = builder("budget").retries(2).retriever(retriever).handler(handler).start();
    for n in 0..5 {
        events.modify(&config("a", &n.to_string())).unwrap();
        // Go calls the key three times for the first change and once for each other.
        eventually("two failures and a success", || log.lines().last() == Some(&format!("{n} 3"))).await;
        sleep(Duration::from_secs(3600)).await;
        assert!(log.count() >= 3 * (n + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_without_a_retry_is_not_counted_as_requeued_or_timed_in_the_queue() {
    let (retriever, events) = channel([config("a", "0")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let handler = move || {
        seen.note("");
        async { Err::<(), _>("never") }
    };
    let running = builder("refused").retries(1).retriever(retriever).handler(handler).start();
    eventually("a call and its retry", || log.count() == 2).await;
    sleep(Duration::from_secs(3600)).await;
    let requeued = "kooper_controller_queued_events_total{controller=\"refused\",requeue=\"true\"}";
    assert_eq!(running.metric(requeued), Some(1.0), "the second failure is not retried");
    events.modify(&config("a", "1")).unwrap();
    eventually("the change, and a retry of its own", || log.count() == 4).await;
    let waited = running.metric("kooper_controller_event_in_queue_duration_seconds_sum{controller=\"refused\"}");
    assert!(waited.unwrap() < 2.0, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_requested_requeue_comes_in_time_and_is_not_counted_as_a_retry() {
    let log = Log::default();
    let seen = log.clone();
    let handler = move || {
        seen.note("");
        async { Action::requeue_after(Duration::from_secs(60)) }
    };
    let running = builder("requeued").retriever(fixed([config("a", "1")]).unwrap()).handler(handler).start();
    let start = Instant::now();
    eventually("five calls", || log.count() == 5).await;
    let took = start.elapsed().as_secs();
    assert!((240..245).contains(&took), "{took} s");
    let queued = |requeue| {
        running
            .metric(&format!("kooper_controller_queued_events_total{{controller=\"requeued\",requeue=\"{requeue}\"}}"))
    };
    assert_eq!((queued(true), queued(false)), (Some(0.0), Some(5.0)));
}

#[tokio::test(start_paused = true)]
async fn a_retried_failure_counts_as_a_failure_unless_go_metrics_are_requested() {
    let run_once = async |name: &str, retries: Option<u32>, compat: Option<MetricsCompat>| {
        let log = Log::default();
        let seen = log.clone();
        let handler = move |call: Call| {
            seen.note("");
            async move { if call.attempt() == 1 { Err("not yet") } else { Ok(()) } }
        };
        let mut builder = builder(name).retries(retries).retriever(fixed([config("a", "1")]).unwrap());
        if let Some(compat) = compat {
            builder = builder.metrics_compat(compat);
        }
        let running = builder.handler(handler).start();
        eventually("a failure and a success", || log.count() == 2).await;
        let count = |success| {
            let series = "kooper_controller_processed_event_duration_seconds_count";
            running.metric(&format!("{series}{{controller=\"{name}\",success=\"{success}\"}}")).unwrap_or_default()
        };
        eventually("both are measured", || count(true) + count(false) == 2.0).await;
        count(false)
    };
    assert_eq!(run_once("limited", Some(3), None).await, 1.0);
    assert_eq!(run_once("unlimited", None, None).await, 1.0);
    assert_eq!(run_once("limited-accurate", Some(3), Some(MetricsCompat::Accurate)).await, 1.0);
    assert_eq!(run_once("limited-go", Some(3), Some(MetricsCompat::Go)).await, 0.0);
    assert_eq!(run_once("unlimited-go", None, Some(MetricsCompat::Go)).await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_always_fails_shows_its_cause() {
    let list = |_| async { Err(RetrieveError::Forbidden("configmaps is forbidden".to_owned())) };
    let watch = |_| async { Ok(stream::pending()) };
    let retriever = from_fns::<ConfigMap, _, _, _, _, _>(list, watch);
    let running = builder("blind").retriever(retriever).handler(|| async {}).start();
    let cause = "not allowed: configmaps is forbidden";
    eventually("the cause", || running.health.ready().is_err_and(|why| why.contains(cause))).await;
    sleep(Duration::from_secs(600)).await;
    assert!(running.health.ready().is_err_and(|why| why.contains(cause)));
    let heard = running.metrics();
    let age = heard.lines().find_map(|line| line.strip_prefix("kooper_watch_last_heard_seconds{")?.split_once("} "));
    assert!(age.is_some_and(|(_, age)| age.parse::<f64>().unwrap() >= 600.0), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_changes_its_object_does_not_affect_other_calls() {
    let log = Log::default();
    let handler = async |mut object: Arc<ConfigMap>, seen: State<Log>| {
        let found = value(&object).to_owned();
        // No other owner has it, not even the cache. A panic here would be retried, and note nothing.
        Arc::get_mut(&mut object).unwrap().data = config("a", "spoilt").data;
        assert_eq!(value(&object), "spoilt");
        seen.note(found);
        Action::requeue_after(Duration::from_secs(1))
    };
    let _running =
        builder("copies").state(log.clone()).retriever(fixed([config("a", "1")]).unwrap()).handler(handler).start();
    eventually("three calls", || log.count() >= 3).await;
    assert_eq!(log.lines()[..3], ["1", "1", "1"]);
}
