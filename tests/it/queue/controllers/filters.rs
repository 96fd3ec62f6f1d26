//! Which changes call a handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper::prelude::*;
use kooper::retriever::channel;
use kooper::{Changed, Controller};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fixture::{Log, Start, builder, config, eventually, with_name};

#[tokio::test(start_paused = true)]
async fn a_change_outside_of_the_configured_sections_calls_no_handler() {
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let log = Log::default();
    let _running = builder("changed")
        .changed([Changed::Generation])
        .while_deleting()
        .retriever(retriever)
        .handler(log.noting(|call: Call| call.reasons().to_string()))
        .start();
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
    let mut web: Deployment = with_name("web");
    web.metadata.uid = Some("1".to_owned());
    web.metadata.generation = Some(1);
    let (retriever, events) = channel([web.clone()]).unwrap();
    let log = Log::default();
    let _running = Controller::builder::<Deployment>("status-only")
        .resync(None)
        .changed([Changed::Generation])
        .retriever(retriever)
        .handler(log.noting(|object: Arc<Deployment>| format!("{:?}", object.metadata.generation)))
        .start();
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
    let open = Arc::new(AtomicU32::new(0));
    let gate = open.clone();
    let _running = Controller::builder::<ConfigMap>("when")
        .resync(Duration::from_secs(60))
        .when(move |object| {
            object.data.as_ref().is_some_and(|data| data["value"] == "1") || gate.load(Ordering::SeqCst) == 1
        })
        .retriever(retriever)
        .handler(log.noting(|call: Call| format!("{} {}", call.key().name(), call.reasons())))
        .start();
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
    let _running = builder("when-each-call")
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
        .start();
    eventually("the first list", || log.count() == 2).await;
    open.store(0, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(log.count(), 2, "neither a retry nor a requeue calls the handler for a filtered object");
}

#[tokio::test(start_paused = true)]
async fn only_a_change_of_a_named_field_calls_the_handler_also_after_missed_versions() {
    let mut web: Deployment = with_name("web");
    web.metadata.uid = Some("1".to_owned());
    let sized = |replicas: i32, paused: bool| {
        let mut web = web.clone();
        web.spec = Some(DeploymentSpec { replicas: Some(replicas), paused: Some(paused), ..DeploymentSpec::default() });
        web
    };
    let (retriever, events) = channel([sized(1, false)]).unwrap();
    let log = Log::default();
    let _running = Controller::builder::<Deployment>("fields")
        .resync(None)
        .changed([Changed::Field("spec.replicas"), Changed::Field("metadata.labels['app']")])
        .retriever(retriever)
        .handler(
            log.noting(|object: Arc<Deployment>| format!("{:?}", object.spec.as_ref().and_then(|spec| spec.replicas))),
        )
        .start();
    eventually("the first list", || log.count() == 1).await;
    events.modify(&sized(1, true)).unwrap();
    let mut labelled = sized(1, true);
    labelled.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
    events.modify(&labelled).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.count(), 1, "other fields do not count");
    labelled.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    events.modify(&labelled).unwrap();
    eventually("the label", || log.count() == 2).await;
    events.modify(&sized(2, false)).unwrap();
    eventually("the replicas", || log.count() == 3).await;
    assert_eq!(log.lines().last().map(String::as_str), Some("Some(2)"));
}

#[test]
fn a_field_that_the_kind_does_not_have_is_an_error() {
    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Kiosk", namespaced)]
    struct KioskSpec {
        #[serde(rename = "openFrom")]
        opens: u32,
    }

    let problem = |path| {
        let kiosk = Kiosk::controller("kiosks").crd().changed([Changed::Field(path)]).handler(async || {}).build();
        let pod = Pod::controller("pods").changed([Changed::Field(path)]).handler(async || {}).build();
        [kiosk, pod].map(|built| built.err().map(|error| error.problem))
    };
    let lacks =
        |kind: &str, path| Some(format!("`{kind}` has no field `{path}`: write the names of fields as in JSON"));
    assert_eq!(problem("metadata.labels['app']"), [None, None]);
    assert_eq!(problem("spec.openFrom"), [None, lacks("Pod", "spec.openFrom")]);
    assert_eq!(problem("spec.nodeName"), [lacks("Kiosk", "spec.nodeName"), None]);
    assert_eq!(problem("metadata.label"), [lacks("Kiosk", "metadata.label"), lacks("Pod", "metadata.label")]);
    let removed = "objects are kept without `metadata.managedFields`: remove `metadata.managedFields`".to_owned();
    assert_eq!(problem("metadata.managedFields"), [Some(removed.clone()), Some(removed)]);
    let malformed = problem("spec.containers[0]");
    assert!(malformed.iter().flatten().all(|problem| problem.contains("has invalid brackets")), "{malformed:?}");
    assert_eq!(malformed.iter().flatten().count(), 2);
}
