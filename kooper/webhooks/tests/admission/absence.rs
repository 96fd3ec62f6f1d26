//! A cluster without the program of its webhooks, and the return of the program.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::KindExt;
use kooper_access::Operator;
use kooper_runtime::Action;
use kooper_webhooks::{Denied, FailurePolicy, Webhook, Webhooks};
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, Program, Shop, free_address, install_crd, until};

async fn never(_: Arc<ConfigMap>) -> Result<(), Denied> {
    Err(Denied::new("no ConfigMap is good"))
}

async fn always(_: Arc<ConfigMap>) {}

/// Adds a webhook that denies each ConfigMap.
fn with_configs(webhooks: Webhooks, failure: FailurePolicy) -> Webhooks {
    let configs = Webhook::validate::<ConfigMap>("configs").failure(failure).function(never).build();
    webhooks.webhook(configs.expect("a webhook"))
}

fn config(fixture: &Fixture, namespace: &str) -> Result<(), String> {
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "absence", "namespace": namespace}});
    let output = fixture.kubectl(&["create", "--dry-run=server", "-f", "-"], &config);
    if output.success { Ok(()) } else { Err(output.stderr) }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_program_its_own_kind_cannot_be_written_and_everything_else_can() {
    let Some(fixture) = Fixture::alone("own", &[]).await else { return };
    install_crd(fixture.plane, "shops.webhooks.example.com", "Shop");
    fixture.plane.must(&["create", "namespace", "elsewhere"]);
    let metadata = json!({"name": "held", "namespace": "elsewhere", "finalizers": ["example.com/hold"]});
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    assert!(fixture.kubectl(&["create", "-f", "-"], &held).success);
    let held = ["configmap", "held", "-n", "elsewhere"];
    fixture.plane.must(&[&["delete", "--wait=false"], &held[..]].concat());
    let program = fixture.start_with(FailurePolicy::Fail, |webhooks| with_configs(webhooks, FailurePolicy::Ignore));
    until("the ConfigMap is denied", || {
        config(&fixture, "elsewhere").is_err_and(|error| error.contains("no ConfigMap is good"))
    })
    .await;
    let patch = |text: &str| fixture.plane.kubectl(&[&["patch"], &held[..], &["--type=merge", "-p", text]].concat());
    let change = ["--type=merge", "--dry-run=server", "-p", r#"{"data": {"a": "b"}}"#];
    until("its deletion exempts it from nothing", || {
        fixture.plane.kubectl(&[&["patch"], &held[..], &change].concat()).stderr.contains("no ConfigMap is good")
    })
    .await;
    assert!(patch(r#"{"metadata": {"finalizers": []}}"#).success);
    fixture.denies().await;
    until("the own kind is guarded", || {
        let live = fixture.configuration("validatingwebhookconfiguration");
        live["webhooks"].as_array().is_some_and(|all| all.iter().any(|one| one["failurePolicy"] == "Fail"))
    })
    .await;
    for name in ["a", "b"] {
        assert!(fixture.create(name, json!({})).success);
    }
    program.kill();

    let failed = |args: &[&str]| {
        let output = fixture.plane.kubectl(&[args, &["-n", &fixture.namespace]].concat());
        (!output.success).then_some(output.stderr)
    };
    let shop = "shops.webhooks.example.com/a";
    let refused = |error: Option<String>| error.is_some_and(|error| error.contains("failed calling webhook"));
    assert!(refused(Some(fixture.create("c", json!({})).stderr)));
    assert!(refused(failed(&["label", shop, "a=b"])));
    assert!(refused(failed(&["patch", shop, "--type=merge", "-p", r#"{"spec": {"size": 1}}"#])));
    // A change of nothing that a user states is no call, and nothing prevents a deletion.
    let owned = r#"{"metadata": {"finalizers": ["example.com/a"]}}"#;
    assert_eq!(failed(&["patch", shop, "--type=merge", "-p", owned]), None);
    assert_eq!(failed(&["delete", "--wait=false", shop]), None);
    assert_eq!(failed(&["patch", shop, "--type=merge", "-p", r#"{"metadata": {"finalizers": []}}"#]), None);
    assert_eq!(config(&fixture, "elsewhere"), Ok(()), "the policy of the other kind is `Ignore`");
    fixture.plane.must(&["delete", "namespace", &fixture.namespace]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_of_kubernetes_with_fail_spares_what_the_cluster_and_the_program_need_to_start() {
    let Some(fixture) = Fixture::alone("foreign", &[]).await else { return };
    install_crd(fixture.plane, "shops.webhooks.example.com", "Shop");
    fixture.plane.must(&["create", "namespace", "elsewhere"]);
    let configs = || {
        let address = free_address();
        let webhooks = Webhooks::new("shop", &fixture.namespace).listen(address).url(format!("https://{address}"));
        let accepted = Webhook::validate::<ConfigMap>("configs").failure(FailurePolicy::Fail);
        let accepted = accepted.function(always).build().expect("a webhook");
        fixture.run(webhooks.webhook(accepted), Operator::builder(), CancellationToken::new(), [])
    };
    let program = configs();
    until("the ConfigMaps are guarded", || {
        let live = fixture.configuration("validatingwebhookconfiguration");
        live["webhooks"][0]["failurePolicy"] == "Fail"
    })
    .await;
    assert_eq!(config(&fixture, "elsewhere"), Ok(()));
    program.kill();

    let refused = || config(&fixture, "elsewhere").is_err_and(|error| error.contains("failed calling webhook"));
    until("nobody answers", refused).await;
    for namespace in ["kube-system", "kube-node-lease", &fixture.namespace] {
        assert_eq!(config(&fixture, namespace), Ok(()), "{namespace}");
    }
    // A controller of Kubernetes writes a ConfigMap into each new namespace, and goes on when it can.
    fixture.plane.must(&["create", "namespace", "later"]);
    let has_root = || fixture.plane.kubectl(&["get", "configmap", "kube-root-ca.crt", "-n", "later"]).success;
    assert!(!has_root());
    let program = configs();
    until("the ConfigMap of the new namespace", has_root).await;
    program.stop().await;
}

/// A program with a controller of the kind that its webhooks guard: it installs the CRD, and writes objects of the kind.
fn guarding(fixture: &Fixture, dead: CancellationToken) -> Program {
    async fn tend(shop: Arc<Shop>, client: kube::Client) -> kooper_runtime::Result<Action> {
        if shop.labels().contains_key("tended") {
            return Ok(Action::done());
        }
        let shops: kube::Api<Shop> = kube::Api::namespaced(client, &shop.namespace().unwrap_or_default());
        let label = json!({"metadata": {"labels": {"tended": "yes"}}});
        shops.patch(&shop.name_any(), &Default::default(), &kube::api::Patch::Merge(label)).await?;
        Ok(Action::done())
    }
    async fn leave(_: Arc<Shop>) {}
    let shops = Shop::controller("shops").install_crd().rbac(["shops.webhooks.example.com: patch"]);
    let shops = shops.handler(tend).cleanup("webhooks.example.com/tended", leave).build().expect("a controller");
    let address = free_address();
    let webhooks =
        fixture.webhooks(FailurePolicy::Fail, Duration::from_secs(5)).listen(address).url(format!("https://{address}"));
    fixture.run(webhooks, Operator::builder().controller(shops), dead, [])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_guards_its_own_kind_starts_on_an_empty_cluster_after_a_crash_of_everything_and_without_its_secret()
 {
    let Some(fixture) = Fixture::alone("guarding", &[]).await else { return };
    let label = |name: &str| {
        let args = ["get", "shops.webhooks.example.com", name, "-n", &fixture.namespace, "-o", "json"];
        let shop: Value = serde_json::from_str(&fixture.plane.kubectl(&args).stdout).unwrap_or_default();
        shop["metadata"]["labels"]["tended"].clone()
    };
    let works = async |name: &str| {
        fixture.denies().await;
        fixture.registered("Fail").await;
        let created = fixture.create(name, json!({}));
        assert!(created.success, "{name}: {}", created.stderr);
        until(&format!("{name} is tended"), || label(name) == "yes").await;
    };
    let secret = ["secret", "shop--webhook-ca", "-n", &fixture.namespace];

    let program = guarding(&fixture, CancellationToken::new());
    works("on-an-empty-cluster").await;

    // Everything ends at once, and has to start with objects of the kind, and webhooks that nobody serves.
    program.kill();
    fixture.plane.kill_apiserver();
    fixture.plane.start_apiserver();
    assert!(!fixture.create("too-early", json!({})).success, "nobody answers");
    let program = guarding(&fixture, CancellationToken::new());
    works("after-a-crash").await;

    program.kill();
    fixture.plane.must(&[&["delete"], &secret[..]].concat());
    let program = guarding(&fixture, CancellationToken::new());
    works("without-the-secret").await;

    // An object can leave, too.
    fixture.plane.must(&["delete", "shops.webhooks.example.com", "--all", "-n", &fixture.namespace]);
    program.stop().await;
}
