//! Each replica has the children of its own objects, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::Controller;
use kooper::apiserver::faults::Verb;
use kooper::capability::owned_by;
use kooper::children::declare;
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::Cluster;
use kooper_runtime::internal::client::{RequestLayer, from_fn};
use parking_lot::Mutex;
use serde_json::json;
use tower::ServiceExt;

use super::replicas::{self, Noted, Notes, create};
use crate::fixture::{Running, eventually, with_name};

/// The time for a crash to be noticed, and for calls after that.
const SETTLE: Duration = Duration::from_secs(30);

fn child(owner: &ConfigMap) -> Secret {
    let mut secret: Secret = with_name(&owner.name_any());
    secret.string_data = Some([("of".to_owned(), owner.name_any())].into());
    secret
}

async fn apply(owner: Arc<ConfigMap>, secrets: OwnedApplier<Secret>) -> Result<()> {
    secrets.apply_owned(&*owner, &child(&owner)).await?;
    Ok(())
}

fn builder() -> Builder<ConfigMap> {
    Controller::builder::<ConfigMap>("owners").labels("app=shop").resync(None).shards(Shards::new(32))
}

/// The queries with which Secrets are listed and watched.
type Queries = Arc<Mutex<Vec<String>>>;

fn recording(queries: &Queries) -> RequestLayer {
    let queries = queries.clone();
    from_fn(move |request, next| {
        let uri = request.uri();
        if uri.path().ends_with("/secrets") {
            queries.lock().push(uri.query().unwrap_or_default().to_owned());
        }
        next.oneshot(request)
    })
}

/// A replica whose caches are measured.
fn replica(cluster: &Cluster, controller: Controller, queries: &Queries) -> Running {
    replicas::replica(cluster, controller, recording(queries))
}

