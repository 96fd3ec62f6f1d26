//! Webhooks on a cluster of a test.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::Controller;
use kooper::apiserver::faults::{Verb, WebhookFault};
use kooper::kube::core::Status;
use kooper::kube::{self, Error};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::webhooks::{Denied, FailurePolicy, Webhook};

use crate::fixture::with_name;

async fn check(new: Arc<ConfigMap>) -> Result<(), Denied> {
    let mut denied = Denied::default();
    for key in ["name", "owner"] {
        if !new.data.as_ref().is_some_and(|data| data.contains_key(key)) {
            denied = denied.field(format!("data.{key}"), "must be set");
        }
    }
    denied.into_result()
}

async fn fill(mut object: ConfigMap) -> ConfigMap {
    object.data.get_or_insert_default().entry("owner".into()).or_insert("nobody".into());
    object
}

fn config(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let mut config: ConfigMap = with_name(name);
    config.data = Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
    config
}

fn webhooks(failure: FailurePolicy) -> [Webhook; 2] {
    [
        Webhook::validate::<ConfigMap>("check").failure(failure).function(check).build().expect("a webhook"),
        Webhook::mutate::<ConfigMap>("fill").failure(failure).function(fill).build().expect("a webhook"),
    ]
}

fn status<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result.expect_err("it is denied") {
        Error::Api(status) => *status,
        other => panic!("{other}"),
    }
}

/// A Secret for each ConfigMap.
async fn keys(config: Arc<ConfigMap>, secrets: OwnedApplier<Secret>) -> Result<()> {
    let mut secret: Secret = with_name(&format!("{}-key", config.name_any()));
    secret.string_data = Some(BTreeMap::from([("owner".into(), config.data.as_ref().expect("data")["owner"].clone())]));
    secrets.apply_owned(&config, &secret).await?;
    Ok(())
}

#[kooper::test]
async fn an_invalid_object_is_denied_with_its_causes_and_a_valid_one_is_filled_and_handled(
    cluster: Cluster,
) -> Result<()> {
    let keys = Controller::builder::<ConfigMap>("keys").handler(keys).build()?;
    let running = cluster.run_with_webhooks([keys], webhooks(FailurePolicy::Fail)).await?;
    let denied = status(cluster.create(&config("bad", &[])).await);
    assert_eq!((denied.code, &*denied.reason), (422, "Invalid"), "{denied:?}");
    let causes = denied.details.expect("details").causes;
    assert_eq!(causes.len(), 1, "the owner was filled: {causes:?}");
    assert_eq!((&*causes[0].field, &*causes[0].message), ("data.name", "must be set"));
    let good = cluster.create(&config("good", &[("name", "a")])).await?;
    assert_eq!(good.data.as_ref().expect("data")["owner"], "nobody");
    cluster.wait("good-key", |_: &Secret| true).await;
    running.stop().await?;
    cluster.create(&config("bad", &[])).await?;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_failing_webhook_denies_with_fail_and_nothing_with_ignore(cluster: Cluster) -> Result<()> {
    for (failure, denies) in [(FailurePolicy::Fail, true), (FailurePolicy::Ignore, false)] {
        let running = cluster.run_with_webhooks([], webhooks(failure)).await?;
        for (fault, message) in [
            (WebhookFault::Away, "connect: connection refused"),
            (WebhookFault::Slow, "context deadline exceeded"),
            (WebhookFault::WrongCertificate, "certificate signed by unknown authority"),
            (WebhookFault::Garbage, "Kind string \"json:\\\"kind,omitempty\\\"\" }"),
        ] {
            cluster.faults().webhook("check", fault);
            let created = cluster.create(&config("a", &[])).await;
            if denies {
                let denied = status(created);
                let failed = r#"Internal error occurred: failed calling webhook "check.test.kooper.rs": failed to call webhook: "#;
                assert!(denied.message.starts_with(failed) && denied.message.ends_with(message), "{}", denied.message);
            } else {
                cluster.delete(&created?).await?;
            }
        }
        cluster.faults().clear();
        assert_eq!(status(cluster.create(&config("a", &[])).await).code, 422, "it is called again");
        running.stop().await?;
    }
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn an_error_of_the_registration_is_returned(cluster: Cluster) -> Result<()> {
    cluster.faults().on(Verb::Patch.of("validatingwebhookconfigurations")).reply(422);
    let error = cluster.run_with_webhooks([], webhooks(FailurePolicy::Fail)).await.expect_err("it is not registered");
    let error = error.to_string();
    let expected = ["the webhooks are not registered within 30s: ", "the configuration `", "cannot be patched: "];
    assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn the_next_process_serves_the_webhooks_of_one_that_was_killed(cluster: Cluster) -> Result<()> {
    let running = cluster.run_with_webhooks([], webhooks(FailurePolicy::Fail)).await?;
    running.kill().await;
    let denied = status(cluster.create(&config("good", &[("name", "a")])).await);
    assert!(denied.message.contains("connection refused"), "{}", denied.message);
    let running = cluster.run_with_webhooks([], webhooks(FailurePolicy::Fail)).await?;
    cluster.create(&config("good", &[("name", "a")])).await?;
    assert_eq!(status(cluster.create(&config("bad", &[])).await).code, 422);
    running.stop().await
}
