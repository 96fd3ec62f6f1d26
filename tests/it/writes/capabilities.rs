//! Capabilities on a real API server.

mod children;
mod deletions;
mod edits;
mod names;
mod refusals;
mod statuses;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::Controller;
use kooper::prelude::*;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::until;
use serde_json::{Value, json};

use crate::fixture::{Start, with_name};
use crate::live::{HandledStates, configmap, state};

fn get(cluster: &ControlPlane, namespace: &str, what: &str, name: &str) -> Value {
    let output = cluster.kubectl(&["-n", namespace, "get", what, name, "--ignore-not-found", "-o", "json"]);
    serde_json::from_str(&output.stdout).unwrap_or_default()
}

/// Waits for an Event about an object, and returns it.
pub(super) fn event(cluster: &ControlPlane, namespace: &str, about: &str, right: impl Fn(&Value) -> bool) -> Value {
    let list = || -> Value {
        let text = cluster.must(&["-n", namespace, "get", "events.events.k8s.io", "-o", "json"]);
        serde_json::from_str(&text).unwrap()
    };
    let find = || {
        let events = list();
        let mut items = events["items"].as_array().unwrap().iter();
        items.find(|event| event["regarding"]["name"] == about && right(event)).cloned()
    };
    until(&format!("an Event about {about}"), find, || list().to_string())
}

fn secret(name: &str, value: &str) -> Secret {
    let mut secret: Secret = with_name(name);
    secret.string_data = Some([("value".to_owned(), value.to_owned())].into());
    secret
}

#[test]
fn events_are_recorded_and_become_a_series() {
    let namespace = "records-events";
    let Some(cluster) = ControlPlane::shared_in(namespace, [configmap(namespace, "one", "1")]) else { return };
    let seen = HandledStates::default();
    let noted = seen.clone();
    let handler = move |config: Arc<ConfigMap>, recorder: Recorder| {
        recorder.action("Sync").normal("Synced", "all is well");
        recorder.warning("Odd", "é".repeat(600));
        if let Some((name, value)) = state(&config) {
            noted.note(name, value);
        }
        async {}
    };
    let controller =
        Controller::builder::<ConfigMap>("recorder").namespaces([namespace]).resync(None).fields("metadata.name=one");
    let live = controller.handler(handler).start_on(cluster);
    for value in ["1", "2", "3"] {
        cluster.apply([configmap(namespace, "one", value)]);
        seen.wait_for(&[("one", value)]);
    }
    let synced = event(cluster, namespace, "one", |event| event["reason"] == "Synced" && event["series"]["count"] == 3);
    assert_eq!((&synced["type"], &synced["action"]), (&json!("Normal"), &json!("Sync")), "{synced}");
    let controller = synced["reportingController"].as_str().unwrap();
    assert!(controller.ends_with("/recorder"), "{controller}");
    event(cluster, namespace, "one", |event| event["reason"] == "Odd" && event["type"] == "Warning");
    assert_eq!(live.metric(r#"kooper_events_dropped_total{controller="recorder"}"#), 0.0);
    live.stop();
}
