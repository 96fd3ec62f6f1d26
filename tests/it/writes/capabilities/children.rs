//! Applied objects: children of an owner, and fields of a previous name.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::Controller;
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::until;
use serde_json::{Value, json};

use super::{event, get, secret};
use crate::fixture::{Start, with_name};
use crate::live::{HandledStates, Live, configmap, state};

/// A controller of ConfigMaps, each of which owns a Secret with the name in its value.
fn parents(
    namespace: &str,
    seen: &HandledStates,
    set: impl FnOnce(Builder<ConfigMap>) -> Builder<ConfigMap>,
) -> Controller {
    let handler = async |parent: Arc<ConfigMap>, secrets: OwnedApplier<Secret>, seen: State<HandledStates>| {
        let Some((name, value)) = state(&parent) else { return Ok(()) };
        let child = secret(value, "ours");
        let done = if name.starts_with("adopts") {
            secrets.adopt(&parent, &child).await
        } else {
            secrets.apply_owned(&parent, &child).await
        };
        match &done {
            Ok(_) => seen.note(name, "applied"),
            Err(AccessError::NotOurs { owner, .. }) => {
                let owner = owner.as_deref().and_then(|owner| owner.split(" (").next()).unwrap_or("none");
                seen.note(name, format!("not ours: {owner}"));
            }
            Err(error) => seen.note(name, error.to_string()),
        }
        done.map(drop)
    };
    let builder = set(Controller::builder::<ConfigMap>("parents").namespaces([namespace]));
    builder.state(seen.clone()).handler(handler).build().unwrap()
}

/// A Secret of another client.
fn theirs(namespace: &str, name: &str) -> Value {
    let metadata = json!({"namespace": namespace, "name": name});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"value": "theirs"}})
}

