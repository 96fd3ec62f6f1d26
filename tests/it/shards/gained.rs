//! The conditions for shards to move: complete caches of the next owner, and no deletion that waits in the last one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::Controller;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::Cluster;
use kube::core::PartialObjectMeta;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::replicas::{
    Notes, SETTLE, create, create_in_each_shard, failing, map_and_identities, noting, override_plan, permit_everything,
    replica, spread, touch,
};
use crate::fixture::{Log, eventually, with_name};

#[kooper::test(start_paused = true)]
async fn deleted_is_called_for_each_object_although_its_shard_is_wanted_by_a_replica_that_never_knew_it(
    cluster: Cluster,
) -> Result<()> {
    permit_everything(&cluster).await?;
    let (deleted, overlaps) = (Log::default(), Arc::<Mutex<BTreeSet<String>>>::default());
    let objects = create_in_each_shard(&cluster, 2).await?;
    let start = |who: &'static str| {
        let (deleted, overlaps) = (deleted.clone(), overlaps.clone());
        let builder = Controller::builder::<ConfigMap>("notes").labels("app=shop").resync(None).shards(Shards::new(16));
        builder
            .workers(1)
            .deleted(move |config: Arc<ConfigMap>| {
                let (deleted, overlaps, name) = (deleted.clone(), overlaps.clone(), config.name_any());
                async move {
                    assert!(overlaps.lock().insert(name.clone()), "{name} is in two hands");
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    overlaps.lock().remove(&name);
                    deleted.note(format!("{name} by {who}"));
                }
            })
            .handler(async || {})
            .build()
    };
    let first = cluster.run([start("a")?]).await?;
    for object in &objects {
        cluster.delete(object).await?;
    }
    eventually("the first call of many has ended", || deleted.count() == 1).await;
    let second = cluster.run([start("b")?]).await?;
    eventually("deleted was called for each object", || deleted.count() == objects.len()).await;
    let names = |lines: Vec<String>| lines.iter().filter_map(|line| Some(line.split_once(' ')?.0.into())).collect();
    let called: BTreeSet<String> = names(deleted.lines());
    assert_eq!(called.len(), objects.len(), "{:?}", deleted.lines());
    // The shards move when there is nothing left to do.
    let later = create(&cluster, 32).await?;
    tokio::time::sleep(SETTLE).await;
    for object in &later {
        cluster.delete(object).await?;
    }
    eventually("both call it", || {
        let lines = deleted.lines().split_off(objects.len());
        lines.len() == later.len() && ["a", "b"].iter().all(|who| lines.iter().any(|line| line.ends_with(who)))
    })
    .await;
    first.stop().await?;
    second.stop().await?;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn the_owner_keeps_its_shards_while_another_replica_cannot_list_their_objects(cluster: Cluster) -> Result<()> {
    permit_everything(&cluster).await?;
    let (notes, fails) = (Notes::default(), [Arc::<AtomicBool>::default(), Arc::default()]);
    let objects = create_in_each_shard(&cluster, 1).await?;
    let start = |who, fails| {
        Ok::<_, kooper::BoxError>(replica(&cluster, noting(who, &notes).build()?, failing("/configmaps", fails)))
    };
    let (first, second) = (start("a", &fails[0])?, start("b", &fails[1])?);
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes).await?).len(), 2, "both work");
    let (map, identities) = map_and_identities(&cluster).await?;
    override_plan(&cluster, &map, json!({"drained": [identities.first()]}).to_string().into()).await?;
    tokio::time::sleep(SETTLE).await;
    let owned = spread(&touch(&cluster, &objects, "2", &notes).await?);
    assert_eq!(owned.len(), 1, "one is drained");
    let drained = usize::from(owned.contains_key("a"));

    fails[drained].store(true, Ordering::SeqCst);
    override_plan(&cluster, &map, Value::Null).await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "3", &notes).await?), owned);
    fails[drained].store(false, Ordering::SeqCst);
    tokio::time::sleep(SETTLE).await;
    assert_eq!(spread(&touch(&cluster, &objects, "4", &notes).await?).len(), 2, "both work again");
    first.stop().await?;
    second.stop().await?;
    notes.check();
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn no_call_begins_in_a_shard_of_a_dead_replica_before_the_children_are_listed(cluster: Cluster) -> Result<()> {
    permit_everything(&cluster).await?;
    let (seen, fails) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let objects = create_in_each_shard(&cluster, 1).await?;
    let start = |who: &'static str| {
        let seen = seen.clone();
        let builder = Controller::builder::<ConfigMap>("notes").labels("app=shop").resync(None);
        builder
            .shards(Shards::new(16))
            .handler(move |config: Arc<ConfigMap>, secrets: OwnedApplier<Secret>| {
                seen.note(format!("{who}: {}", config.name_any()));
                async move {
                    secrets.apply_owned(&config, &with_name(&config.name_any())).await?;
                    Ok::<_, kooper::BoxError>(())
                }
            })
            .build()
    };
    let is_cut = Arc::new(AtomicBool::new(false));
    let _first = replica(&cluster, start("a")?, failing("/", &is_cut));
    let second = replica(&cluster, start("b")?, failing("/secrets", &fails));
    tokio::time::sleep(SETTLE).await;
    let by = |who: &str| seen.lines().iter().filter(|line| line.starts_with(who)).count();
    let before = by("b");
    assert!(before > 0, "both work");
    fails.store(true, Ordering::SeqCst);
    is_cut.store(true, Ordering::SeqCst);
    tokio::time::sleep(SETTLE).await;
    assert_eq!(by("b"), before, "their children would seem to be absent");
    fails.store(false, Ordering::SeqCst);
    let handled = || seen.lines().into_iter().filter(|line| line.starts_with("b")).collect::<BTreeSet<_>>().len();
    eventually("the other replica handles all", || handled() == objects.len()).await;
    second.stop().await?;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_reader_of_the_metadata_of_the_own_kind_has_all_objects_beside_a_cleanup_with_a_selector(
    cluster: Cluster,
) -> Result<()> {
    permit_everything(&cluster).await?;
    let (notes, seen) = (Notes::default(), Log::default());
    let objects = create_in_each_shard(&cluster, 1).await?;
    let start = |who: &'static str| {
        let (notes, seen) = (notes.clone(), seen.clone());
        let builder = Controller::builder::<ConfigMap>("notes").labels("app=shop").resync(None);
        builder
            .shards(Shards::new(16))
            .cleanup("example.com/notes", async || {})
            .handler(move |call: Call, all: Reader<PartialObjectMeta<ConfigMap>>| {
                drop(notes.begin(who, &call));
                seen.note(all.list().filter(|entry| entry.name().starts_with("config-")).count().to_string());
                async {}
            })
            .build()
    };
    let [first, second] = [cluster.run([start("a")?]).await?, cluster.run([start("b")?]).await?];
    tokio::time::sleep(SETTLE).await;
    let before = seen.count();
    assert_eq!(spread(&touch(&cluster, &objects, "1", &notes).await?).len(), 2, "both work");
    let lines: BTreeSet<String> = seen.lines().split_off(before).into_iter().collect();
    assert_eq!(lines, [objects.len().to_string()].into());
    notes.stop_and_check([first, second]).await
}
