//! Certificates and registration over the life of a program.

use std::sync::Arc;
use std::time::Duration;

use kooper_webhooks::{Denied, FailurePolicy, Webhook};
use serde_json::json;

use crate::fixture::{Fixture, SECRET, Shop, until};

async fn text(fixture: &Fixture, key: &str) -> Option<String> {
    fixture.data().await.remove(key)
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_called_after_a_restart_on_another_port_and_after_the_secret_was_deleted() {
    let Some(fixture) = Fixture::new("restart").await else { return };
    let program = fixture.start(FailurePolicy::Fail);
    fixture.registered("Fail").await;
    let first = text(&fixture, "ca.crt").await;
    // The running program puts back what it used.
    fixture.plane.must(&["delete", "secret", SECRET, "-n", &fixture.namespace]);
    until("the Secret is back", || fixture.plane.kubectl(&["get", "secret", SECRET, "-n", &fixture.namespace]).success)
        .await;
    assert_eq!(text(&fixture, "ca.crt").await, first);
    fixture.denies().await;
    let garbage = r#"{"data": {"ca.crt": "Z2FyYmFnZQ=="}}"#;
    fixture.plane.must(&["patch", "secret", SECRET, "-n", &fixture.namespace, "--type=merge", "-p", garbage]);
    let mut found = None;
    while found != first {
        tokio::time::sleep(Duration::from_millis(100)).await;
        found = text(&fixture, "ca.crt").await;
    }
    fixture.denies().await;
    program.stop().await;
    // A new one has nothing to put back. It is registered with `Fail` all the time.
    fixture.plane.must(&["delete", "secret", SECRET, "-n", &fixture.namespace]);
    let program = fixture.start(FailurePolicy::Fail);
    fixture.denies().await;
    assert_ne!(text(&fixture, "ca.crt").await, first);
    fixture.registered("Fail").await;
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_an_authority_and_another_one_registers_when_the_first_stops() {
    let Some(fixture) = Fixture::new("replicas").await else { return };
    let [one, other] = [fixture.start(FailurePolicy::Fail), fixture.start(FailurePolicy::Fail)];
    fixture.registered("Fail").await;
    let first = text(&fixture, "ca.crt").await;
    let url =
        || fixture.configuration("validatingwebhookconfiguration")["webhooks"][0]["clientConfig"]["url"].to_string();
    let (is_one, before) = (url().contains(&one.running.as_ref().expect("it runs").local_addr().to_string()), url());
    let (leader, standby) = if is_one { (one, other) } else { (other, one) };
    leader.stop().await;
    until("the other one registers", || url() != before).await;
    fixture.denies().await;
    assert_eq!(text(&fixture, "ca.crt").await, first);
    standby.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_files_is_served_with_the_authority_of_another_file() {
    let Some(fixture) = Fixture::new("files").await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let file = |name: &str, text: String| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("written");
        file
    };
    let (certificate, key) = (file("tls.crt", made.cert.pem()), file("tls.key", made.signing_key.serialize_pem()));
    let program = fixture.start_with(FailurePolicy::Fail, |webhooks| webhooks.files(&certificate, &key, &certificate));
    fixture.registered("Fail").await;
    fixture.denies().await;
    assert!(!fixture.plane.kubectl(&["get", "secret", SECRET, "-n", &fixture.namespace]).success, "there is no Secret");
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_and_a_condition_are_removed_although_they_belong_to_a_restored_backup_and_entries_of_others_stay() {
    let Some(fixture) = Fixture::new("others").await else { return };
    let more = Webhook::validate::<Shop>("more").function(async |_: Arc<Shop>| Ok::<_, Denied>(()));
    let more = more.build().expect("a webhook");
    let program = fixture.start_with(FailurePolicy::Fail, |webhooks| webhooks.webhook(more));
    let entry = |name: &str| {
        let configuration = fixture.configuration("validatingwebhookconfiguration");
        configuration["webhooks"].as_array().into_iter().flatten().find(|one| one["name"] == name).cloned()
    };
    until("both are registered", || {
        ["more.shop.kooper.rs", "check.shop.kooper.rs"].iter().all(|name| entry(name).is_some())
    })
    .await;
    program.stop().await;
    // As a restored backup: the entries belong to whoever has created them.
    let mut restored = fixture.configuration("validatingwebhookconfiguration");
    let metadata = restored["metadata"].as_object_mut().expect("an object");
    metadata.retain(|field, _| !["uid", "resourceVersion", "managedFields"].contains(&field.as_str()));
    let mut other = restored["webhooks"][0].clone();
    (other["name"], other["failurePolicy"]) = (json!("other.example.com"), json!("Ignore"));
    let entries = restored["webhooks"].as_array_mut().expect("a list");
    let check = entries.iter_mut().find(|one| one["name"] == "check.shop.kooper.rs").expect("it is registered");
    let conditions = check["matchConditions"].as_array_mut().expect("a list");
    conditions.push(json!({"name": "never", "expression": "false"}));
    entries.push(other);
    let name = format!("shop--webhooks.{}", fixture.namespace);
    fixture.plane.must(&["delete", "validatingwebhookconfiguration", &name]);
    assert!(fixture.kubectl(&["create", "-f", "-"], &restored).success);

    let program = fixture.start(FailurePolicy::Fail);
    until("it is removed", || entry("more.shop.kooper.rs").is_none()).await;
    assert!(entry("other.example.com").is_some());
    until("the condition is removed", || {
        entry("check.shop.kooper.rs").is_some_and(|check| !check["matchConditions"].to_string().contains("never"))
    })
    .await;
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configurations_go_with_the_role_of_the_program() {
    let Some(fixture) = Fixture::new("owner").await else { return };
    fixture.plane.must(&["create", "clusterrole", "shop-webhooks-owner", "--verb=get", "--resource=pods"]);
    let program = fixture.start_with(FailurePolicy::Fail, |webhooks| webhooks.owner("shop-webhooks-owner"));
    fixture.registered("Fail").await;
    program.stop().await;
    assert!(!fixture.create("a", json!({})).success, "nobody answers");
    fixture.plane.must(&["delete", "clusterrole", "shop-webhooks-owner"]);
    until("nobody is asked", || fixture.create("a", json!({})).success).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_reached_stays_registered_with_ignore() {
    let Some(fixture) = Fixture::new("unreached").await else { return };
    let program = fixture.start_with(FailurePolicy::Fail, |webhooks| webhooks.url("https://127.0.0.1:1"));
    fixture.registered("Ignore").await;
    let events = || fixture.plane.must(&["get", "events", "-n", &fixture.namespace, "-o", "json"]);
    until("an Event says so", || events().contains("cannot reach the webhooks at https://127.0.0.1:1")).await;
    fixture.registered("Ignore").await;
    assert!(fixture.create("a", json!({"mood": "bad"})).success);
    program.stop().await;
}
