//! Owners that are deleted with `--cascade=orphan`. The garbage collector does not know the children of these shops.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kooper::apiserver::faults::{Fault, Verb};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper_children::{SlotExt, declare};
use kube::Api;
use kube::api::{DeleteParams, PropagationPolicy};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::apart::{elsewhere, namespace, ordered, role};
use super::{Shop, corner, fields, run_settled, run_with};

async fn delete(cluster: &Cluster, shop: &Shop) -> Result<()> {
    let shops: Api<Shop> = Api::namespaced(cluster.client(), cluster.namespace());
    let params = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    drop(shops.delete(&shop.name_any(), &params).await?);
    Ok(())
}

/// Waits until the garbage collector has removed its finalizer.
async fn forgotten(cluster: &Cluster, shop: &Shop) {
    let is_done = |shop: &Shop| {
        let has_finalizer = shop.finalizers().iter().any(|one| one == "orphan");
        shop.metadata.deletion_timestamp.is_some() && !has_finalizer
    };
    cluster.wait(shop, is_done).await;
}

async fn outlive(cluster: &Cluster, configs: &Api<ConfigMap>) -> Result<()> {
    let role: ClusterRole = cluster.get("corner-a").await?.ok_or("the ClusterRole was deleted")?;
    let config = configs.get("corner").await?;
    assert_eq!([role.labels(), config.labels()].map(|labels| labels.get("kooper.rs/owner")), [None, None]);
    assert_eq!([role.metadata.deletion_timestamp, config.metadata.deletion_timestamp], [None, None]);
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn the_children_outlive_their_owner_if_the_process_ends_before_they_are_released(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let configs = namespace(&cluster).await?;
    let (running, shop) = run_settled(&cluster, ordered()?, &corner("a", false, &[])).await?;
    let refused = ["clusterroles", "configmaps"].map(|kind| cluster.faults().on(Verb::Patch.of(kind)).reply(500));
    delete(&cluster, &shop).await?;
    forgotten(&cluster, &shop).await;
    tokio::time::timeout(Duration::from_secs(60), refused[0].injected(1)).await?;
    running.kill().await;
    refused.iter().for_each(Fault::lift);
    let running = cluster.run([ordered()?]).await?;
    cluster.wait_deleted(&shop).await;
    outlive(&cluster, &configs).await?;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_children_outlive_their_owner_if_the_finalizer_is_removed_while_the_handler_runs(
    cluster: Cluster,
) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    let configs = namespace(&cluster).await?;
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (begins, waits) = (begun.clone(), gate.clone());
    let handler = move || {
        begins.notify_one();
        let waits = waits.clone();
        async move { drop(waits.acquire().await) }
    };
    let children = declare().child(role).child(elsewhere.with((role,))).status(fields).build()?;
    let controller = Shop::controller("shops")
        .install_crd()
        .handler(children.handler(handler))
        .cleanup("example.com/shop", children.deletion(async || {}))
        .build()?;
    let (running, shop) = run_with(&cluster, controller, &corner("a", false, &[])).await?;
    tokio::time::timeout(Duration::from_secs(60), begun.notified()).await?;
    delete(&cluster, &shop).await?;
    forgotten(&cluster, &shop).await;
    // The cache has the shop without the finalizer.
    tokio::time::sleep(Duration::from_secs(10)).await;
    gate.close();
    cluster.wait_deleted(&shop).await;
    outlive(&cluster, &configs).await?;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_cleanup_is_called_once_and_for_an_owner_with_the_note(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(3600));
    namespace(&cluster).await?;
    let noted = Arc::new(Mutex::new(Vec::new()));
    let notes = noted.clone();
    let children = declare().child(role).child(elsewhere.with((role,))).status(fields).build()?;
    let cleanup = move |shop: Arc<Shop>| {
        notes.lock().push(shop.annotations().get("kooper.rs/orphan").cloned());
        async {}
    };
    let controller = Shop::controller("shops")
        .install_crd()
        .handler(children.handler(async || {}))
        .cleanup("example.com/shop", children.deletion(cleanup))
        .build()?;
    let (running, shop) = run_settled(&cluster, controller, &corner("a", false, &[])).await?;
    delete(&cluster, &shop).await?;
    cluster.wait_deleted(&shop).await;
    assert_eq!(*noted.lock(), [shop.uid()]);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_owner_with_the_note_of_another_one_is_deleted_with_its_children(cluster: Cluster) -> Result<()> {
    let configs = namespace(&cluster).await?;
    let running = cluster.run([ordered()?]).await?;
    let mut shop = corner("a", false, &[]);
    // It was restored from a backup.
    shop.metadata.annotations = Some([("kooper.rs/orphan".to_owned(), "another".to_owned())].into());
    let shop = cluster.create(&shop).await?;
    cluster.settle().await;
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    assert!(cluster.get::<ClusterRole>("corner-a").await?.is_none());
    assert!(configs.get_opt("corner").await?.is_none());
    running.stop().await
}
