//! Children whose update is refused.

use k8s_openapi::api::apps::v1::Deployment;
use kooper::apiserver::faults::Verb;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{ConfigError, Controller};
use kooper_children::{SlotExt, declare};
use serde_json::{from_value, json};

use super::{Shop, corner, fields, is_ready, ready};

/// A Deployment whose immutable selector is the shop's `config`; without shelves it has a negative number of replicas.
fn web(shop: &Shop) -> Result<Deployment> {
    let labels = json!({"of": shop.spec.config});
    let replicas = if shop.spec.shelves.is_empty() { -1 } else { 1 };
    Ok(from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
            },
        },
    }))?)
}

macro_rules! controller {
    ($slot:expr) => {
        || -> Result<Controller, ConfigError> {
            let children = declare().child($slot).status(fields).build().expect("the slot is right");
            Shop::controller("shops").install_crd().handler(children.handler(async || {})).build()
        }
    };
}

async fn deployment(cluster: &Cluster) -> Result<Deployment> {
    Ok(cluster.get("web").await?.ok_or("there is no Deployment")?)
}

fn message(shop: &Shop) -> &str {
    ready(shop).map_or("", |ready| &ready.message)
}

fn is_stalled(shop: &Shop) -> bool {
    let conditions = shop.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|one| one.type_ == "Stalled" && one.status == "True")
}

#[kooper::test(start_paused = true)]
async fn a_child_with_another_immutable_field_is_recreated_if_the_slot_says_so(cluster: Cluster) -> Result<()> {
    let running = cluster.run([controller!(web.slot().recreate())()?]).await?;
    let shop = cluster.create(&corner("a", false, &["1"])).await?;
    cluster.wait(&shop, is_ready).await;
    let before = deployment(&cluster).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.wait(&shop, is_ready).await;
    let after = deployment(&cluster).await?;
    assert_ne!(after.uid(), before.uid());
    assert_eq!(after.spec.and_then(|spec| spec.selector.match_labels).unwrap_or_default()["of"], "b");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_with_another_immutable_field_stalls_the_owner_otherwise(cluster: Cluster) -> Result<()> {
    let running = cluster.run([controller!(web)()?]).await?;
    let shop = cluster.create(&corner("a", false, &["1"])).await?;
    cluster.wait(&shop, is_ready).await;
    let before = deployment(&cluster).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    let stalled = cluster.wait(&shop, is_stalled).await;
    assert!(message(&stalled).contains("immutable") && message(&stalled).contains("write `recreate`"), "{stalled:?}");
    assert_eq!(deployment(&cluster).await?.uid(), before.uid());
    let names: Vec<_> = cluster.list::<Deployment>().await?.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["web"], "the probe leaves nothing");
    cluster.patch(&shop, json!({"spec": {"config": "a"}})).await?;
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_that_would_be_invalid_anyway_is_not_deleted(cluster: Cluster) -> Result<()> {
    let running = cluster.run([controller!(web.slot().recreate())()?]).await?;
    let shop = cluster.create(&corner("a", false, &["1"])).await?;
    cluster.wait(&shop, is_ready).await;
    let before = deployment(&cluster).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b", "shelves": []}})).await?;
    cluster.wait(&shop, is_stalled).await;
    cluster.settle().await;
    assert_eq!(deployment(&cluster).await?.uid(), before.uid());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_whose_probe_has_no_answer_is_not_deleted_yet(cluster: Cluster) -> Result<()> {
    let running = cluster.run([controller!(web.slot().recreate())()?]).await?;
    let shop = cluster.create(&corner("a", false, &["1"])).await?;
    cluster.wait(&shop, is_ready).await;
    let before = deployment(&cluster).await?;
    let fault = cluster.faults().on(Verb::Create.of("deployments.apps")).reply(500);
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    let refused = cluster.wait(&shop, |shop: &Shop| message(shop).contains("immutable")).await;
    assert!(!is_stalled(&refused));
    assert_eq!(deployment(&cluster).await?.uid(), before.uid());
    fault.lift();
    cluster.wait(&shop, |shop: &Shop| is_ready(shop)).await;
    assert_ne!(deployment(&cluster).await?.uid(), before.uid());
    running.stop().await
}
