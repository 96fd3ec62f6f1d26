//! A controller that moves from leader election to shards, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::controller::Builder;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::Cluster;
use parking_lot::Mutex;

use super::replicas::{SETTLE, create};
use crate::fixture::eventually;

/// The number of calls of each version.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<&'static str, usize>>>);

impl Calls {
    fn of(&self, version: &str) -> usize {
        self.0.lock().get(version).copied().unwrap_or_default()
    }

    fn version(
        &self,
        version: &'static str,
        share: impl FnOnce(Builder<ConfigMap>) -> Builder<ConfigMap>,
    ) -> Result<Controller> {
        let calls = self.clone();
        let builder = share(Controller::builder::<ConfigMap>("moves").labels("app=shop").resync(None));
        let handler = move || {
            *calls.0.lock().entry(version).or_default() += 1;
            async {}
        };
        Ok(builder.handler(handler).build()?)
    }

    fn elected(&self, version: &'static str) -> Result<Controller> {
        self.version(version, |builder| builder.leader_election(LeaderElection::new()))
    }

    fn shared(&self, version: &'static str) -> Result<Controller> {
        self.version(version, |builder| builder.shards(Shards::new(16)))
    }
}

#[kooper::test(start_paused = true)]
async fn a_controller_whose_lease_was_named_moves_to_shards_with_that_lease(cluster: Cluster) -> Result<()> {
    let calls = Calls::default();
    create(&cluster, 16).await?;
    let elected = |builder: Builder<ConfigMap>| builder.leader_election(LeaderElection::new().lease("pantry"));
    let shared = |builder: Builder<ConfigMap>| builder.shards(Shards::new(16).lease("pantry"));
    let leader = cluster.run([calls.version("leader", elected)?]).await?;
    eventually("the leader handles all", || calls.of("leader") == 16).await;
    let first = cluster.run([calls.version("first", shared)?]).await?;
    let second = cluster.run([calls.version("second", shared)?]).await?;
    tokio::time::sleep(SETTLE).await;
    assert_eq!((calls.of("first"), calls.of("second")), (0, 0), "the leader still leads");
    leader.stop().await?;
    eventually("two replicas share the objects", || calls.of("first") > 0 && calls.of("second") > 0).await;
    let leases: Vec<Lease> = cluster.list().await?;
    let names: Vec<_> = leases.iter().map(ResourceExt::name_any).collect();
    assert!(names.iter().all(|name| name == "pantry" || name.starts_with("pantry--")), "{names:?}");
    first.stop().await?;
    second.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_controller_moves_from_leader_election_to_shards_and_back_with_no_two_versions_at_work(
    cluster: Cluster,
) -> Result<()> {
    let calls = Calls::default();
    create(&cluster, 16).await?;
    let leader = cluster.run([calls.elected("leader")?]).await?;
    eventually("the leader handles all", || calls.of("leader") == 16).await;

    let [first, second] = [cluster.run([calls.shared("first")?]).await?, cluster.run([calls.shared("second")?]).await?];
    tokio::time::sleep(SETTLE).await;
    assert_eq!((calls.of("first"), calls.of("second")), (0, 0), "the leader still leads");
    leader.stop().await?;
    eventually("two replicas share the objects", || calls.of("first") > 0 && calls.of("second") > 0).await;
    tokio::time::sleep(SETTLE).await;

    // As the guide says it, also after a crash.
    first.stop().await?;
    second.kill().await;
    let leases: Vec<Lease> = cluster.list().await?;
    let map = leases.iter().find(|lease| lease.name_any().ends_with("-moves")).ok_or("there is a map")?;
    cluster.delete(map).await?;
    let back = cluster.run([calls.elected("back")?]).await?;
    eventually("the new leader handles all", || calls.of("back") == 16).await;
    back.stop().await
}
