//! Networks and servers that fail while there is a leader.

use std::time::Duration;

use kooper::Controller;
use kooper::leader::LeaderElection;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::faults::Proxy;

use super::replica::{Replica, assert_one_at_a_time, cluster, prepare, wait_for, wait_for_many, writer};
use crate::fixture::Log;
use crate::live::connection;

/// A leader that connects through a proxy, and a standby that connects directly.
fn two(cluster: &ControlPlane, namespace: &str, log: &Log) -> (Proxy, Replica, Replica) {
    let proxy = Proxy::start(cluster.address());
    let config = connection(cluster.kubeconfig(), Some(proxy.address()));
    let first = Replica::start(config, [writer("writer", namespace, "first", log).build().unwrap()]);
    wait_for(log, "first wrote");
    let second = Replica::on(cluster, writer("writer", namespace, "second", log));
    second.wait_for_ready(true, &["standby: "]);
    (proxy, first, second)
}

#[test]
fn a_leader_that_is_cut_off_stops_before_another_begins_and_becomes_a_candidate_again() {
    let namespace = "leader-partition";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let (proxy, first, second) = two(cluster, namespace, &log);

    proxy.shut();
    wait_for(&log, "second wrote");
    assert!(!first.leads("shop-writer"));
    let lines = log.lines();
    // A request after its term is not sent.
    let after = lines.iter().skip_while(|line| *line != "first ends").find(|line| line.starts_with("first failed"));
    assert!(after.is_some_and(|line| line.contains("was not sent: this process is not the leader")), "{lines:?}");

    proxy.open();
    first.wait_for_ready(true, &["standby: the lease is held by "]);
    second.stop();
    wait_for_many(&log, 2, "first begins: leader");
    wait_for(&log, "first wrote");
    first.wait_until_leads("shop-writer");
    first.stop();
    assert_one_at_a_time(&log, &["first", "second", "first"]);
}

#[test]
fn a_leader_that_receives_no_responses_stops_although_its_renewals_arrive() {
    let namespace = "leader-no-answers";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let (proxy, first, second) = two(cluster, namespace, &log);
    proxy.hold_answers();
    first.wait_until_lost("shop-writer");
    wait_for(&log, "first ends");
    // Its requests may still arrive, so the connection is cut before the other replica writes.
    proxy.shut();
    wait_for(&log, "second wrote");
    second.stop();
    proxy.open();
    wait_for_many(&log, 2, "first begins: leader");
    first.stop();
    assert_one_at_a_time(&log, &["first", "second", "first"]);
}

#[test]
fn a_slow_server_does_not_change_the_leader() {
    let namespace = "leader-slow";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let (proxy, first, second) = two(cluster, namespace, &log);
    proxy.delay_answers(Duration::from_millis(200));
    // Twice as long as the lease lasts.
    let renewals = "kooper_lease_renew_duration_seconds_count{controller=\"writer\"}";
    let before = first.metric(renewals);
    kooper_tests::wait::eventually("it renews", || first.metric(renewals) >= before + 6.0);
    assert!(first.leads("shop-writer") && !second.leads("shop-writer"));
    first.stop();
    wait_for(&log, "second wrote");
    second.stop();
    assert_one_at_a_time(&log, &["first", "second"]);
}

#[test]
fn a_long_lease_survives_a_restart_of_the_server_and_controllers_do_not_affect_each_other() {
    let namespace = "leader-restart";
    let Some(cluster) = ControlPlane::exclusive() else { return };
    prepare(&cluster, namespace);
    let (short, long) = (Log::default(), Log::default());
    let patient = LeaderElection::new()
        .namespace(namespace)
        .lease_duration(Duration::from_secs(300))
        .renew_deadline(Duration::from_secs(200))
        .retry_period(Duration::from_secs(1));
    let controllers: [Controller; 2] = [
        writer("short", namespace, "short", &short).build().unwrap(),
        writer("long", namespace, "long", &long).leader_election(patient).build().unwrap(),
    ];
    let replica = Replica::start(connection(cluster.kubeconfig(), None), controllers);
    wait_for(&short, "short wrote");
    wait_for(&long, "long wrote");

    cluster.kill_apiserver();
    replica.wait_until_lost("shop-short");
    wait_for(&short, "short ends");
    assert!(replica.leads("shop-long"), "its lease has not expired");
    cluster.start_apiserver();
    wait_for_many(&short, 2, "short begins: leader");
    replica.wait_until_leads("shop-short");

    // The other controller was the leader all the time.
    assert!(replica.leads("shop-long"));
    let lines = long.lines();
    assert_eq!(lines.iter().filter(|line| line.starts_with("long begins")).count(), 1, "{lines:?}");
    assert!(!lines.iter().any(|line| line == "long ends"), "{lines:?}");
    assert_eq!(replica.metric("kooper_leader_transitions_total{controller=\"long\"}"), 1.0);
    assert_eq!(replica.metric("kooper_leader_transitions_total{controller=\"short\"}"), 2.0);
    replica.stop();
}

#[test]
fn editing_the_lease_by_hand_never_leads_to_two_leaders() {
    let namespace = "leader-hand";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let lease = ["-n", namespace, "patch", "lease", "shop-writer", "--type=merge", "--patch"];
    let first = Replica::on(cluster, writer("writer", namespace, "first", &log));
    wait_for(&log, "first wrote");
    let second = Replica::on(cluster, writer("writer", namespace, "second", &log));
    second.wait_for_ready(true, &["standby: "]);
    let terms = || log.lines().iter().filter(|line| line.contains(" begins")).count();

    for (round, edit) in [r#"{"spec":{"holderIdentity":""}}"#, r#"{"spec":{"holderIdentity":"somebody"}}"#, "delete"]
        .into_iter()
        .enumerate()
    {
        if edit == "delete" {
            cluster.must(&["-n", namespace, "delete", "lease", "shop-writer"]);
        } else {
            cluster.must(&[&lease[..], &[edit]].concat());
        }
        let ends = || log.lines().iter().filter(|line| line.ends_with(" ends")).count();
        kooper_tests::wait::eventually("the leader stops", || ends() > round);
        kooper_tests::wait::eventually("there is a leader again", || terms() > round + 1);
    }
    drop((first, second));
    let begun: Vec<String> = log.lines().into_iter().filter(|line| line.contains(" begins")).collect();
    let ends = log.lines().iter().filter(|line| line.ends_with(" ends")).count();
    assert!(ends + 1 >= begun.len(), "each term begins after the one before has ended: {:?}", log.lines());
    // No term begins between the beginning and the end of another.
    let mut working = false;
    for line in log.lines().iter().filter(|line| line.contains(" begins") || line.ends_with(" ends")) {
        assert_ne!(working, line.contains(" begins"), "{:?}", log.lines());
        working = !working;
    }
}
