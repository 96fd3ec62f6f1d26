//! From a version that applies its children by hand to one that declares them, and back.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::apiserver::faults::{Fault, Verb};
use kooper::capability::owned_by;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{ConfigError, Controller};
use kooper_children::{SlotExt, declare};
use serde_json::json;

use super::{Shop, config, corner, password, run_settled};

/// The version before: it applies one child with `apply_owned`, and the other with `apply`.
fn by_hand() -> Result<Controller, ConfigError> {
    async fn apply(shop: Arc<Shop>, configs: OwnedApplier<ConfigMap>, secrets: Applier<Secret>) -> Result<()> {
        configs.apply_owned(&shop, &config(&shop)?).await?;
        secrets.apply(&owned_by(&shop, password(&shop)?)?).await?;
        Ok(())
    }
    Shop::controller("shops").install_crd().resync(None).handler(apply).build()
}

fn declared() -> Result<Controller, ConfigError> {
    let children = declare().child(config).child(password).build().expect("the slots are right");
    Shop::controller("shops").install_crd().resync(None).workers(2).handler(children.handler(async || {})).build()
}

fn once() -> Result<Controller, ConfigError> {
    let children = declare().child(config).child(password.slot().once()).build().expect("the slots are right");
    Shop::controller("shops").install_crd().resync(None).handler(children.handler(async || {})).build()
}

/// The name, the uid and the slot of each child.
async fn children(cluster: &Cluster) -> Result<Vec<(String, String, Option<String>)>> {
    let mut all = Vec::new();
    let mut note = |meta: kube::core::ObjectMeta| {
        if meta.owner_references.is_some() {
            let slot = meta.labels.and_then(|labels| labels.get("kooper.rs/slot").cloned());
            all.push((meta.name.unwrap_or_default(), meta.uid.unwrap_or_default(), slot));
        }
    };
    cluster.list::<ConfigMap>().await?.into_iter().for_each(|config| note(config.metadata));
    cluster.list::<Secret>().await?.into_iter().for_each(|secret| note(secret.metadata));
    Ok(all)
}

/// Shops whose children the version before has applied.
async fn shops_from_before(cluster: &Cluster, count: usize) -> Result<()> {
    let running = cluster.run([by_hand()?]).await?;
    for number in 0..count {
        cluster.create(&Shop::new(&format!("shop-{number}"), corner("a", false, &[]).spec)).await?;
    }
    cluster.settle().await;
    running.stop().await
}

fn slots(children: &[(String, String, Option<String>)]) -> Vec<Option<&str>> {
    children.iter().map(|(.., slot)| slot.as_deref()).collect()
}

fn uids(children: &[(String, String, Option<String>)]) -> Vec<(&str, &str)> {
    children.iter().map(|(name, uid, _)| (&**name, &**uid)).collect()
}

/// Counts the patches of children from now on.
fn counted(cluster: &Cluster) -> impl Fn() -> u64 {
    let of = ["configmaps", "secrets"];
    let patches = of.map(|resource| cluster.faults().on(Verb::Patch.of(resource)).delay(Duration::ZERO));
    move || patches.iter().map(Fault::times).sum()
}

