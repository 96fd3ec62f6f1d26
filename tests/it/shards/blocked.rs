//! Calls that block their threads while a Lease is deleted by hand, on the real API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::prelude::*;
use kooper::shards::Shards;
use kooper_runtime::internal::leader::new_identity;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::eventually;
use serde_json::{Value, json};

use super::replicas::{Notes, named};
use crate::live::{Live, connection};

const OBJECTS: usize = 16;

/// Others would have begun in this time. It is shorter than the lease, for which they wait.
const BLOCKS: Duration = Duration::from_millis(1500);

/// While `are_blocked` is set, calls do not end, even if they are cancelled.
fn start(
    cluster: &ControlPlane,
    namespace: &str,
    who: &'static str,
    (notes, are_blocked): (&Notes, &Arc<AtomicBool>),
) -> Live {
    let second = Duration::from_secs(1);
    let shards = Shards::new(16).lease_duration(3 * second).renew_deadline(2 * second).retry_period(second);
    let (notes, are_blocked) = (notes.clone(), Arc::clone(are_blocked));
    let controller =
        Controller::builder::<ConfigMap>("blocked").namespaces([namespace]).labels("app=shop").resync(None);
    let controller = controller.workers(OBJECTS).shards(shards).handler(move |call: Call| {
        let (running, are_blocked) = (notes.begin(who, &call), Arc::clone(&are_blocked));
        async move {
            while are_blocked.load(Ordering::SeqCst) {
                thread::park_timeout(Duration::from_millis(10));
            }
            drop(running);
        }
    });
    Live::start_edited(connection(cluster.kubeconfig(), None), [controller.build().unwrap()], |builder| {
        builder.program("shop").lease_namespace(namespace).identity(new_identity())
    })
}

/// Deletes a Lease while all objects are being handled by two replicas.
fn delete_while_all_are_handled(cluster: &ControlPlane, namespace: &str, is_deleted: impl Fn(&str) -> bool) {
    cluster.must(&["create", "namespace", namespace]);
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("config-{number}")).collect();
    let apply = |data: Value| {
        cluster.apply(names.iter().map(|name| {
            let mut config = serde_json::to_value(named(namespace, name)).unwrap();
            config["data"] = data.clone();
            config
        }));
    };
    apply(json!({}));
    let (notes, are_blocked) = (Notes::default(), Arc::default());
    let replicas = ["a", "b"].map(|who| start(cluster, namespace, who, (&notes, &are_blocked)));
    let share = || replicas.each_ref().map(|one| one.metric("kooper_shards_owned{controller=\"blocked\"}"));
    eventually("both work on half of the shards", || share() == [8.0, 8.0]);
    eventually("all have been handled", || notes.since(0).len() == OBJECTS && notes.running() == 0);
    let before = notes.count();
    are_blocked.store(true, Ordering::SeqCst);
    apply(json!({"changed": "yes"}));
    eventually("all are being handled", || notes.running() == OBJECTS);
    let leases = cluster.must(&["get", "leases", "--namespace", namespace, "--output=name"]);
    let lease = leases.lines().find(|lease| is_deleted(lease)).expect("there is one to delete");
    cluster.must(&["delete", "--namespace", namespace, lease]);
    thread::sleep(BLOCKS);
    are_blocked.store(false, Ordering::SeqCst);
    eventually("objects are handled again in another term", || notes.count() > before + OBJECTS);
    eventually("both work on half of the shards again", || share() == [8.0, 8.0] && notes.running() == 0);
    notes.check();
    replicas.into_iter().for_each(Live::stop);
    notes.check();
}

#[test]
fn calls_that_block_their_threads_end_before_others_begin_after_the_map_was_deleted() {
    let Some(cluster) = ControlPlane::shared() else { return };
    delete_while_all_are_handled(cluster, "shards-map-deleted", |lease| lease.ends_with("/shop-blocked"));
}

#[test]
fn calls_that_block_their_threads_end_before_others_begin_after_the_slot_of_their_replica_was_deleted() {
    let Some(cluster) = ControlPlane::shared() else { return };
    delete_while_all_are_handled(cluster, "shards-slot-deleted", |lease| lease.contains("/shop-blocked--"));
}
