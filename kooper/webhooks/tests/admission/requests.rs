//! Requests of clients, and what webhooks do to them.

use kooper_webhooks::FailurePolicy;
use serde_json::json;

use crate::fixture::{Fixture, until};

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_every_cause_of_a_denial_and_each_warning() {
    let Some(fixture) = Fixture::new("causes").await else { return };
    let program = fixture.start(FailurePolicy::Fail);
    fixture.registered("Fail").await;
    let output = fixture.create("bad", json!({"mood": "bad"}));
    assert!(!output.success);
    for cause in ["* spec.mood: must not be `bad`", "* spec.size: must be at least 1"] {
        assert!(output.stderr.contains(cause), "{}", output.stderr);
    }
    let output = fixture.create("talkative", json!({"mood": "talkative"}));
    assert!(output.success, "{}", output.stderr);
    assert!(output.stderr.contains("Warning: hello admin"), "{}", output.stderr);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_field_is_filled_and_fields_that_the_type_does_not_know_are_kept() {
    let Some(fixture) = Fixture::new("fill").await else { return };
    let program = fixture.start(FailurePolicy::Fail);
    fixture.registered("Fail").await;
    assert!(fixture.create("a", json!({"unknown": {"a/b": 1}})).success);
    assert_eq!(
        fixture.spec("a"),
        json!({"unknown": {"a/b": 1}, "flavour": "vanilla"}),
        "no default of the type is written"
    );
    assert!(fixture.create("b", json!({"flavour": "lemon"})).success);
    assert_eq!(fixture.spec("b"), json!({"flavour": "lemon"}));
    // Two clients that apply the same object do not conflict.
    let shop = fixture.shop("c", json!({"size": 1}));
    for manager in ["--field-manager=one", "--field-manager=other", "--field-manager=one"] {
        let output = fixture.kubectl(&["apply", "--server-side", manager, "-f", "-"], &shop);
        assert!(output.success, "{}", output.stderr);
    }
    assert_eq!(fixture.spec("c"), json!({"size": 1, "flavour": "vanilla"}));
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_panics_slow_functions_and_changed_values_deny_with_fail_and_their_message() {
    let Some(fixture) = Fixture::new("fail").await else { return };
    let program = fixture.start(FailurePolicy::Fail);
    fixture.registered("Fail").await;
    for (name, spec, message) in [
        ("broken", json!({"mood": "broken"}), "the function `check` failed: the stock cannot be read"),
        ("panic", json!({"mood": "panic"}), "the function `check` panicked"),
        ("slow", json!({"mood": "slow"}), "the function `check` did not return within 1800 ms"),
        ("greedy", json!({"mood": "greedy", "size": 1}), "`fill` changed `spec.size`, which is already set"),
        ("wrong", json!({"size": "many"}), "spec.size: expected i32, found a string"),
    ] {
        let output = fixture.create(name, spec);
        assert!(!output.success && output.stderr.contains(message), "{name}: {}", output.stderr);
    }
    assert!(fixture.create("good", json!({})).success, "only those requests failed");
    // The largest object that the API server takes.
    assert!(fixture.create("large", json!({"unknown": "x".repeat(1_400_000)})).success);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_ignore_a_failure_or_an_absent_server_denies_nothing_and_with_fail_everything() {
    let Some(fixture) = Fixture::new("policy").await else { return };
    let mut program = fixture.start(FailurePolicy::Ignore);
    fixture.registered("Ignore").await;
    fixture.denies().await;
    assert!(fixture.create("broken", json!({"mood": "broken"})).success);
    drop(program.running.take());
    assert!(fixture.create("away", json!({"mood": "bad"})).success, "the server is away");
    program.stop().await;
    let mut program = fixture.start(FailurePolicy::Fail);
    fixture.registered("Fail").await;
    drop(program.running.take());
    let output = fixture.create("away-too", json!({}));
    assert!(!output.success && output.stderr.contains("failed calling webhook"), "{}", output.stderr);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_being_deleted_loses_its_finalizer_while_the_server_is_away() {
    let Some(fixture) = Fixture::new("deleting").await else { return };
    let mut program = fixture.start(FailurePolicy::Fail);
    fixture.registered("Fail").await;
    assert!(fixture.create("a", json!({})).success);
    let resource = ["shops.webhooks.example.com", "a", "-n", &fixture.namespace];
    let patch =
        |text: &str| fixture.plane.kubectl(&[&["patch"], &resource[..], &["--type=merge", "-p", text]].concat());
    let held = r#"{"metadata": {"finalizers": ["example.com/hold"]}}"#;
    assert!(patch(held).success, "it changes nothing that a user states");
    fixture.plane.must(&[&["delete", "--wait=false"], &resource[..]].concat());
    let output = patch(r#"{"spec": {"mood": "bad"}}"#);
    assert!(
        output.stderr.contains("must not be `bad`"),
        "it is checked although it is being deleted: {}",
        output.stderr
    );
    drop(program.running.take());
    let output = patch(r#"{"metadata": {"annotations": {"kooper.rs/orphan": "uid"}}}"#);
    assert!(output.success, "its children are kept: {}", output.stderr);
    let output = patch(r#"{"metadata": {"finalizers": []}}"#);
    assert!(output.success, "{}", output.stderr);
    until("it is gone", || !fixture.plane.kubectl(&[&["get"], &resource[..]].concat()).success).await;
    program.stop().await;
}
