//! A controller that moves from leader election to shards, and back, while its calls take a second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::controller::Builder;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper::testing::Cluster;
use parking_lot::Mutex;

use super::replicas::{Notes, SETTLE, create, permit_everything};
use crate::fixture::eventually;

const OBJECTS: usize = 16;

/// The objects that each version works on, again and again. At almost any time each of them is in a call.
#[derive(Clone, Default)]
struct Work {
    notes: Notes,
    begun: Arc<Mutex<BTreeMap<&'static str, BTreeSet<String>>>>,
}

impl Work {
    /// The number of objects that this version has worked on since the last call of [`forget`](Self::forget).
    fn of(&self, version: &str) -> usize {
        self.begun.lock().get(version).map_or(0, BTreeSet::len)
    }

    fn forget(&self) {
        self.begun.lock().clear();
    }

    /// Waits until these versions have worked on all objects, and checks that no other one has, from now on.
    async fn is_done_by(&self, versions: &[&'static str]) {
        tokio::time::sleep(SETTLE).await;
        self.forget();
        tokio::time::sleep(SETTLE).await;
        let begun = self.begun.lock().clone();
        assert_eq!(begun.keys().copied().collect::<Vec<_>>(), versions, "{begun:?}");
        assert_eq!(begun.values().map(BTreeSet::len).sum::<usize>(), OBJECTS, "{begun:?}");
    }

    fn version(
        &self,
        version: &'static str,
        share: impl FnOnce(Builder<ConfigMap>) -> Builder<ConfigMap>,
    ) -> Result<Controller> {
        let work = self.clone();
        let builder = share(Controller::builder::<ConfigMap>("moves").labels("app=shop").resync(None));
        let handler = move |call: Call| {
            let object = call.key().to_string();
            work.begun.lock().entry(version).or_default().insert(object.clone());
            let running = work.notes.hold(version, object);
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(running);
                Action::requeue_after(Duration::from_millis(20))
            }
        };
        Ok(builder.workers(OBJECTS).handler(handler).build()?)
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
    let work = Work::default();
    create(&cluster, OBJECTS).await?;
    let elected = |builder: Builder<ConfigMap>| builder.leader_election(LeaderElection::new().lease("pantry"));
    let shared = |builder: Builder<ConfigMap>| builder.shards(Shards::new(16).lease("pantry"));
    let leader = cluster.run([work.version("leader", elected)?]).await?;
    eventually("the leader handles all", || work.of("leader") == OBJECTS).await;
    let first = cluster.run([work.version("first", shared)?]).await?;
    let second = cluster.run([work.version("second", shared)?]).await?;
    work.is_done_by(&["leader"]).await;
    leader.stop().await?;
    work.is_done_by(&["first", "second"]).await;
    let leases: Vec<Lease> = cluster.list().await?;
    let names: Vec<_> = leases.iter().map(ResourceExt::name_any).collect();
    assert!(names.iter().all(|name| name == "pantry" || name.starts_with("pantry--")), "{names:?}");
    work.notes.stop_and_check([first, second]).await
}

#[kooper::test(start_paused = true)]
async fn a_controller_moves_from_leader_election_to_shards_and_back_with_no_two_versions_at_work(
    cluster: Cluster,
) -> Result<()> {
    let work = Work::default();
    create(&cluster, OBJECTS).await?;
    permit_everything(&cluster).await?;
    let leader = cluster.run([work.elected("leader")?]).await?;
    let standby = cluster.run([work.elected("standby")?]).await?;
    eventually("the leader handles all", || work.of("leader") == OBJECTS).await;

    // A roll-out: the new replicas are ready while the old ones run, and both wait for the leader.
    let [first, second] = [cluster.run([work.shared("first")?]).await?, cluster.run([work.shared("second")?]).await?];
    work.is_done_by(&["leader"]).await;
    // It stops in order, and the standby and the new replicas want its Lease at the same time.
    leader.stop().await?;
    work.is_done_by(&["standby"]).await;
    standby.kill().await;
    work.is_done_by(&["first", "second"]).await;

    // A rollback: the old replica is ready, and waits until the last one of the new replicas has stopped in order.
    let early = cluster.run([work.elected("early")?]).await?;
    work.is_done_by(&["first", "second"]).await;
    first.stop().await?;
    work.is_done_by(&["second"]).await;
    work.forget();
    second.stop().await?;
    let goes_on = eventually("the old replica handles all", || work.of("early") == OBJECTS);
    tokio::time::timeout(Duration::from_secs(2), goes_on).await?;
    work.is_done_by(&["early"]).await;

    // To shards once more, and back with replicas that stop at the same time.
    let [third, fourth] = [cluster.run([work.shared("third")?]).await?, cluster.run([work.shared("fourth")?]).await?];
    work.is_done_by(&["early"]).await;
    early.stop().await?;
    work.is_done_by(&["fourth", "third"]).await;
    let next = cluster.run([work.elected("next")?]).await?;
    let (stopped, also) = tokio::join!(third.stop(), fourth.stop());
    stopped.and(also)?;
    work.is_done_by(&["next"]).await;
    next.stop().await?;

    // As the guide says it, after a crash of all of them.
    let lost = cluster.run([work.shared("lost")?]).await?;
    work.is_done_by(&["lost"]).await;
    lost.kill().await;
    let leases: Vec<Lease> = cluster.list().await?;
    let map = leases.iter().find(|lease| lease.name_any().ends_with("-moves")).ok_or("there is a map")?;
    cluster.delete(map).await?;
    let back = cluster.run([work.elected("back")?]).await?;
    work.is_done_by(&["back"]).await;
    work.notes.stop_and_check([back]).await
}
