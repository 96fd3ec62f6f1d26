//! Children whose update is refused.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kooper::apiserver::faults::{Reply, Verb};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{ConfigError, Controller};
use kooper_children::{SlotExt, declare};
use serde_json::{from_value, json};
use tokio::time::timeout;

use super::{Shop, corner, fields, is_ready, ready, run_ready};

/// A Deployment whose immutable selector is the shop's `config`; without shelves it has a negative number of replicas, and
/// with a front not the default strategy.
fn web(shop: &Shop) -> Result<Deployment> {
    let labels = json!({"of": shop.spec.config});
    let strategy = shop.spec.front.then(|| json!({"type": "Recreate"}));
    let replicas = if shop.spec.shelves.is_empty() { -1 } else { 1 };
    Ok(from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
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
async fn a_child_with_another_immutable_field_stalls_the_owner_otherwise(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_ready(&cluster, controller!(web)()?, &corner("a", false, &["1"])).await?;
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
async fn a_child_that_a_default_of_before_would_make_invalid_is_applied_without_it(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_ready(&cluster, controller!(web)()?, &corner("a", false, &["1"])).await?;
    let before = deployment(&cluster).await?;
    cluster.patch(&shop, json!({"spec": {"front": true}})).await?;
    cluster.wait(&shop, is_ready).await;
    let after = deployment(&cluster).await?;
    assert_eq!(after.uid(), before.uid());
    let strategy = after.spec.and_then(|spec| spec.strategy).unwrap_or_default();
    assert_eq!((strategy.type_.as_deref(), strategy.rolling_update), (Some("Recreate"), None));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_that_would_be_invalid_anyway_is_not_deleted(cluster: Cluster) -> Result<()> {
    let (running, shop) =
        run_ready(&cluster, controller!(web.slot().recreate())()?, &corner("a", false, &["1"])).await?;
    let before = deployment(&cluster).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b", "shelves": []}})).await?;
    cluster.wait(&shop, is_stalled).await;
    cluster.settle().await;
    assert_eq!(deployment(&cluster).await?.uid(), before.uid());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_whose_probe_fails_for_a_reason_that_may_pass_is_not_deleted_yet(cluster: Cluster) -> Result<()> {
    let quota = "deployments.apps \"web\" is forbidden: exceeded quota: few, requested: count/deployments.apps=1, \
                 used: count/deployments.apps=1, limited: count/deployments.apps=1";
    let webhook = "admission webhook \"shops.example.com\" denied the request: the shops are shut";
    let (running, shop) =
        run_ready(&cluster, controller!(web.slot().recreate())()?, &corner("a", false, &["1"])).await?;
    let replies = [Reply::new(500), Reply::new(403).message(quota), Reply::new(422).message(webhook)];
    for (number, reply) in replies.into_iter().enumerate() {
        let before = deployment(&cluster).await?;
        let fault = cluster.faults().on(Verb::Create.of("deployments.apps")).reply(reply);
        cluster.patch(&shop, json!({"spec": {"config": number.to_string()}})).await?;
        // After the first call, which has written the status, it is tried again.
        timeout(Duration::from_secs(60), fault.injected(2)).await?;
        let refused: Shop = cluster.get("corner").await?.ok_or("there is no Shop")?;
        assert!(message(&refused).contains("immutable") && !is_stalled(&refused), "{refused:?}");
        assert_eq!(deployment(&cluster).await?.uid(), before.uid());
        fault.lift();
        cluster.wait(&shop, is_ready).await;
        assert_ne!(deployment(&cluster).await?.uid(), before.uid());
    }
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_dependents_of_a_child_that_is_recreated_are_deleted_unless_the_slot_orphans_them(
    cluster: Cluster,
) -> Result<()> {
    let foreground = controller!(web.slot().recreate())()?;
    let orphan = controller!(web.slot().recreate_orphan())()?;
    for (controller, is_orphan) in [(foreground, false), (orphan, true)] {
        let running = cluster.run([controller]).await?;
        let shop = cluster.create(&corner("a", false, &["1"])).await?;
        cluster.wait(&shop, is_ready).await;
        let (web, sets) = (deployment(&cluster).await?, cluster.list::<ReplicaSet>().await?);
        let [before] = &*sets else { panic!("{sets:?}") };
        cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
        cluster.wait(&shop, is_ready).await;
        assert_ne!(deployment(&cluster).await?.uid(), web.uid());
        let sets = cluster.list::<ReplicaSet>().await?;
        let after = sets.iter().find(|set| set.uid() == before.uid());
        assert_eq!(after.map(|set| set.owner_references().len()), is_orphan.then_some(0));
        cluster.delete(&shop).await?;
        cluster.settle().await;
        running.stop().await?;
    }
    Ok(())
}
