//! Controllers that note who handles what, as if each replica were a separate process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::{self, Cluster};
use kooper::{Controller, Shard};
use kooper_runtime::internal::client::{RequestLayer, from_fn};
use kooper_runtime::internal::leader::new_identity;
use kooper_runtime::internal::watch::retriever::fnv1a;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::fixture::{self, eventually, run_edited, with_name};

/// The most time for replicas to agree, and for calls after that.
pub(super) const SETTLE: Duration = Duration::from_secs(120);

/// A call of one object by one replica.
#[derive(Debug, Clone)]
pub(super) struct Noted {
    pub(super) who: &'static str,
    pub(super) object: String,
    pub(super) shard: Shard,
    pub(super) reasons: String,
}

/// Who handles which object, by the notes of all replicas.
#[derive(Clone, Default)]
pub(super) struct Notes {
    calls: Arc<Mutex<Vec<Noted>>>,
    /// The replica whose call of an object runs.
    running: Arc<Mutex<BTreeMap<String, &'static str>>>,
    overlaps: Arc<Mutex<Vec<String>>>,
}

/// A call that runs, until it is dropped.
pub(super) struct Running {
    notes: Notes,
    object: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.notes.running.lock().remove(&self.object);
    }
}

impl Notes {
    pub(super) fn begin(&self, who: &'static str, call: &Call) -> Running {
        let (object, shard) = (call.key().to_string(), call.shard().expect("the controller has shards"));
        let running = self.hold(who, object.clone());
        self.calls.lock().push(Noted { who, object, shard, reasons: call.reasons().to_string() });
        running
    }

    /// Notes that a replica works on an object, also without shards.
    pub(super) fn hold(&self, who: &'static str, object: String) -> Running {
        if let Some(other) = self.running.lock().insert(object.clone(), who) {
            self.overlaps.lock().push(format!("{object}: {who} begins while {other} works"));
        }
        Running { notes: self.clone(), object }
    }

    pub(super) fn calls(&self) -> Vec<Noted> {
        self.calls.lock().clone()
    }

    pub(super) fn count(&self) -> usize {
        self.calls.lock().len()
    }

    /// The number of objects whose calls run.
    pub(super) fn running(&self) -> usize {
        self.running.lock().len()
    }

    /// Who was called for each object since that many calls.
    pub(super) fn since(&self, count: usize) -> BTreeMap<String, BTreeSet<&'static str>> {
        let mut handled: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
        for call in self.calls().split_off(count) {
            handled.entry(call.object).or_default().insert(call.who);
        }
        handled
    }

    /// Each owner has handled an object of its shard once, because of the shard.
    pub(super) fn check_that_nothing_else_has_happened(&self) {
        let mut calls: BTreeMap<(String, u64), usize> = BTreeMap::new();
        for call in self.calls() {
            assert_eq!(call.reasons, "shard", "{call:?}");
            *calls.entry((call.object, call.shard.term)).or_default() += 1;
        }
        calls.retain(|_, count| *count != 1);
        assert!(calls.is_empty(), "{calls:?}");
    }

    /// Terms never go back, and no object was in two hands.
    pub(super) fn check(&self) {
        assert_eq!(*self.overlaps.lock(), Vec::<String>::new());
        let mut terms: BTreeMap<String, u64> = BTreeMap::new();
        for call in self.calls() {
            let last = terms.insert(call.object.clone(), call.shard.term).unwrap_or_default();
            assert!(last <= call.shard.term, "{call:?} after term {last}");
        }
    }

    /// Stops the last replicas, and checks what all have noted.
    pub(super) async fn stop_and_check(&self, last: impl IntoIterator<Item = testing::Running>) -> Result<()> {
        for replica in last {
            replica.stop().await?;
        }
        self.check();
        Ok(())
    }
}

/// A controller of ConfigMaps with the label `app=shop`, whose calls take a moment.
pub(super) fn noting(who: &'static str, notes: &Notes) -> Builder<ConfigMap> {
    noting_by(who, notes, |builder| builder.shards(Shards::new(16)))
}

pub(super) fn noting_by(
    who: &'static str,
    notes: &Notes,
    share: impl FnOnce(Builder<ConfigMap>) -> Builder<ConfigMap>,
) -> Builder<ConfigMap> {
    let notes = notes.clone();
    share(Controller::builder::<ConfigMap>("notes").labels("app=shop").resync(None)).handler(move |call: Call| {
        let running = notes.begin(who, &call);
        async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            drop(running);
        }
    })
}

/// Each request with this in its path meets an obstacle, while it is there.
pub(super) fn obstructed<F>(part: &'static str, is_there: &Arc<AtomicBool>, obstacle: fn() -> F) -> RequestLayer
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let is_there = is_there.clone();
    from_fn(move |request, next| {
        let is_there = is_there.clone();
        async move {
            if is_there.load(Ordering::SeqCst) && request.uri().path().contains(part) {
                obstacle().await?;
            }
            next.oneshot(request).await
        }
    })
}

