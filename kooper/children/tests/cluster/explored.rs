//! Explorations of declared children.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kooper::prelude::*;
use kooper::testing::{Cluster, Exploration, Explored, Finding, Oracle};
use kooper::{ConfigError, Controller};
use kooper_children::{SlotExt, declare};
use serde_json::{from_value, json};
use tokio::runtime::{Builder, Runtime};

use super::{Shop, config, controller, controller_of, corner, front};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

fn role(shop: &Shop, _: &ConfigMap) -> Result<ClusterRole> {
    Ok(from_value(json!({"metadata": {"name": shop.name_any()}, "rules": []}))?)
}

fn ledger(shop: &Shop) -> Result<ConfigMap> {
    Ok(from_value(json!({"metadata": {"name": format!("{}-ledger", shop.name_any())}}))?)
}

/// Three waves, with a child that Kubernetes does not delete with its owner, and one that is kept.
pub(super) fn waves() -> Result<Controller, ConfigError> {
    let children = declare().child(config).child(role.with((config,)));
    let children = children.child(front.slot().after(role)).child(ledger.slot().keep().after(role)).build();
    controller_of(&children.expect("the slots are right"))
}

/// A shop opens and closes.
async fn closes(cluster: Cluster) -> Result<()> {
    let shop = cluster.create(&corner("a", true, &[])).await?;
    cluster.settle().await;
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    Ok(())
}

/// A shop closes as soon as it has its children, which the caches may not have yet.
async fn closes_at_once(cluster: Cluster) -> Result<()> {
    let shop = cluster.create(&corner("a", true, &[])).await?;
    cluster.wait("corner-front", |_: &Service| true).await;
    cluster.wait("corner-ledger", |_: &ConfigMap| true).await;
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    Ok(())
}

/// Explores a shop that closes, with another controller.
fn explore(
    histories: usize,
    other: impl Fn() -> Result<Controller, ConfigError> + Send + Sync + 'static,
) -> Result<Explored, Finding> {
    Exploration::of(move || Ok(vec![waves()?, other()?])).seed(1).limit(histories).run(runtime, closes)
}

#[test]
fn whatever_goes_wrong_the_children_are_what_they_should_be() {
    let exploration = Exploration::of(|| Ok(vec![controller()?]))
        .state(corner("a", true, &["1", "2"]))
        .state(corner("b", false, &["2"]))
        // It is made once, and keeps what it was made for.
        .ignore("data.made-for")
        .seed(1)
        .limit(10);
    let explored = exploration.run(runtime, async |_: Cluster| {}).unwrap_or_else(|finding| panic!("{finding}"));
    println!("{explored}");
}

#[test]
fn whatever_goes_wrong_an_ordered_deletion_keeps_its_order_and_leaves_no_child() {
    let explored = Exploration::of(|| Ok(vec![waves()?])).seed(1).limit(60).run(runtime, closes);
    println!("{}", explored.unwrap_or_else(|finding| panic!("{finding}")));
}

#[test]
fn whatever_goes_wrong_a_deletion_that_follows_at_once_keeps_its_order_and_leaves_no_child() {
    let explored = Exploration::of(|| Ok(vec![waves()?])).seed(1).limit(20).run(runtime, closes_at_once);
    println!("{}", explored.unwrap_or_else(|finding| panic!("{finding}")));
}

/// Deletes the ConfigMap of a shop that closes. The mistake is that its ClusterRole may still exist.
async fn impatient<const MISTAKEN: bool>(
    shop: Arc<Shop>,
    roles: Getter<ClusterRole>,
    configs: Deleter<ConfigMap>,
) -> Result<()> {
    if shop.metadata.deletion_timestamp.is_none() {
        return Ok(());
    }
    if MISTAKEN || roles.fetch(&ObjectKey::new(None, &shop.name_any())).await?.is_none() {
        configs.delete(&ObjectKey::new(shop.namespace().as_deref(), &config(&shop)?.name_any())).await?;
    }
    Ok(())
}

#[test]
fn a_child_that_is_deleted_before_those_that_depend_on_it_is_a_finding() {
    let impatient_is = |is_mistaken: bool| {
        explore(8, move || {
            let builder = Shop::controller("impatient").while_deleting();
            let builder =
                if is_mistaken { builder.handler(impatient::<true>) } else { builder.handler(impatient::<false>) };
            builder.build()
        })
    };
    let finding = impatient_is(true).expect_err("it has a mistake");
    assert_eq!(finding.oracle(), Oracle::DeletionOrder, "{finding}");
    assert_eq!(
        finding.summary(),
        "Without faults, `delete configmaps default/corner-a (slot config)` is sent while `Service \
         default/corner-front` (slot front) of an earlier wave still exists"
    );
    // The requests that led to it.
    let shown = finding.to_string();
    assert!(shown.contains("\n  delete configmaps default/corner-a (slot config)\n"), "{shown}");
    assert!(shown.contains(" services default/corner-front (slot front) by "), "{shown}");
    impatient_is(false).unwrap_or_else(|finding| panic!("{finding}"));
}

/// Applies a Secret with the labels of a child that Kubernetes does not delete with its owner. No slot has its kind.
async fn lends(shop: Arc<Shop>, secrets: Applier<Secret>) -> Result<()> {
    let labels = json!({"kooper.rs/slot": "key", "kooper.rs/owner": shop.uid()});
    let metadata = json!({"name": "key", "namespace": shop.namespace(), "labels": labels});
    secrets.apply(&from_value(json!({"metadata": metadata}))?).await?;
    Ok(())
}

/// The mistake is that it does nothing.
async fn returns<const MISTAKEN: bool>(shop: Arc<Shop>, secrets: Deleter<Secret>) -> Result<()> {
    if !MISTAKEN {
        secrets.delete(&ObjectKey::new(shop.namespace().as_deref(), "key")).await?;
    }
    Ok(())
}

#[test]
fn a_child_that_outlives_its_owner_is_a_finding_even_if_it_does_so_without_faults() {
    let lends_and = |is_mistaken: bool| {
        explore(8, move || {
            let builder = Shop::controller("lends").handler(lends);
            let builder = match is_mistaken {
                true => builder.cleanup("example.com/key", returns::<true>),
                false => builder.cleanup("example.com/key", returns::<false>),
            };
            builder.build()
        })
    };
    let finding = lends_and(true).expect_err("it has a mistake");
    assert_eq!(finding.oracle(), Oracle::Orphans, "{finding}");
    let summary = "Without faults, `Secret default/key` (slot key) is left over: its owner no longer exists";
    assert_eq!(finding.summary(), summary);
    lends_and(false).unwrap_or_else(|finding| panic!("{finding}"));
}
