//! Which changes call a handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;
use kooper::retriever::channel;
use kooper::{Changed, Controller};

use crate::fixture::{Log, config, eventually, run};

#[tokio::test(start_paused = true)]
async fn a_change_outside_of_the_configured_sections_calls_no_handler() {
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::builder::<ConfigMap>("changed")
        .resync(None)
        .changed([Changed::Generation])
        .while_deleting()
        .retriever(retriever)
        .handler(move |call: Call| {
            seen.note(call.reasons().to_string());
            async {}
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("the first list", || log.count() == 1).await;
    let mut labelled = config("a", "1");
    labelled.metadata.labels = Some([("new".to_owned(), "label".to_owned())].into());
    events.modify(&labelled).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.count(), 1, "a label is not a change of the data");
    labelled.data = config("a", "2").data;
    events.modify(&labelled).unwrap();
    eventually("the data", || log.count() == 2).await;
    labelled.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
    events.modify(&labelled).unwrap();
    eventually("the deletion mark", || log.count() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_status_alone_calls_no_handler_with_changed_generation() {
    let mut web = Deployment::default();
    web.metadata.name = Some("web".to_owned());
    web.metadata.uid = Some("1".to_owned());
    web.metadata.generation = Some(1);
    let (retriever, events) = channel([web.clone()]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::builder::<Deployment>("status-only")
        .resync(None)
        .changed([Changed::Generation])
        .retriever(retriever)
        .handler(move |object: Arc<Deployment>| {
            seen.note(format!("{:?}", object.metadata.generation));
            async {}
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("the first list", || log.count() == 1).await;
    web.status = Some(DeploymentStatus { replicas: Some(3), ..DeploymentStatus::default() });
    events.modify(&web).unwrap();
    web.metadata.generation = Some(2);
    events.modify(&web).unwrap();
    eventually("the new generation", || log.count() == 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.lines(), ["Some(1)", "Some(2)"]);
    web.status = None;
    events.modify(&web).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.count(), 2, "a status is not a change of the generation");
}

#[tokio::test(start_paused = true)]
async fn when_is_called_for_events_the_first_list_and_resyncs() {
    let (retriever, events) = channel([config("yes", "1"), config("no", "0")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let open = Arc::new(AtomicU32::new(0));
    let gate = open.clone();
    let controller = Controller::builder::<ConfigMap>("when")
        .resync(Duration::from_secs(60))
        .when(move |object| {
            object.data.as_ref().is_some_and(|data| data["value"] == "1") || gate.load(Ordering::SeqCst) == 1
        })
        .retriever(retriever)
        .handler(move |call: Call| {
            seen.note(format!("{} {}", call.key().name(), call.reasons()));
            async {}
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("the first list", || log.lines() == ["yes initial"]).await;
    events.modify(&config("yes", "0")).unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(log.count(), 1, "neither passes the filter now");
    open.store(1, Ordering::SeqCst);
    eventually("both at resync", || {
        let lines = log.lines();
        lines.contains(&"yes resync".to_owned()) && lines.contains(&"no resync".to_owned())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn when_is_called_before_each_call_for_any_reason() {
    let (retriever, _events) = channel([config("retried", "1"), config("asks-again", "1")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let open = Arc::new(AtomicU32::new(1));
    let gate = open.clone();
    let controller = Controller::builder::<ConfigMap>("when-each-call")
        .resync(None)
        .backoff(Duration::from_secs(60), Duration::from_secs(60))
        .when(move |_| gate.load(Ordering::SeqCst) == 1)
        .retriever(retriever)
        .handler(move |call: Call| {
            seen.note(format!("{} {}", call.key().name(), call.reasons()));
            let fails = call.key().name() == "retried";
            async move {
                let again = Action::requeue_after(Duration::from_secs(60));
                if fails { Err("it fails") } else { Ok(again) }
            }
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("the first list", || log.count() == 2).await;
    open.store(0, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(log.count(), 2, "neither a retry nor a requeue calls the handler for a filtered object");
}