/// Each request with this in its path fails, while it does.
pub(super) fn failing(part: &'static str, fails: &Arc<AtomicBool>) -> RequestLayer {
    obstructed(part, fails, || std::future::ready(Err("no connection".into())))
}

/// A replica whose requests pass this layer.
pub(super) fn replica(cluster: &Cluster, controller: Controller, layer: RequestLayer) -> fixture::Running {
    replica_of(cluster, [controller], layer)
}

pub(super) fn replica_of(
    cluster: &Cluster,
    controllers: impl IntoIterator<Item = Controller>,
    layer: RequestLayer,
) -> fixture::Running {
    run_edited(Some(cluster.client()), controllers, |builder| {
        builder.program("shop").lease_namespace(cluster.namespace()).identity(new_identity()).client_layer(layer)
    })
}

/// A metric of its controller; 0 before the first value.
pub(super) fn metric(replica: &fixture::Running, name: &str) -> f64 {
    replica.metric(&format!(r#"{name}{{controller="notes"}}"#)).unwrap_or_default()
}

pub(super) fn named(namespace: &str, name: &str) -> ConfigMap {
    let mut config: ConfigMap = with_name(name);
    config.metadata.namespace = Some(namespace.to_owned());
    config.metadata.labels = Some([("app".to_owned(), "shop".to_owned())].into());
    config
}

/// Permits everything: otherwise the role of controllers that start would replace that of those that run.
pub(super) async fn permit_everything(cluster: &Cluster) -> Result<()> {
    let everything: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "test", "namespace": cluster.namespace()}],
    }))?;
    cluster.create(&everything).await?;
    Ok(())
}

/// The Lease with the map, and the identities of the replicas that have a session.
pub(super) async fn map_and_identities(cluster: &Cluster) -> Result<(Lease, Vec<String>)> {
    let is_map = |lease: &Lease| lease.annotations().contains_key("kooper.rs/shards");
    let (maps, sessions): (Vec<_>, Vec<_>) = cluster.list::<Lease>().await?.into_iter().partition(is_map);
    let holder = |lease: Lease| lease.spec?.holder_identity.filter(|holder| !holder.is_empty());
    let map = maps.into_iter().next().ok_or("there is no map")?;
    Ok((map, sessions.into_iter().filter_map(holder).collect()))
}

/// Writes requests of a person as the command `shards` does; null removes them.
pub(super) async fn override_plan(cluster: &Cluster, map: &Lease, overrides: Value) -> Result<()> {
    cluster.patch(map, json!({"metadata": {"annotations": {"kooper.rs/shards-overrides": overrides}}})).await?;
    Ok(())
}

/// Creates that many objects.
pub(super) async fn create(cluster: &Cluster, count: usize) -> Result<Vec<ConfigMap>> {
    let mut created = Vec::new();
    for number in 0..count {
        created.push(cluster.create(&named(cluster.namespace(), &format!("config-{number}"))).await?);
    }
    Ok(created)
}

/// Creates that many objects in each of 16 shards, which their random uids decide.
pub(super) async fn create_in_each_shard(cluster: &Cluster, count: usize) -> Result<Vec<ConfigMap>> {
    let mut shards: BTreeMap<u8, Vec<ConfigMap>> = (0..16).map(|shard| (shard, Vec::new())).collect();
    for number in 0.. {
        let object = cluster.create(&named(cluster.namespace(), &format!("config-{number}"))).await?;
        let uid = object.uid().ok_or("an object has a uid")?;
        // A shard is a run of the 256 buckets, and the first byte of the hash is the bucket.
        let created = shards.entry(fnv1a(uid.as_bytes()).to_be_bytes()[0] / 16).or_default();
        if created.len() == count {
            cluster.delete(&object).await?;
            continue;
        }
        created.push(object);
        if shards.values().all(|created| created.len() == count) {
            break;
        }
    }
    Ok(shards.into_values().flatten().collect())
}

/// Changes all objects, and returns who handled each of them.
pub(super) async fn touch(
    cluster: &Cluster,
    objects: &[ConfigMap],
    value: &str,
    notes: &Notes,
) -> Result<BTreeMap<String, BTreeSet<&'static str>>> {
    let before = notes.count();
    for object in objects {
        cluster.patch(object, json!({"data": {"value": value}})).await?;
    }
    eventually("each object is handled again", || notes.since(before).len() == objects.len()).await;
    // Whoever else would be called has been by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(notes.since(before))
}

/// The number of objects that each replica handles; each must be handled by one alone.
pub(super) fn spread(handled: &BTreeMap<String, BTreeSet<&'static str>>) -> BTreeMap<&'static str, usize> {
    let mut spread = BTreeMap::new();
    for (object, by) in handled {
        assert_eq!(by.len(), 1, "{object} is handled by {by:?}");
        by.iter().for_each(|who| *spread.entry(*who).or_default() += 1);
    }
    spread
}
