//! Requests that no webhook should get, sent by the API server: its configuration is wrong.

use std::time::Duration;

use kooper_webhooks::FailurePolicy;
use kube::api::{Api, PostParams};
use kube::core::Request;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Shop};

/// A configuration that somebody has written by hand, for the objects with a label.
fn by_hand(fixture: &Fixture, case: &str, policy: &str, changes: &Value) -> Value {
    let registered = fixture.configuration("validatingwebhookconfiguration");
    let entries = registered["webhooks"].as_array().expect("a list");
    let mut entry = entries.iter().find(|one| one["name"] == "check.shop.kooper.rs").expect("it is registered").clone();
    entry["name"] = json!(format!("{case}.by-hand.example.com"));
    entry["objectSelector"] = json!({"matchLabels": {"case": case}});
    entry["failurePolicy"] = policy.into();
    // That of the fixture is short for a body of many MiB on a busy machine.
    entry["timeoutSeconds"] = json!(30);
    for (pointer, value) in changes.as_object().expect("changes") {
        *entry.pointer_mut(pointer).expect("it is registered") = value.clone();
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": format!("{}.{case}", fixture.namespace)}, "webhooks": [entry],
    })
}

/// Creates an object as a dry run, or deletes it.
async fn send(fixture: &Fixture, case: &str, object: &Value) -> Result<(), String> {
    match case {
        // kubectl would send a body that is too large for the API server.
        "large" => {
            let shops: Api<Shop> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
            let request = Request::new(shops.resource_url());
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let request = request.create(&params, object.to_string().into_bytes()).expect("a request");
            fixture.client.request_text(request).await.map(drop).map_err(|error| error.to_string())
        }
        _ => {
            let verb = if case == "no-object" { "delete" } else { "create" };
            let output = fixture.kubectl(&[verb, "--dry-run=server", "-f", "-"], object);
            if output.success { Ok(()) } else { Err(output.stderr) }
        }
    }
}

/// Sends until the API server has learned the configuration.
async fn sends(fixture: &Fixture, case: &str, object: &Value, is_right: impl Fn(Result<(), String>) -> bool) {
    let sent = async {
        while !is_right(send(fixture, case, object).await) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), sent).await.unwrap_or_else(|_| panic!("not within a minute: {case}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_from_the_api_server_fails_that_request_alone_and_the_failure_policy_decides() {
    let Some(fixture) = Fixture::new("bad-input").await else { return };
    let program = fixture.start(FailurePolicy::Ignore);
    fixture.registered("Ignore").await;
    let url = fixture.configuration("validatingwebhookconfiguration")["webhooks"][0]["clientConfig"]["url"].take();
    let base = url.as_str().and_then(|url| url.split("/validate").next()).expect("an address").to_owned();
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": fixture.namespace, "labels": {"case": "kind"}},
    });
    let shop = |case: &str, spec: Value| {
        let mut shop = fixture.shop("a", spec);
        shop["metadata"]["labels"] = json!({"case": case});
        shop
    };
    let rules = |group: &str, resource: &str, operation: &str| json!([{"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource], "operations": [operation]}]);
    // A name, changes of what is registered, an object, and the message about it.
    let cases = [
        (
            "kind",
            json!({"/rules": rules("", "configmaps", "CREATE"), "/matchConditions": []}),
            config,
            "the object is `v1, Kind=ConfigMap`, but this webhook is for `webhooks.example.com/v1, Kind=Shop`",
        ),
        (
            "version",
            json!({"/admissionReviewVersions": ["v1beta1"]}),
            shop("version", json!({})),
            "the body is `admission.k8s.io/v1beta1, Kind=AdmissionReview`, but must be \
             `admission.k8s.io/v1, Kind=AdmissionReview`",
        ),
        (
            "path",
            json!({"/clientConfig/url": format!("{base}/elsewhere")}),
            shop("path", json!({})),
            "the server has no such webhook",
        ),
        (
            "large",
            json!({}),
            // The API server escapes each of them with six bytes.
            shop("large", json!({"unknown": "<".repeat(1_300_000)})),
            "the body is larger than 7340032 bytes",
        ),
        (
            "undecodable",
            json!({}),
            shop("undecodable", json!({"size": "many"})),
            "a is not a valid Shop: spec.size: expected i32, found a string",
        ),
        (
            "no-object",
            json!({"/rules": rules("webhooks.example.com", "shops", "DELETE")}),
            shop("no-object", json!({})),
            "the operation is DELETE, but this webhook is for CREATE, UPDATE",
        ),
    ];
    for (case, changes, object, message) in cases {
        if case == "no-object" {
            assert!(fixture.kubectl(&["create", "-f", "-"], &object).success);
        }
        let wrong = by_hand(&fixture, case, "Fail", &changes);
        assert!(fixture.kubectl(&["create", "-f", "-"], &wrong).success, "{case}");
        sends(&fixture, case, &object, |sent| {
            let Err(error) = sent else { return false };
            assert!(error.contains("failed calling webhook") && error.contains(message), "{case}: {error}");
            true
        })
        .await;
        let others = fixture.create(&format!("beside-{case}"), json!({"mood": "talkative"}));
        assert!(others.success && others.stderr.contains("Warning: hello"), "{case}: {}", others.stderr);

        let ignoring = by_hand(&fixture, case, "Ignore", &changes);
        assert!(fixture.kubectl(&["apply", "-f", "-"], &ignoring).success, "{case}");
        sends(&fixture, case, &object, |sent| sent.is_ok()).await;
    }
    program.stop().await;
}
