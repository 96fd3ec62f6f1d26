//! `pod-terminator-operator` with nodes for the pods. It terminates them in all namespaces, so each test with pods has its
//! own control plane.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::least_role::{Installed, Subject};
use kooper_tests::nodes::Nodes;
use kooper_tests::wait::{eventually, until};
use serde_json::{Value, json};

use crate::icecream::{get, number, ready};
use crate::support::{POD_TERMINATOR, stop};

static SUBJECT: Subject<'_> =
    Subject { program: POD_TERMINATOR, namespace: "chaos", objects: Vec::new(), done: &[], lease: "", unseen: &[] };

fn terminator(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "chaos.spotahome.com/v1alpha1", "kind": "PodTerminator", "metadata": {"name": name}, "spec": spec
    })
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "example.com/none"}]}
    })
}

/// A control plane with a namespace and its node, in which this many pods run.
fn cluster(namespace: &str, pods: usize) -> Option<(ControlPlane, Nodes)> {
    let cluster = ControlPlane::start()?;
    cluster.must(&["create", "namespace", namespace]);
    cluster.must(&["-n", namespace, "wait", "--for=create", "serviceaccount/default", "--timeout=60s"]);
    let nodes = Nodes::start(&cluster, namespace);
    cluster.apply((0..pods).map(|number| pod(namespace, &format!("web-{number}"))));
    eventually("the pods run", || running(&cluster, namespace) == pods);
    Some((cluster, nodes))
}

fn running(cluster: &ControlPlane, namespace: &str) -> usize {
    let phase = "--field-selector=status.phase=Running";
    let text = cluster.must(&["-n", namespace, "get", "pods", phase, "-o=jsonpath={.items[*].metadata.name}"]);
    text.split_whitespace().count()
}

/// Returns the number of requests that list pods and the number that delete one.
fn asked(installed: &Installed<'_>) -> (usize, usize) {
    let requests = installed.requests();
    let count = |verb: &str| {
        let of = |event: &&Value| event["verb"] == verb && event["objectRef"]["resource"] == "pods";
        requests.iter().filter(of).count()
    };
    (count("list"), count("delete"))
}

/// Waits for some more periods.
fn periods(installed: &Installed<'_>, count: usize) {
    let before = asked(installed).0;
    until("some periods pass", || (asked(installed).0 >= before + count).then_some(()), || format!("{before}"));
}