#[test]
fn a_child_is_created_and_corrected_and_never_taken_from_another_owner() {
    let namespace = "children";
    let objects = [theirs(namespace, "foreign"), theirs(namespace, "orphan"), configmap(namespace, "one", "first")];
    let Some(cluster) = ControlPlane::shared_in(namespace, objects) else { return };
    let seen = HandledStates::default();
    let live = Live::on(cluster, [parents(namespace, &seen, |builder| builder)]);
    seen.wait_for(&[("one", "applied")]);
    let child = get(cluster, namespace, "secret", "first");
    let owner = &child["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["name"], &owner["blockOwnerDeletion"]), (&json!("one"), &json!(true)), "{child}");

    // Drift is corrected, and a deleted child is created again.
    let value = |name: &str| get(cluster, namespace, "secret", name)["data"]["value"].as_str().map(str::to_owned);
    let ours = || (value("first").as_deref() == Some("b3Vycw==")).then_some(());
    cluster.must(&["-n", namespace, "patch", "secret", "first", "-p", r#"{"stringData":{"value":"drift"}}"#]);
    until("the drift is corrected", ours, || format!("{:?}", value("first")));
    cluster.must(&["-n", namespace, "delete", "secret", "first"]);
    until("the child comes back", ours, || format!("{:?}", value("first")));

    // An object of another owner, or without one, is not changed.
    cluster.apply([configmap(namespace, "two", "foreign"), configmap(namespace, "three", "first")]);
    seen.wait_for(&[("two", "not ours: none"), ("three", "not ours: ConfigMap `one`")]);
    assert_eq!(value("foreign").as_deref(), Some("dGhlaXJz"));
    let exists = event(cluster, namespace, "two", |event| event["reason"] == "ErrResourceExists");
    assert_eq!((&exists["type"], &exists["related"]["name"]), (&json!("Warning"), &json!("foreign")), "{exists}");
    cluster.apply([configmap(namespace, "adopts", "orphan"), configmap(namespace, "adopts-too", "first")]);
    seen.wait_for(&[("adopts", "applied"), ("adopts-too", "not ours: ConfigMap `one`")]);
    assert_eq!(value("orphan").as_deref(), Some("b3Vycw=="));
    live.stop();
}

#[test]
fn an_owner_without_its_child_is_queued_when_the_other_child_is_deleted() {
    let namespace = "contested";
    let Some(cluster) = ControlPlane::shared_in(namespace, [configmap(namespace, "one", "wanted")]) else { return };
    let seen = HandledStates::default();
    // Its own retry would be too late for the test.
    let long = Duration::from_secs(3600);
    let controller = parents(namespace, &seen, |builder| builder.resync(None).backoff(long, long));
    let live = Live::on(cluster, [controller]);
    seen.wait_for(&[("one", "applied")]);
    cluster.apply([configmap(namespace, "two", "wanted")]);
    seen.wait_for(&[("two", "not ours: ConfigMap `one`")]);
    // The child is deleted with its owner.
    cluster.must(&["-n", namespace, "delete", "configmap", "one"]);
    seen.wait_for(&[("two", "applied")]);
    let child = get(cluster, namespace, "secret", "wanted");
    assert_eq!(child["metadata"]["ownerReferences"][0]["name"], "two", "{child}");
    live.stop();
}

#[test]
fn fields_applied_under_a_previous_name_are_taken_over() {
    let namespace = "renamed";
    let Some(cluster) = ControlPlane::shared_in(namespace, [configmap(namespace, "one", "1")]) else { return };
    let seen = HandledStates::default();
    let run = |name: &str, previous: &[&str], data: &[(&str, &str)]| {
        let mut settings: ConfigMap = with_name("settings");
        settings.data = Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
        let (log, seen, noted) = (seen.clone(), seen.clone(), name.to_owned());
        let handler = move |configs: Applier<ConfigMap>| {
            let (seen, settings, name) = (seen.clone(), settings.clone(), noted.clone());
            async move {
                configs.apply(&settings).await?;
                seen.note(name, "applied");
                Ok::<_, kooper::BoxError>(())
            }
        };
        let controller = Controller::builder::<ConfigMap>(name).namespaces([namespace]).fields("metadata.name=one");
        let live = controller.previous_names(previous.to_vec()).handler(handler).start_on(cluster);
        log.wait_for(&[(name, "applied")]);
        live.stop();
    };
    run("old", &[], &[("kept", "1"), ("dropped", "1")]);
    run("new", &["old"], &[("kept", "2")]);
    assert_eq!(get(cluster, namespace, "configmap", "settings")["data"], json!({"kept": "2"}));
    let managed =
        cluster.must(&["-n", namespace, "get", "configmap", "settings", "--show-managed-fields", "-o", "json"]);
    assert!(managed.contains("/new\"") && !managed.contains("/old\""), "{managed}");
}

#[test]
fn an_object_that_is_not_cached_yet_is_not_taken_over() {
    let namespace = "unseen";
    let objects = [theirs(namespace, "there"), configmap(namespace, "one", "1")];
    let Some(cluster) = ControlPlane::shared_in(namespace, objects) else { return };
    let seen = HandledStates::default();
    let handler = async |secrets: Applier<Secret>, seen: State<HandledStates>| {
        for name in ["there", "absent"] {
            // As for a child that is not in the cache.
            let mut child = secret(name, "ours");
            child.metadata.resource_version = Some("1".to_owned());
            match secrets.apply(&child).await {
                Ok(_) => seen.note(name, "created"),
                Err(error) if error.is_conflict() => seen.note(name, "conflict"),
                Err(error) => seen.note(name, error.to_string()),
            }
        }
    };
    let controller =
        Controller::builder::<ConfigMap>("unseen").namespaces([namespace]).workers(1).fields("metadata.name=one");
    let live = controller.state(seen.clone()).handler(handler).start_on(cluster);
    seen.wait_for(&[("there", "conflict"), ("absent", "created")]);
    live.stop();
}