#[kooper::test(start_paused = true)]
async fn children_from_before_are_recognised_with_one_patch_each_and_a_rollback_leaves_them_alone(
    cluster: Cluster,
) -> Result<()> {
    shops_from_before(&cluster, 3).await?;
    let before = children(&cluster).await?;
    assert_eq!(slots(&before), [None; 6]);

    let patches = counted(&cluster);
    let running = cluster.run([declared()?]).await?;
    cluster.settle().await;
    let now = children(&cluster).await?;
    assert_eq!(uids(&now), uids(&before));
    assert_eq!(slots(&now), [[Some("config"); 3], [Some("password"); 3]].concat());
    assert_eq!(patches(), 6);
    running.stop().await?;

    let patches = counted(&cluster);
    let running = cluster.run([declared()?]).await?;
    cluster.settle().await;
    assert_eq!(patches(), 6, "the same version sends one for each child when it starts");
    running.stop().await?;

    let running = cluster.run([by_hand()?]).await?;
    cluster.settle().await;
    let back = children(&cluster).await?;
    assert_eq!((uids(&back), slots(&back)), (uids(&before), vec![None; 6]));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn what_was_created_once_keeps_its_labels_and_its_data_after_a_rollback(cluster: Cluster) -> Result<()> {
    shops_from_before(&cluster, 1).await?;
    let before = children(&cluster).await?;
    for again in [Some("password"), Some("password")] {
        let running = cluster.run([once()?]).await?;
        cluster.settle().await;
        let now = children(&cluster).await?;
        assert_eq!((uids(&now), slots(&now)), (uids(&before), vec![Some("config"), again]));
        running.stop().await?;
        let running = cluster.run([by_hand()?]).await?;
        cluster.settle().await;
        assert_eq!(uids(&children(&cluster).await?), uids(&before));
        running.stop().await?;
    }
    Ok(())
}

/// The garbage collector of Kubernetes does not delete a child whose reference names a version that is no longer served.
#[kooper::test(start_paused = true)]
async fn the_reference_of_what_was_created_once_names_the_version_that_the_program_has(cluster: Cluster) -> Result<()> {
    let (running, _) = run_settled(&cluster, once()?, &corner("a", false, &[])).await?;
    running.stop().await?;
    let before: Secret = cluster.get("corner-password").await?.ok_or("it does not exist")?;
    let mut references = before.owner_references().to_vec();
    references.iter_mut().for_each(|one| one.api_version = "example.com/v1alpha1".to_owned());
    cluster.patch(&before, json!({"metadata": {"ownerReferences": references}})).await?;

    let patches = counted(&cluster);
    let running = cluster.run([once()?]).await?;
    cluster.settle().await;
    let now: Secret = cluster.get("corner-password").await?.ok_or("it is gone")?;
    assert_eq!((now.owner_references(), &now.data), (before.owner_references(), &before.data));
    assert_eq!(patches(), 2, "one for each child");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_upgrade_writes_the_children_of_as_many_owners_at_a_time_as_there_are_workers(
    cluster: Cluster,
) -> Result<()> {
    shops_from_before(&cluster, 8).await?;
    let held = cluster.faults().on(Verb::Patch.of("configmaps")).delay(Duration::from_secs(3600));
    let running = cluster.run([declared()?]).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(held.times(), 2);
    held.lift();
    running.kill().await;
    Ok(())
}

/// The handler of a version before has adopted it, and so does that of a rollback.
#[kooper::test(start_paused = true)]
async fn an_object_that_a_handler_has_adopted_is_kept_by_its_slot(cluster: Cluster) -> Result<()> {
    fn adopts() -> Result<Controller, ConfigError> {
        let adopt = async |shop: Arc<Shop>, configs: OwnedApplier<ConfigMap>| {
            configs.adopt(&shop, &config(&shop)?).await.map(drop)?;
            Ok::<_, kooper::BoxError>(())
        };
        Shop::controller("shops").install_crd().resync(None).handler(adopt).build()
    }
    fn applies() -> Result<Controller, ConfigError> {
        let children = declare().child(config.slot().adopt()).build().expect("the slot is right");
        Shop::controller("shops").install_crd().resync(None).handler(children.handler(async || {})).build()
    }
    let shop = corner("a", false, &[]);
    let theirs = cluster.create(&config(&shop)?).await?;
    let (running, shop) = run_settled(&cluster, adopts()?, &shop).await?;
    running.stop().await?;
    for version in [applies, by_hand] {
        let running = cluster.run([version()?]).await?;
        cluster.settle().await;
        running.stop().await?;
    }
    let running = cluster.run([applies()?]).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.settle().await;
    let adopted: ConfigMap = cluster.get("corner-a").await?.ok_or("it is gone")?;
    assert_eq!(adopted.uid(), theirs.uid());
    assert!(cluster.get::<ConfigMap>("corner-b").await?.is_some());
    running.stop().await
}
