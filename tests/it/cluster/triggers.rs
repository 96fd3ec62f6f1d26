//! Triggers from outside, for all objects of a controller.

use futures_util::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::controller::ReconcileAll;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::testing::Cluster;
use serde_json::{from_value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use crate::fixture::Log;

const MINUTE: Duration = Duration::from_secs(60);

/// A controller that notes its calls, as the leader, and what triggers them for all objects.
fn elected(log: &Log) -> Result<(UnboundedSender<()>, Controller)> {
    let (send, mut triggers) = unbounded_channel();
    let note = log.noting(|call: Call| format!("{}: {}", call.key().name(), call.reasons()));
    let builder = Controller::builder::<ConfigMap>("triggered").labels("app=shop").pause("example.com/pause");
    let builder = builder.leader_election(LeaderElection::new()).resync(None);
    let triggers = ReconcileAll(stream::poll_fn(move |context| triggers.poll_recv(context)));
    Ok((send, builder.source(triggers).handler(note).build()?))
}

/// The notes after the first ones, in the order of names.
fn since(log: &Log, count: usize) -> Vec<String> {
    let mut lines = log.lines().split_off(count);
    lines.sort();
    lines
}

#[kooper::test(start_paused = true)]
async fn a_trigger_for_all_is_handled_by_the_leader_alone_and_not_for_paused_objects(cluster: Cluster) -> Result<()> {
    for (name, paused) in [("a", "false"), ("b", "false"), ("c", "true")] {
        let annotations = json!({"example.com/pause": paused});
        let metadata = json!({"name": name, "labels": {"app": "shop"}, "annotations": annotations});
        cluster.create(&from_value::<ConfigMap>(json!({"metadata": metadata}))?).await?;
    }
    let (first, second) = (Log::default(), Log::default());
    let ((to_first, leader), (to_second, standby)) = (elected(&first)?, elected(&second)?);
    let leader = cluster.run([leader]).await?;
    sleep(MINUTE).await;
    let standby = cluster.run([standby]).await?;
    sleep(MINUTE).await;
    assert_eq!(first.count(), 2, "{:?}", first.lines());
    to_first.send(())?;
    to_second.send(())?;
    sleep(MINUTE).await;
    assert_eq!(since(&first, 2), ["a: external", "b: external"]);
    assert_eq!(second.count(), 0, "{:?}", second.lines());

    leader.stop().await?;
    sleep(MINUTE).await;
    assert_eq!(second.count(), 2, "{:?}", second.lines());
    to_second.send(())?;
    sleep(MINUTE).await;
    assert_eq!(since(&second, 2), ["a: external", "b: external"]);
    standby.stop().await
}
