//! Owners and their children, which are put into the storage of the API server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kooper_bench::document::{name, namespace, stored};
use kooper_bench::{Api, Etcd, Kind};
use kooper_sharding::{BUCKET, bucket_of_owner};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::interval;

use crate::now;

/// Requests under way at a time.
const CONNECTIONS: usize = 32;

/// Changes come in steps of this prime: scattered, and no object twice before all had their turn.
const STEP: usize = 7_919;

/// Of namespaces of different sizes, the largest one has so many times as many objects as the smallest one.
const LARGEST: f64 = 100.0;

/// Their mean size.
const MEAN: usize = 20;

/// The label of owners that says which group they are of.
const GROUP: &str = "group";

/// The number of groups, of which parts consist: halves, thirds and quarters have as many of them.
const GROUPS: usize = 12;

/// The label selector of one of so many parts of the owners.
pub(crate) fn part(count: usize) -> String {
    let groups = (0..GROUPS / count).map(|group| group.to_string()).collect::<Vec<_>>();
    format!("{GROUP} in ({})", groups.join(","))
}

fn is_in_part(index: usize, count: usize) -> bool {
    index % GROUPS < GROUPS / count
}

/// The number of owners in one of so many parts.
pub(crate) fn in_part(owners: usize, count: usize) -> usize {
    (0..owners).filter(|index| is_in_part(*index, count)).count()
}

#[derive(Clone)]
pub(crate) struct Objects {
    etcd: Arc<Etcd>,
    owners: usize,
    /// They are in many namespaces of different sizes, instead of a few of one size.
    are_uneven: bool,
}

impl Objects {
    /// Creates so many owners, and a child of each.
    pub(crate) async fn create(client: Client, etcd: Etcd, owners: usize, are_uneven: bool) -> Result<Self> {
        Api::prepare(client, Kind::Crs).await?;
        let objects = Self { etcd: Arc::new(etcd), owners, are_uneven };
        let create = |index| objects.put(index, 0, true);
        stream::iter(0..owners).map(create).buffer_unordered(CONNECTIONS).try_collect::<()>().await?;
        Ok(objects)
    }

    pub(crate) fn owners(&self) -> usize {
        self.owners
    }

    /// Changes so many owners, at so many a second.
    pub(crate) async fn change(&self, count: usize, rate: u32) -> Result<()> {
        let mut ticks = interval(Duration::from_secs(1) / rate);
        for turn in 0..count {
            ticks.tick().await;
            self.put(self.changed(turn), now(), false).await?;
        }
        Ok(())
    }

    /// The owner of a change.
    fn changed(&self, turn: usize) -> usize {
        turn.wrapping_mul(STEP) % self.owners
    }

    /// The number of changes in one of so many parts.
    pub(crate) fn changes_in_part(&self, changes: usize, count: usize) -> usize {
        (0..changes).filter(|turn| is_in_part(self.changed(*turn), count)).count()
    }

    /// Changes an object of each shard in each period, until it is dropped.
    pub(crate) fn keep_changing(
        &self,
        shards: usize,
        period: Duration,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let shard = |index: &usize| {
            let owner = stored(&json!({}), Kind::Crs, *index, 0, 0);
            let bucket = bucket_of_owner(owner["metadata"]["uid"].as_str().unwrap_or_default());
            usize::from_str_radix(&bucket, 16).unwrap_or_default() * shards / 256
        };
        let probes: Vec<usize> =
            (0..shards).filter_map(|wanted| (0..self.owners).find(|index| shard(index) == wanted)).collect();
        let objects = self.clone();
        async move {
            let mut ticks = interval(period / shards as u32);
            for turn in 0.. {
                ticks.tick().await;
                objects.put(probes[turn % probes.len()], now(), false).await?;
            }
            Ok(())
        }
    }

    fn namespace(&self, index: usize) -> String {
        if !self.are_uneven {
            return namespace(index);
        }
        // The sizes are spread evenly over their logarithms.
        let part = (1.0 + (LARGEST - 1.0) * (index as f64 + 0.5) / self.owners as f64).ln() / LARGEST.ln();
        format!("tenant-{}", (part * (self.owners / MEAN) as f64) as usize)
    }

    async fn put(&self, index: usize, sent: u64, with_child: bool) -> Result<()> {
        let mut owner = stored(&json!({}), Kind::Crs, index, 0, sent);
        let (name, namespace) = (name(index), self.namespace(index));
        owner["metadata"]["namespace"] = json!(namespace);
        owner["metadata"]["labels"][GROUP] = json!((index % GROUPS).to_string());
        self.etcd.put(&format!("/registry/bench.kooper.dev/widgets/{namespace}/{name}"), &owner).await?;
        if with_child {
            self.etcd.put(&format!("/registry/configmaps/{namespace}/{name}"), &child(&owner)).await?;
        }
        Ok(())
    }
}

/// A ConfigMap as a controller with shards has applied it.
fn child(owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    let uid = metadata["uid"].as_str().unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"],
            "uid": format!("c{}", uid.get(1..).unwrap_or_default()),
            "creationTimestamp": metadata["creationTimestamp"],
            "labels": {BUCKET: bucket_of_owner(uid), "app.kubernetes.io/name": metadata["labels"]["app.kubernetes.io/name"]},
            "ownerReferences": [{"apiVersion": "bench.kooper.dev/v1", "kind": "Widget", "name": metadata["name"], "uid": uid,
                "controller": true, "blockOwnerDeletion": true}],
        },
        "data": {"image": owner["spec"]["image"], "settings": owner["spec"]["settings"].to_string()},
    })
}
