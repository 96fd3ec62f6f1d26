//! `icecream` when a namespace is deleted, the API server restarts, or it crashes itself.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::nodes::Nodes;
use kooper_tests::wait::{eventually, until};
use serde_json::json;

use crate::icecream::{calls, get, icecream, number, ready, wait_until_served, writes};
use crate::support::{ICECREAM, cluster, start, stop};

#[test]
fn a_namespace_that_is_being_deleted_causes_no_errors() {
    let namespace = "icecream-ends";
    let Some(cluster) = cluster(namespace) else { return };
    let _nodes = Nodes::start(cluster, namespace);
    let program = start(ICECREAM, cluster, namespace, &[], &[]);
    program.wait_for_page("/readyz", 200, &[]);
    let mut kept = icecream(namespace, "kept", "kept", 1);
    kept["metadata"]["finalizers"] = json!(["example.com/kept"]);
    cluster.apply([kept, icecream(namespace, "plain", "plain", 1)]);
    wait_until_served(cluster, namespace, "kept", 1);
    wait_until_served(cluster, namespace, "plain", 1);

    cluster.must(&["delete", "namespace", namespace, "--wait=false"]);
    eventually("everything that can be deleted is deleted", || {
        ["deployment", "pod"].iter().all(|kind| number(cluster, namespace, kind) == 0)
            && number(cluster, namespace, "icecream") == 1
    });
    let resources = ["-n", namespace, "patch", "icecream", "kept", "--type=merge"];
    cluster.must(&[&resources[..], &["--patch", r#"{"metadata":{"finalizers":null}}"#]].concat());
    eventually("the namespace is deleted", || !cluster.kubectl(&["get", "namespace", namespace]).success);
    // The Deployment may be deleted before its owner is marked: one attempt is rejected, without advice about rules.
    let (errors, rules) = (program.count(&["the handler failed"]), program.count(&["grant the rule"]));
    assert!(errors <= 4 && rules == 0, "{}", program.lines().join("\n"));
    assert_eq!(errors, program.count(&["the handler failed", "is being deleted"]));
    program.wait_for_page("/readyz", 200, &[]);
    stop(program);
}

#[test]
fn an_icecream_in_a_terminating_namespace_is_neither_retried_nor_failing() {
    // Without a controller manager the objects in the namespace are not deleted.
    let Some(cluster) = ControlPlane::start_with(&["--without-controller-manager"]) else { return };
    let namespace = "icecream-stuck";
    cluster.must(&["create", "namespace", namespace]);
    let program = start(ICECREAM, &cluster, namespace, &[], &[]);
    program.wait_for_page("/readyz", 200, &[]);
    cluster.apply([icecream(namespace, "plain", "plain", 0)]);
    eventually("it is made", || get(&cluster, namespace, "deployment", "plain")["metadata"]["uid"].is_string());
    cluster.must(&["delete", "namespace", namespace, "--wait=false"]);
    cluster.must(&["-n", namespace, "delete", "deployment", "plain"]);
    eventually("the status shows it", || {
        ready(&get(&cluster, namespace, "icecream", "plain"))["reason"] == "SlotFailed"
    });
    // A retry would have come within milliseconds; the namespace causes neither failures nor Events.
    let calls = "controller_runtime_reconcile_total{controller=\"icecream\",result=\"success\"}";
    let before = program.metric(calls);
    cluster.must(&["-n", namespace, "annotate", "icecream", "plain", "a=b"]);
    program.wait_for_metric(calls, |calls| Some(calls) > before);
    let errors = program.metric("controller_runtime_reconcile_errors_total{controller=\"icecream\"}");
    assert_eq!(errors.unwrap_or_default(), 0.0);
    assert_eq!(program.count(&["the handler failed"]), 0);
    stop(program);
}

#[test]
fn after_a_restart_of_the_api_server_nothing_changes_and_drift_is_corrected() {
    let Some(cluster) = ControlPlane::start() else { return };
    let namespace = "default";
    let _nodes = Nodes::start(&cluster, namespace);
    let program = start(ICECREAM, &cluster, namespace, &[], &[]);
    program.wait_for_page("/readyz", 200, &[]);
    cluster.apply([icecream(namespace, "vanilla", "vanilla", 2)]);
    wait_until_served(&cluster, namespace, "vanilla", 2);
    for kill in [true, false] {
        if kill {
            cluster.kill_apiserver();
        } else {
            cluster.stop_apiserver();
        }
        cluster.start_apiserver();
        cluster.must(&["scale", "deployment", "vanilla", "--replicas=5"]);
        let size = || get(&cluster, namespace, "deployment", "vanilla")["spec"]["replicas"].clone();
        until("the size is corrected", || (size() == 2).then_some(()), || size().to_string());
        wait_until_served(&cluster, namespace, "vanilla", 2);
    }
    assert_eq!(number(&cluster, namespace, "deployment"), 1);
    stop(program);
}

#[test]
fn a_crash_after_any_write_leads_to_the_same_end_state() {
    let namespace = "icecream-crash";
    let Some(cluster) = cluster(namespace) else { return };
    let _nodes = Nodes::start(cluster, namespace);
    start(ICECREAM, cluster, namespace, &[], &[]).wait_for_page("/readyz", 200, &[]);
    let names = ["a", "b", "c", "d", "e", "f"];
    cluster.apply(names.map(|name| icecream(namespace, name, name, 2)));
    for more in [1, 2, 1, 3, 2, 5, 1, 4] {
        let enough = writes(cluster, namespace).len() + more;
        let program = start(ICECREAM, cluster, namespace, &[], &[]);
        // No work may remain.
        eventually("it has written, or seen all", || {
            writes(cluster, namespace).len() >= enough || calls(&program) >= names.len() as f64
        });
        // Dropping it is SIGKILL.
        drop(program);
    }
    let program = start(ICECREAM, cluster, namespace, &[], &[]);
    for name in names {
        wait_until_served(cluster, namespace, name, 2);
    }
    assert_eq!(number(cluster, namespace, "deployment"), names.len());
    assert_eq!(number(cluster, namespace, "replicaset"), names.len());
    stop(program);
}