#[test]
fn pods_are_terminated_down_to_the_minimum_with_only_the_printed_role() {
    let namespace = "shop";
    let Some((cluster, _nodes)) = cluster(namespace, 9) else { return };
    let installed = SUBJECT.install(&cluster);
    // These are neither counted nor deleted: one that has finished, one that is being deleted, one in the operator's
    // namespace, one of the system, and one that is not selected.
    let status = ["-n", namespace, "patch", "pod", "web-0", "--subresource=status", "--type=merge"];
    cluster.must(&[&status[..], &["--patch", r#"{"status":{"phase":"Succeeded"}}"#]].concat());
    let mut held = pod(namespace, "held");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    let mut other = pod(namespace, "other");
    other["metadata"]["labels"]["app"] = json!("db");
    cluster.apply([held, other, pod("default", "own"), pod("kube-system", "system")]);
    cluster.must(&["-n", namespace, "delete", "pod", "held", "--wait=false"]);

    let program = installed.start();
    program.wait_for_page("/readyz", 200, &[]);
    // Half of 8, 4, 2: the minimum limits the last step.
    let spec = json!({"selector": {"app": "web"}, "periodSeconds": 1, "terminationPercent": 50, "minimumInstances": 3});
    cluster.apply([terminator("web", &spec)]);
    eventually("it reports that it runs", || {
        ready(&get(&cluster, "default", "podterminator", "web"))["reason"] == "Accepted"
    });
    program.wait_for_lines(5, &["is terminated", "controller=pod-terminator-daemon key=web"]);
    periods(&installed, 3);
    assert_eq!(asked(&installed).1, 5, "{}", program.lines().join("\n"));
    // Beside these `other` runs; `held` may.
    eventually("three are left", || [4, 5].contains(&running(&cluster, namespace)));
    for (namespace, name) in [(namespace, "web-0"), (namespace, "other"), ("default", "own"), ("kube-system", "system")]
    {
        assert!(get(&cluster, namespace, "pod", name)["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }

    // With a list of namespaces, only these are affected.
    let mut named = spec;
    named["namespaces"] = json!(["kube-system"]);
    named["terminationPercent"] = json!(100);
    named["minimumInstances"] = json!(0);
    cluster.apply([terminator("web", &named)]);
    eventually("the system's pod is deleted", || get(&cluster, "kube-system", "pod", "system").is_null());
    periods(&installed, 2);
    assert_eq!(asked(&installed).1, 6);
    stop(program);
    Installed::forbade_nothing(&installed.requests());
}

#[test]
fn a_daemon_follows_its_terminator_and_only_logs_in_dry_run() {
    let namespace = "shop";
    let Some((cluster, _nodes)) = cluster(namespace, 3) else { return };
    let installed = SUBJECT.install(&cluster);
    let program = installed.start();
    program.wait_for_page("/readyz", 200, &[]);
    let spec = json!({"selector": {"app": "web"}, "periodSeconds": 1, "terminationPercent": 100, "dryRun": true});
    cluster.apply([terminator("web", &spec)]);
    program.wait_for_lines(6, &["would be terminated"]);
    let counted = || (program.count(&["its daemon begins"]), program.count(&["its daemon ends"]));
    assert_eq!(counted(), (1, 0));

    // The same spec again changes nothing.
    cluster.must(&["annotate", "pt", "web", "a=b"]);
    program.wait_for_metric(
        "controller_runtime_reconcile_total{controller=\"pod-terminator\",result=\"success\"}",
        |calls| calls >= 2.0,
    );
    periods(&installed, 2);
    assert_eq!(counted(), (1, 0));

    // Another one is.
    let mut changed = spec.clone();
    changed["minimumInstances"] = json!(2);
    cluster.apply([terminator("web", &changed)]);
    program.wait_for_lines(2, &["its daemon begins"]);
    assert_eq!(counted(), (2, 1));

    // One that selects everything is rejected, and its daemon ends.
    changed["selector"] = json!(null);
    cluster.apply([terminator("web", &changed)]);
    program.wait_for_lines(2, &["its daemon ends"]);
    let condition = || ready(&get(&cluster, "default", "podterminator", "web"));
    until(
        "the status has the reason",
        || (condition()["reason"] == "NoSelector").then_some(()),
        || condition().to_string(),
    );
    assert_eq!(counted(), (2, 2));

    // The daemon of a deleted one is stopped.
    cluster.apply([terminator("web", &spec)]);
    program.wait_for_lines(3, &["its daemon begins"]);
    cluster.must(&["delete", "pt", "web"]);
    program.wait_for_lines(3, &["its daemon ends"]);
    assert_eq!(counted(), (3, 3));
    assert_eq!((running(&cluster, namespace), asked(&installed).1), (3, 0), "{}", program.lines().join("\n"));
    stop(program);
}

#[test]
fn the_kind_has_short_names_and_limits() {
    // A terminator without a selector affects no pods of other tests.
    let Some(cluster) = ControlPlane::shared() else { return };
    let installed = SUBJECT.install(cluster);
    let program = installed.start();
    program.wait_for_page("/readyz", 200, &[]);
    cluster.apply([terminator("idle", &json!({}))]);
    for kind in ["pt", "terminators", "killers", "gc", "podterminators.v1alpha1.chaos.spotahome.com"] {
        assert_eq!(number(cluster, "default", kind), 1, "{kind}");
    }
    for (field, value) in [("periodSeconds", 0), ("terminationPercent", 101), ("minimumInstances", -1)] {
        let object = terminator("wrong", &json!({ field: value })).to_string();
        let applied = cluster.kubectl_with(&["apply", "--filename=-"], &object);
        assert!(!applied.success && applied.stderr.contains(field), "{field}: {}", applied.stderr);
    }
    stop(program);
}
