//! A roll-out to a version with another function, and back, under load.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kooper_webhooks::{Denied, FailurePolicy, Webhook, Webhooks};
use serde_json::json;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, Shop, install_crd, until};
use crate::replicas::{Replica, Site};

async fn greet(new: Arc<Shop>) -> Result<(), Denied> {
    if new.spec.mood == "rude" { Err(Denied::new("a shop greets")) } else { Ok(()) }
}

fn old(webhooks: Webhooks) -> Webhooks {
    webhooks.deployment("shop")
}

/// A version with another function.
fn new(webhooks: Webhooks) -> Webhooks {
    let greet = Webhook::validate::<Shop>("greet").failure(FailurePolicy::Fail).function(greet).build();
    old(webhooks).webhook(greet.expect("a webhook"))
}

/// The Deployment of the program, without a controller.
struct Deployment<'a>(&'a Fixture);

impl Deployment<'_> {
    fn create(&self) {
        let labels = json!({"app": "shop"});
        // Longer than an old replica serves when it ends.
        let pod = json!({"terminationGracePeriodSeconds": 15, "containers": [{"name": "main", "image": "shop:1"}]});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "shop", "namespace": self.0.namespace},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        });
        assert!(self.0.kubectl(&["create", "-f", "-"], &deployment).success);
    }

    /// Another version is rolled out.
    fn revise(&self, revision: u8) {
        let revision = revision.to_string();
        let change = json!({
            "metadata": {"annotations": {"deployment.kubernetes.io/revision": revision}},
            "spec": {"template": {"metadata": {"annotations": {"revision": revision}}}},
        });
        self.patch(&["--patch", &change.to_string()]);
    }

    /// So many replicas are of the newest version.
    fn updated(&self, generation: u8, replicas: usize) {
        let status = json!({"observedGeneration": generation, "replicas": 3, "updatedReplicas": replicas});
        self.patch(&["--subresource=status", "--patch", &json!({"status": status}).to_string()]);
    }

    fn patch(&self, args: &[&str]) {
        let patch = ["patch", "deployment", "shop", "--type=merge", "-n", &self.0.namespace];
        self.0.plane.must(&[&patch[..], args].concat());
    }
}

/// Replaces the replicas one by one: each ends when its successor is ready.
async fn replace(
    site: &Site,
    generation: u8,
    replicas: Vec<Replica>,
    version: impl Fn(Webhooks) -> Webhooks,
    ending: &mut JoinSet<()>,
) -> Vec<Replica> {
    let mut successors = Vec::new();
    Deployment(&site.fixture).updated(generation, 0);
    for leaving in replicas {
        successors.push(site.start(&version, Vec::new()).await);
        Deployment(&site.fixture).updated(generation, successors.len());
        site.creates(20).await;
        leaving.leaves.store(true, Ordering::SeqCst);
        ending.spawn(leaving.program.terminate());
        site.creates(20).await;
    }
    successors
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_in_a_roll_out_of_a_version_with_another_function_and_in_its_rollback() {
    let Some(fixture) = Fixture::alone("roll-out", &["--without-controller-manager"]).await else { return };
    install_crd(fixture.plane, "shops.webhooks.example.com", "Shop");
    let mut site = Site::new(fixture).await;
    Deployment(&site.fixture).create();
    Deployment(&site.fixture).revise(1);
    Deployment(&site.fixture).updated(2, 3);
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(site.start(old, Vec::new()).await);
    }
    site.fixture.registered("Fail").await;
    site.load(4, Duration::from_millis(50));
    site.creates(20).await;
    let greets = |site: &Site| {
        let configuration = site.fixture.configuration("validatingwebhookconfiguration");
        let entries = configuration["webhooks"].as_array().cloned().unwrap_or_default();
        entries.into_iter().find(|one| one["name"].as_str().is_some_and(|name| name.starts_with("greet.")))
    };
    let rude = |site: &Site| {
        let shop = site.fixture.shop("rude", json!({"mood": "rude"}));
        site.fixture.kubectl(&["create", "--dry-run=server", "-f", "-"], &shop)
    };

    Deployment(&site.fixture).revise(2);
    let mut ending = JoinSet::new();
    let replicas = replace(&site, 3, replicas, new, &mut ending).await;
    while !ending.is_empty() {
        assert_eq!(greets(&site), None, "an old replica does not serve it");
        tokio::time::timeout(Duration::from_millis(200), ending.join_next()).await.ok();
    }
    until("the function is registered", || greets(&site).is_some_and(|entry| entry["failurePolicy"] == "Fail")).await;
    until("the function is called", || rude(&site).stderr.contains("a shop greets")).await;
    site.creates(40).await;
    assert_eq!(site.failed(), Vec::<String>::new(), "in the roll-out");

    Deployment(&site.fixture).revise(3);
    Deployment(&site.fixture).updated(4, 0);
    let first = site.start(old, Vec::new()).await;
    assert_eq!(greets(&site), None, "a replica is not ready before the function that it does not serve is removed");
    site.creates(40).await;
    let mut replicas = replace(&site, 4, replicas, old, &mut ending).await;
    replicas.push(first);
    while ending.join_next().await.is_some() {}
    site.creates(40).await;
    assert_eq!(greets(&site), None);
    assert!(rude(&site).success);
    assert_eq!(site.failed(), Vec::<String>::new(), "in the rollback");
    for replica in replicas {
        replica.program.kill();
    }
}
