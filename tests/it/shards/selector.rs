//! An API server with shard selectors: each process receives only the objects of its shards.
#![cfg(target_os = "linux")]

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::eventually;

use super::processes::fleet::{Fleet, Replica, wait_for_balance};
use super::processes::journal::Unit;

/// Kubernetes 1.36 has them as an alpha feature.
const OPTIONS: [&str; 3] = ["--without-controller-manager", "--feature-gates", "ShardedListAndWatch=true"];

/// The number of watches in which the selector has this effect.
fn selectors(replica: &Replica, state: &str) -> f64 {
    let series = format!(r#"kooper_shard_selector{{controller="shared",state="{state}"}}"#);
    replica.process.metric(&series).expect("the metric exists from the start")
}

/// The objects of other processes that it has received.
fn dropped(replica: &Replica) -> f64 {
    replica.process.metric(r#"kooper_shard_objects_dropped_total{controller="shared"}"#).unwrap_or_default()
}

#[test]
fn with_shard_selectors_a_process_receives_only_the_objects_of_its_shards_and_handles_each_of_them() {
    let Some(cluster) = ControlPlane::start_with(&OPTIONS) else { return };
    let fleet = Fleet::new(&cluster, "shards-selector", &[("shards-selector".to_owned(), 96)]);
    let first = fleet.start("first");
    wait_for_balance(&[&first]);
    fleet.change_all("created");

    let second = fleet.start("second");
    wait_for_balance(&[&first, &second]);
    fleet.wait_for_parts(&[&first, &second]);
    let before = dropped(&first);
    fleet.change_all("shared");
    eventually("the selector is applied", || selectors(&second, "applied") == 1.0);
    assert_eq!((dropped(&second), selectors(&second, "ignored")), (0.0, 0.0));
    // The watch of the first process was one of all objects.
    assert_eq!(dropped(&first), before);

    // It gains the shards of a process that stops, and requests their objects, too.
    first.stop();
    wait_for_balance(&[&second]);
    fleet.change_all("alone");
    assert_eq!(selectors(&second, "applied"), 0.0, "no selector is sent for all objects");
    assert_eq!(dropped(&second), 0.0);
    second.stop();
    fleet.journal.check(Unit::Object);
}
