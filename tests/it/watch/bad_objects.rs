//! Objects that cannot be decoded, beside valid ones, with a real API server.

use std::sync::Arc;

use kooper::Controller;
use kooper::prelude::*;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::eventually;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fixture::Start;
use crate::live::HandledStates;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "bad-objects.example.com", version = "v1", kind = "Shoe", namespaced)]
struct ShoeSpec {
    size: u32,
}

/// A separate kind for the test of finalizers: tests that install the same CRD at the same time would disturb each other.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "bad-finalizers.example.com", version = "v1", kind = "Boot", namespaced)]
struct BootSpec {
    size: u32,
}

fn sized<K: Resource<DynamicType = ()>>(namespace: &str, name: &str, size: impl Into<Value>) -> Value {
    json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"namespace": namespace, "name": name}, "spec": {"size": size.into()}
    })
}

/// Installs the CRD of `K` with a schema that accepts objects that the type does not.
fn install_lax<K: CustomResourceExt>(cluster: &ControlPlane) {
    let mut crd = serde_json::to_value(K::crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    cluster.apply([crd]);
    let name = format!("crd/{}", K::crd_name());
    cluster.must(&["wait", "--for=condition=established", &name, "--timeout=60s"]);
}

#[test]
fn an_object_that_does_not_fit_the_type_is_reported_and_the_others_are_handled() {
    let namespace = "bad-objects";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    install_lax::<Shoe>(cluster);
    let good: Vec<_> = (0..30).map(|n| format!("shoe-{n}")).collect();
    cluster.apply(
        good.iter().map(|name| sized::<Shoe>(namespace, name, 42)).chain([sized::<Shoe>(namespace, "poison", "large")]),
    );

    let seen = HandledStates::default();
    let live = Controller::builder::<Shoe>("shoes")
        .namespaces([namespace])
        .resync(None)
        // With a `Recorder` the controller records Events.
        .state(seen.clone())
        .handler(async |object: Arc<Shoe>, _: Recorder, seen: State<HandledStates>| {
            seen.note(object.name_any(), object.spec.size.to_string());
        })
        .start_on(cluster);
    seen.wait_for(&good.iter().map(|name| (name, "42")).collect::<Vec<_>>());
    live.wait_for_ready(true, &["shoes: the object bad-objects/poison does not decode as the controller's type"]);
    eventually("an Event on the malformed object", || {
        let path = "jsonpath={.items[?(@.reason=='Undecodable')].regarding.name}";
        cluster.must(&["-n", namespace, "get", "events.events.k8s.io", "--output", path]) == "poison"
    });
    live.wait_for_metric("kooper_decode_errors_total{controller=\"shoes\"}", |errors| errors == 1.0);
    assert_eq!(live.metric("kooper_store_objects{controller=\"shoes\"}"), 31.0);

    // Later, a valid object becomes invalid, and an invalid one becomes valid.
    cluster.apply([
        sized::<Shoe>(namespace, "shoe-1", "small"),
        sized::<Shoe>(namespace, "shoe-2", 43),
        sized::<Shoe>(namespace, "poison", 50),
    ]);
    seen.wait_for(&[("shoe-2", "43"), ("poison", "50")]);
    live.wait_for_metric("kooper_decode_errors_total{controller=\"shoes\"}", |errors| errors == 2.0);
    assert_eq!(seen.of("shoe-1").as_deref(), Some("42"));
    assert_eq!(live.metric("kooper_relists_total{controller=\"shoes\"}"), 0.0);
    live.wait_for_ready(true, &["shoes: the object bad-objects/shoe-1 does not decode as the controller's type"]);
    cluster.must(&["-n", namespace, "delete", "shoes", "shoe-1"]);
    live.wait_for_ready(true, &["ok"]);
    live.stop();
}

#[test]
fn an_object_that_does_not_fit_the_type_gets_no_finalizer_and_keeps_an_existing_one() {
    const FINALIZER: &str = "bad-finalizers.example.com/cleanup";
    let namespace = "bad-finalizers";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    install_lax::<Boot>(cluster);
    let mut marked = sized::<Boot>(namespace, "marked", "large");
    marked["metadata"]["finalizers"] = json!([FINALIZER]);
    let mut corrected = marked.clone();
    corrected["spec"]["size"] = json!(43);
    cluster.apply([sized::<Boot>(namespace, "good", 42), sized::<Boot>(namespace, "poison", "large"), marked]);

    let (seen, cleaned) = (HandledStates::default(), HandledStates::default());
    let (handled, ended) = (seen.clone(), cleaned.clone());
    let live = Controller::builder::<Boot>("keeper-of-boots")
        .namespaces([namespace])
        .resync(None)
        .handler(move |object: Arc<Boot>| {
            handled.note(object.name_any(), object.spec.size.to_string());
            async {}
        })
        .cleanup(FINALIZER, move |object: Arc<Boot>| {
            ended.note(object.name_any(), object.spec.size.to_string());
            async {}
        })
        .start_on(cluster);
    seen.wait_for(&[("good", "42")]);
    live.wait_for_ready(
        true,
        &[
            "keeper-of-boots: 2 objects, such as bad-finalizers/",
            "do not decode as the controller's type and are not handled",
        ],
    );
    let finalizers = |name: &str| {
        let path = "jsonpath={.metadata.finalizers[*]}";
        cluster.must(&["-n", namespace, "get", "boots", name, "--output", path])
    };
    assert_eq!((&*finalizers("good"), &*finalizers("poison")), (FINALIZER, ""));
    // The one without a finalizer can be deleted. The other stays, with an Event that has the reason.
    cluster.must(&["-n", namespace, "delete", "boots", "poison", "--timeout=60s"]);
    cluster.must(&["-n", namespace, "delete", "boots", "marked", "--wait=false"]);
    let note = |reason: &str| {
        let path = format!("jsonpath={{.items[?(@.reason=='{reason}')].note}}");
        cluster.must(&["-n", namespace, "get", "events.events.k8s.io", "--output", &path])
    };
    eventually("an Event on the object that stays", || note("Undecodable").contains(FINALIZER));
    assert_eq!(finalizers("marked"), FINALIZER);
    assert_eq!(cleaned.of("marked"), None);
    // When it is corrected, it is cleaned up.
    cluster.apply([corrected]);
    cleaned.wait_for(&[("marked", "43")]);
    live.wait_for_ready(true, &["ok"]);
    live.stop();
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    cluster.must(&["-n", namespace, "patch", "boots", "good", "--type=merge", "--patch", patch]);
}
