//! The arguments of functions beside the request. The functions have the attributes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;
use kooper_webhooks::{Admission, Denied, FailurePolicy};
use kube::api::{Api, PostParams};
use kube::{Client, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fixture::{Fixture, Motto, Shop, install_crd, until};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "webhooks.example.com", version = "v1", kind = "Flavour", namespaced)]
struct FlavourSpec {}

struct Limit {
    size: i32,
}

async fn limit(_: Client) -> Result<Limit> {
    Ok(Limit { size: 100 })
}

#[kooper::validate(resource = Shop, operations = [create], init = limit)]
async fn check_stock(
    new: Arc<Shop>,
    request: Admission,
    flavours: Reader<Flavour>,
    limit: State<Limit>,
    motto: Settings<Motto>,
) -> Result<()> {
    let flavour = new.spec.flavour.as_deref().unwrap_or_default();
    if flavours.get(&ObjectKey::new(request.key().namespace(), flavour))?.is_none() {
        return Err(Denied::default().field("spec.flavour", "there is none").into());
    }
    if new.spec.size > limit.size {
        return Err(Denied::default().field("spec.size", "too large").into());
    }
    request.warn(motto.0.0);
    Ok(())
}

/// A function with a side effect.
#[kooper::validate(resource = Shop, operations = [create], rbac("configmaps: create"))]
async fn note(new: Arc<Shop>, client: Client) -> Result<()> {
    let configs: Api<ConfigMap> = Api::namespaced(client, &new.namespace().unwrap_or_default());
    let mut config = ConfigMap::default();
    config.metadata.name = Some(new.name_any());
    configs.create(&PostParams::default(), &config).await?;
    Ok(())
}

fn validating(fixture: &Fixture) -> Vec<Value> {
    let configuration = fixture.configuration("validatingwebhookconfiguration");
    configuration["webhooks"].as_array().cloned().unwrap_or_default()
}

async fn armed(fixture: &Fixture, name: &str) -> Value {
    let find =
        || validating(fixture).into_iter().find(|one| one["name"].as_str().is_some_and(|it| it.starts_with(name)));
    until(name, || find().is_some_and(|one| one["failurePolicy"] == "Fail")).await;
    find().expect("it is registered")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_reads_the_cluster_its_state_and_the_settings_once_its_caches_are_synced() {
    let Some(fixture) = Fixture::new("arguments").await else { return };
    let webhook = check_stock::webhook().expect("a webhook");
    let program = fixture.start_with(FailurePolicy::Fail, |webhooks| webhooks.webhook(webhook));
    let registered = armed(&fixture, "check-stock.").await;
    assert_eq!(registered["sideEffects"], "None");
    // The cluster does not have the kind yet.
    let output = fixture.create("a", json!({"flavour": "lemon"}));
    assert!(output.stderr.contains("it is not ready: the caches"), "{}", output.stderr);

    install_crd(fixture.plane, "flavours.webhooks.example.com", "Flavour");
    until("the missing flavour is denied", || {
        fixture.create("a", json!({"flavour": "lemon"})).stderr.contains("spec.flavour: there is none")
    })
    .await;
    let flavour = json!({
        "apiVersion": "webhooks.example.com/v1", "kind": "Flavour",
        "metadata": {"name": "lemon", "namespace": fixture.namespace}, "spec": {},
    });
    assert!(fixture.kubectl(&["create", "-f", "-"], &flavour).success);
    let output = || fixture.create("large", json!({"flavour": "lemon", "size": 101}));
    until("the size is denied", || output().stderr.contains("spec.size: too large")).await;
    let output = fixture.create("a", json!({"flavour": "lemon"}));
    assert!(output.success, "{}", output.stderr);
    assert!(output.stderr.contains("Warning: keep calm"), "{}", output.stderr);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_writes_nothing_in_a_dry_run() {
    let Some(fixture) = Fixture::new("client").await else { return };
    let webhook = note::webhook().expect("a webhook");
    let program = fixture.start_with(FailurePolicy::Fail, |webhooks| webhooks.webhook(webhook));
    let registered = armed(&fixture, "note.").await;
    assert_eq!(registered["sideEffects"], "NoneOnDryRun");
    let dry = || fixture.kubectl(&["create", "--dry-run=server", "-f", "-"], &fixture.shop("a", json!({})));
    until("the write is refused", || dry().stderr.contains("in which only `GET` requests are sent")).await;
    let noted = || fixture.plane.kubectl(&["get", "configmap", "a", "-n", &fixture.namespace]).success;
    assert!(!noted());
    let output = fixture.create("a", json!({}));
    assert!(output.success && noted(), "{}", output.stderr);
    program.stop().await;
}