/// The number of objects in the caches of a replica.
fn cached(running: &Running) -> usize {
    running.metric(r#"kooper_store_objects{controller="owners"}"#).unwrap_or_default() as usize
}

async fn secrets(cluster: &Cluster) -> Result<BTreeMap<String, Secret>> {
    let secrets = cluster.list::<Secret>().await?.into_iter();
    Ok(secrets.filter(|secret| secret.metadata.owner_references.is_some()).map(|one| (one.name_any(), one)).collect())
}

#[kooper::test(start_paused = true)]
async fn three_replicas_cache_each_child_once_and_watch_only_their_own(cluster: Cluster) -> Result<()> {
    let owners = create(&cluster, 48).await?;
    // Children that an older version has made have no label.
    for owner in &owners[..12] {
        cluster.create(&owned_by(owner, child(owner))?).await?;
    }
    let queries = Queries::default();
    let start = || Ok::<_, kooper::BoxError>(replica(&cluster, builder().handler(apply).build()?, &queries));
    let first = start()?;
    eventually("one replica has all children", || cached(&first) == 96).await;
    let replicas = [first, start()?, start()?];
    eventually("each object is in one replica", || replicas.iter().map(cached).sum::<usize>() == 96).await;
    tokio::time::sleep(SETTLE).await;
    let sizes: Vec<usize> = replicas.iter().map(cached).collect();
    assert!(sizes.iter().sum::<usize>() == 96 && sizes.iter().all(|size| (8..=60).contains(size)), "{sizes:?}");
    assert!(secrets(&cluster).await?.values().all(|secret| secret.labels().contains_key("kooper.rs/bucket")));
    let narrow = |query: &&String| query.contains("labelSelector=kooper.rs%2Fbucket+notin+%28");
    assert!(queries.lock().iter().filter(narrow).count() >= 3, "{queries:?}");
    for replica in replicas {
        replica.stop().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_replica_that_gains_shards_lists_only_the_children_that_it_lacks(cluster: Cluster) -> Result<()> {
    create(&cluster, 48).await?;
    let (queries, others) = (Queries::default(), Queries::default());
    let start = |queries| Ok::<_, kooper::BoxError>(replica(&cluster, builder().handler(apply).build()?, queries));
    let first = start(&others)?;
    eventually("one replica has all children", || cached(&first) == 96).await;
    let second = start(&queries)?;
    eventually("each object is in one replica", || cached(&first) + cached(&second) == 96).await;
    tokio::time::sleep(SETTLE).await;
    queries.lock().clear();
    first.stop().await.map_err(|error| error.to_string())?;
    eventually("the other replica has all children", || cached(&second) == 96).await;
    tokio::time::sleep(SETTLE).await;
    let queries = queries.lock().clone();
    let lists: Vec<_> = queries.iter().filter(|query| !query.contains("watch=true")).collect();
    let is_of_some =
        |query: &&String| query.contains("Match=Exact") && query.contains("labelSelector=kooper.rs%2Fbucket");
    assert!(!lists.is_empty() && lists.iter().all(is_of_some), "{queries:?}");
    assert!(!queries.iter().any(|query| query.contains("sendInitialEvents=true")), "{queries:?}");
    second.stop().await.map_err(|error| error.to_string())?;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_replica_lists_no_child_twice_after_another_has_stopped_or_died(cluster: Cluster) -> Result<()> {
    create(&cluster, 48).await?;
    // Otherwise no time passes between the end of a session and the map that follows it.
    for verb in [Verb::Get, Verb::Update] {
        cluster.faults().on(verb.of("leases")).delay_answer(Duration::from_millis(10));
    }
    for ends_in_order in [true, false] {
        let (queries, others) = (Queries::default(), Queries::default());
        let start = |queries| Ok::<_, kooper::BoxError>(replica(&cluster, builder().handler(apply).build()?, queries));
        let mut first = start(&others)?;
        eventually("the first one has all children", || cached(&first) == 96).await;
        if ends_in_order {
            first.stop().await.map_err(|error| error.to_string())?;
        } else {
            first.ended.abort();
            assert!((&mut first.ended).await.is_err_and(|error| error.is_cancelled()));
        }
        let second = start(&queries)?;
        // The session of one that has died lasts for a lease.
        tokio::time::sleep(SETTLE).await;
        assert_eq!(cached(&second), 96);
        let queries = queries.lock().clone();
        // The half of one that has died is listed when its lease has ended, by buckets, as above.
        let whole = queries.iter().filter(|query| query.contains("sendInitialEvents=true")).count();
        assert_eq!(whole, 1, "{queries:#?}");
        second.stop().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn children_stay_as_they_are_when_their_shard_changes_hands(cluster: Cluster) -> Result<()> {
    let notes = Notes::default();
    create(&cluster, 32).await?;
    let start = |who| {
        let notes = notes.clone();
        let handler = move |owner: Arc<ConfigMap>, secrets: OwnedApplier<Secret>, call: Call| {
            let running = notes.begin(who, &call);
            async move {
                let _running = running;
                apply(owner, secrets).await
            }
        };
        builder().handler(handler).build()
    };
    let first = cluster.run([start("a")?]).await?;
    let second = cluster.run([start("b")?]).await?;
    tokio::time::sleep(SETTLE).await;
    let before = secrets(&cluster).await?;
    assert_eq!(before.len(), 32);
    let count = notes.count();
    let third = cluster.run([start("c")?]).await?;
    tokio::time::sleep(SETTLE).await;
    first.kill().await;
    tokio::time::sleep(SETTLE).await;
    second.stop().await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!(secrets(&cluster).await?, before);
    let calls = notes.calls().split_off(count);
    assert!(calls.iter().all(|call| call.reasons == "shard"), "{calls:?}");
    // The last owner watches all of them.
    for secret in before.values() {
        cluster.delete(secret).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let after = secrets(&cluster).await?;
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(after.iter().all(|(name, secret)| secret.uid() != before[name].uid()));
    notes.stop_and_check([third]).await
}

#[kooper::test(start_paused = true)]
async fn a_child_whose_label_another_client_changes_gets_it_back(cluster: Cluster) -> Result<()> {
    create(&cluster, 8).await?;
    let first = cluster.run([builder().handler(apply).build()?]).await?;
    let second = cluster.run([builder().handler(apply).build()?]).await?;
    tokio::time::sleep(SETTLE).await;
    let before = secrets(&cluster).await?;
    let uids = |secrets: &BTreeMap<String, Secret>| -> Vec<_> {
        secrets.values().map(|secret| (secret.uid(), secret.labels().clone())).collect()
    };
    // Each has no bucket for a moment, or that of another owner.
    let first_bucket = &before.values().next().ok_or("there are children")?.labels()["kooper.rs/bucket"];
    for bucket in [json!(null), json!(first_bucket)] {
        for secret in before.values() {
            cluster.patch(secret, json!({"metadata": {"labels": {"kooper.rs/bucket": bucket}}})).await?;
        }
        tokio::time::sleep(SETTLE).await;
        assert_eq!(uids(&secrets(&cluster).await?), uids(&before), "{bucket}");
    }
    first.stop().await?;
    second.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_of_another_owner_in_another_replica_is_not_changed(cluster: Cluster) -> Result<()> {
    create(&cluster, 16).await?;
    let notes = Notes::default();
    let start = || {
        let notes = notes.clone();
        let handler = move |owner: Arc<ConfigMap>, secrets: OwnedApplier<Secret>, call: Call| {
            let notes = notes.clone();
            async move {
                let mut contested = child(&owner);
                contested.metadata.name = Some("only-one".to_owned());
                let applied = secrets.apply_owned(&*owner, &contested).await;
                drop(notes.begin(if applied.is_ok() { "has it" } else { "waits" }, &call));
                applied.map(drop)
            }
        };
        builder().handler(handler).build()
    };
    let (first, second) = (cluster.run([start()?]).await?, cluster.run([start()?]).await?);
    tokio::time::sleep(SETTLE).await;
    let holder = |calls: &[Noted]| {
        calls.iter().filter(|call| call.who == "has it").map(|call| call.object.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(holder(&notes.calls()).len(), 1);
    // Its next owner may be another replica.
    let known = notes.count();
    for secret in secrets(&cluster).await?.values() {
        cluster.delete(secret).await?;
    }
    tokio::time::sleep(SETTLE).await;
    assert_eq!(holder(&notes.calls().split_off(known)).len(), 1);
    assert_eq!(secrets(&cluster).await?.len(), 1);
    first.stop().await?;
    second.stop().await
}

#[kooper::test(start_paused = true)]
async fn declared_children_are_shared_and_so_are_those_of_a_namespace(cluster: Cluster) -> Result<()> {
    create(&cluster, 24).await?;
    let share = |by_namespace: bool, queries: Queries| {
        let children = declare().child(child).build()?;
        let builder = if by_namespace { builder().shards_by_namespace(Shards::new(32)) } else { builder() };
        let controller = builder.handler(children.handler(async || {})).build()?;
        Ok::<_, kooper::BoxError>(replica(&cluster, controller, &queries))
    };
    for by_namespace in [false, true] {
        let queries = Queries::default();
        let replicas = [share(by_namespace, queries.clone())?, share(by_namespace, queries.clone())?];
        eventually("each object is in one replica", || replicas.iter().map(cached).sum::<usize>() == 48).await;
        tokio::time::sleep(SETTLE).await;
        assert_eq!(replicas.iter().map(cached).sum::<usize>(), 48);
        // The label is the bucket of a uid. At first, the map may still be by uid.
        let is_narrow = queries.lock().last().is_some_and(|query| query.contains("bucket"));
        assert_eq!(is_narrow, !by_namespace);
        for replica in replicas {
            replica.stop().await.map_err(|error| error.to_string())?;
        }
        tokio::time::sleep(SETTLE).await;
    }
    Ok(())
}
