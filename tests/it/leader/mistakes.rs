//! Configuration mistakes, and how they are reported.

use k8s_openapi::api::core::v1::ConfigMap;
use kooper_tests::control_plane::ControlPlane;
use serde_json::{Value, json};

use super::replica::{Replica, cluster, quick, wait_for, writer};
use crate::fixture::Log;
use crate::live::{connection, grant, role};

/// Grants the user `limited` these verbs on the Lease `shop-writer`, and `patch` on ConfigMaps.
fn leases(namespace: &str, verbs: &[&str]) -> [Value; 2] {
    let rules = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["shop-writer"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}
    ]);
    role("limited", Some(namespace), "election", &rules)
}

fn limited(cluster: &ControlPlane, controller: kooper::controller::Builder<ConfigMap>) -> Replica {
    Replica::start(connection(cluster.limited_kubeconfig(), None), [controller.build().unwrap()])
}

#[test]
fn a_missing_rule_is_named_and_the_four_verbs_on_one_lease_are_enough() {
    let namespace = "leader-rules";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    cluster.apply(grant(namespace, "", "configmaps"));
    let first = limited(cluster, writer("writer", namespace, "first", &log));
    let advice = "grant the rule \"coordination.k8s.io/leases: create, get, update, watch\" with resourceNames `shop-writer` in \
                  namespace `leader-rules`";
    first.wait_for_ready(false, &["writer: cannot get the Lease leader-rules/shop-writer", advice]);
    // Grant the verbs step by step: after each step, the next one is missing.
    cluster.apply(leases(namespace, &["get"]));
    first.wait_for_ready(false, &["cannot create the Lease", advice]);
    cluster.apply(leases(namespace, &["get", "create", "update"]));
    wait_for(&log, "first wrote");
    first.wait_for_ready(true, &["ok"]);
    let second = limited(cluster, writer("writer", namespace, "second", &log));
    second.wait_for_ready(true, &["standby: ", "cannot watch the Lease", advice, "is polled"]);
    cluster.apply(leases(namespace, &["get", "create", "update", "watch"]));
    first.stop();
    wait_for(&log, "second wrote");
    second.stop();
}

#[test]
fn a_lease_of_another_program_is_never_acquired_and_both_are_named() {
    let namespace = "leader-two-programs";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let one = |program: &str, who: &'static str| {
        let controller = writer("writer", namespace, who, &log).leader_election(quick(namespace).lease("both"));
        let config = connection(cluster.kubeconfig(), None);
        Replica::with(config, [controller.build().unwrap()], |operator, client| {
            operator.program(program).client(client)
        })
    };
    let shop = one("shop", "shop");
    wait_for(&log, "shop wrote");
    let mall = one("mall", "mall");
    let named = ["writer: the Lease leader-two-programs/both belongs to `shop/writer`", "this is `mall/writer`"];
    mall.wait_for_ready(false, &[named[0], named[1], " and is held by ", "set another `lease`, or delete the Lease"]);
    // Although it is released, it still belongs to the other controller.
    shop.stop();
    mall.wait_for_ready(false, &[named[0], named[1]]);
    assert!(!mall.leads("both"));
    assert!(!log.lines().iter().any(|line| line.starts_with("mall")), "{:?}", log.lines());
    cluster.must(&["-n", namespace, "delete", "lease", "both"]);
    wait_for(&log, "mall wrote");
    mall.wait_for_ready(true, &["ok"]);
    mall.stop();
}

#[test]
fn a_renamed_controller_waits_for_the_lease_of_its_old_name() {
    let namespace = "leader-renamed";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let old = Replica::on(cluster, writer("old", namespace, "old", &log));
    wait_for(&log, "old wrote");
    let new = Replica::on(cluster, writer("new", namespace, "new", &log).previous_names(["old"]));
    new.wait_for_ready(true, &["new: standby: the lease `shop-old` of a previous name is held by "]);
    old.stop();
    wait_for(&log, "new wrote");
    new.stop();
    super::replica::assert_one_at_a_time(&log, &["old", "new"]);
}
