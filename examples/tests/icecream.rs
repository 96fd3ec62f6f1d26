//! `icecream` with a controller manager, and a node for its pods.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::least_role::{Installed, Subject};
use kooper_tests::nodes::{NODE_IP, Nodes};
use kooper_tests::process::Process;
use kooper_tests::wait::{eventually, until};
use serde_json::{Value, json};

use crate::support::{ICECREAM, cluster, start, stop};

/// An IceCream with the name of its Deployment.
pub(crate) fn icecream(namespace: &str, name: &str, deployment: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "controller.nicoleh.io/v1alpha1", "kind": "IceCream",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"deploymentName": deployment, "replicas": replicas}
    })
}

/// The current object; null if there is none.
pub(crate) fn get(cluster: &ControlPlane, namespace: &str, kind: &str, name: &str) -> Value {
    let output = cluster.kubectl(&["-n", namespace, "get", kind, name, "--ignore-not-found", "-o", "json"]);
    serde_json::from_str(&output.stdout).unwrap_or_default()
}

/// The number of objects of a kind.
pub(crate) fn number(cluster: &ControlPlane, namespace: &str, kind: &str) -> usize {
    cluster.must(&["-n", namespace, "get", kind, "-o", "name"]).lines().count()
}

/// Waits until the status of an IceCream has this many pods, each with its node and address.
pub(crate) fn wait_until_served(cluster: &ControlPlane, namespace: &str, name: &str, replicas: u32) -> Value {
    let now = || get(cluster, namespace, "icecream", name);
    let served = || {
        let object = now();
        let status = &object["status"];
        let pods = status["pods"].as_array()?;
        let runs = |pod: &Value| pod["node"] == format!("node-{namespace}") && pod["ip"].is_string();
        let all = status["availableReplicas"] == replicas && pods.len() == replicas as usize && pods.iter().all(runs);
        (all && ready(&object)["status"] == "True").then_some(object)
    };
    until(&format!("{name} is served {replicas} times"), served, || now().to_string())
}

pub(crate) fn ready(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|one| one["type"] == "Ready").cloned().unwrap_or_default()
}

/// Waits for an Event about an IceCream, and returns its text.
pub(crate) fn recorded(cluster: &ControlPlane, namespace: &str, name: &str, kind: &str, reason: &str) -> String {
    let fields = format!("--field-selector=involvedObject.name={name},type={kind},reason={reason}");
    let events = || cluster.must(&["-n", namespace, "get", "events", &fields, "-o=jsonpath={.items[*].message}"]);
    until(&format!("{kind} {reason} about {name}"), || Some(events()).filter(|text| !text.is_empty()), events)
}

#[test]
fn icecream_creates_corrects_and_deletes_its_deployment_with_only_its_printed_role() {
    let namespace = "icecream";
    let Some(cluster) = ControlPlane::shared() else { return };
    let subject = Subject { program: ICECREAM, namespace, objects: Vec::new(), done: &[], lease: "", unseen: &[] };
    let installed = subject.install(cluster);
    let (_, crd, _) = subject.call(None, &["crd"]);
    assert!(
        cluster.kubectl_with(&["apply", "--server-side", "--field-manager=icecream", "--filename=-"], &crd).success
    );
    wait_until_owners_are_known(&installed, namespace);
    // A watch of a kind that was just defined may have to wait; kubectl does, and a warning would be in the log.
    cluster.must(&["get", "--raw", "/apis/controller.nicoleh.io/v1alpha1/icecreams?watch=1&timeoutSeconds=1"]);
    let before = installed.requests().len();
    let _nodes = Nodes::start(cluster, namespace);
    let program = installed.start();
    program.wait_for_page("/readyz", 200, &[]);

    // It is created, and its pods are reported.
    cluster.apply([icecream(namespace, "vanilla", "dessert", 2)]);
    let served = wait_until_served(cluster, namespace, "vanilla", 2);
    let deployment = || get(cluster, namespace, "deployment", "dessert");
    let first = deployment();
    assert_eq!(first["metadata"]["ownerReferences"][0]["name"], "vanilla", "{first}");
    let shown = &served["status"]["pods"][0];
    let pod = get(cluster, namespace, "pod", shown["name"].as_str().expect("it has a name"));
    assert_eq!((&pod["status"]["podIP"], &pod["status"]["hostIP"]), (&shown["ip"], &json!(NODE_IP)), "{served}");

    // It grows with the spec.
    cluster.apply([icecream(namespace, "vanilla", "dessert", 3)]);
    wait_until_served(cluster, namespace, "vanilla", 3);

    // An edit by another client is corrected, even a forced apply.
    let theirs = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": namespace, "name": "dessert"},
        "spec": {"replicas": 7}
    });
    let forced = ["apply", "--server-side", "--force-conflicts", "--field-manager=other", "--filename=-"];
    let applied = cluster.kubectl_with(&forced, &theirs.to_string());
    assert!(applied.success, "{}", applied.stderr);
    let corrected = |generation: &Value| {
        let now = deployment();
        now["spec"]["replicas"] == 3 && now["metadata"]["generation"].as_u64() > generation.as_u64()
    };
    eventually("the size is corrected", || corrected(&first["metadata"]["generation"]));
    wait_until_served(cluster, namespace, "vanilla", 3);

    // A deleted Deployment is created again.
    cluster.must(&["-n", namespace, "delete", "deployment", "dessert"]);
    eventually("it is another one", || {
        let now = deployment();
        now["metadata"]["uid"].is_string() && now["metadata"]["uid"] != first["metadata"]["uid"]
    });
    wait_until_served(cluster, namespace, "vanilla", 3);

    // One that is deleted with its owner is not.
    cluster.must(&["-n", namespace, "delete", "icecream", "vanilla", "--cascade=foreground"]);
    eventually("everything is deleted", || {
        ["icecream", "deployment", "replicaset", "pod"].iter().all(|kind| number(cluster, namespace, kind) == 0)
    });
    assert_eq!(program.count(&["WARN"]) + program.count(&["ERROR"]), 0, "{}", program.lines().join("\n"));
    stop(program);
    Installed::forbade_nothing(&installed.requests()[before..]);
}

/// The API server checks owner references with a list of kinds that it updates periodically: a new kind is not in it
/// at once.
fn wait_until_owners_are_known(installed: &Installed<'_>, namespace: &str) {
    let owner = json!({
        "apiVersion": "controller.nicoleh.io/v1alpha1", "kind": "IceCream", "name": "absent", "uid": "1",
        "controller": true, "blockOwnerDeletion": true
    });
    let labels = json!({"app": "probe"});
    let child = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": "probe", "ownerReferences": [owner]},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        }
    });
    let args = ["create", "--dry-run=server", "--validate=false", "--filename=-"];
    let tried = || installed.kubectl_with(&args, &child.to_string());
    until("the kind is known to owner references", || tried().success.then_some(()), || tried().stderr);
}

#[test]
fn icecream_does_not_change_a_foreign_deployment_and_reports_it() {
    let namespace = "icecream-foreign";
    let Some(cluster) = cluster(namespace) else { return };
    let _nodes = Nodes::start(cluster, namespace);
    cluster.must(&["-n", namespace, "create", "deployment", "taken", "--image=example.com/none", "--replicas=0"]);
    let taken = || get(cluster, namespace, "deployment", "taken");
    // Its controllers write the status and an annotation.
    until("it is observed", || (taken()["status"]["observedGeneration"] == 1).then_some(()), || taken().to_string());
    let unversioned = || {
        let mut metadata = taken()["metadata"].take();
        metadata["resourceVersion"].take();
        metadata
    };
    let before = unversioned();
    let program = start(ICECREAM, cluster, namespace, &[], &[]);
    program.wait_for_page("/readyz", 200, &[]);
    let refused = |name: &str, words: &str| {
        let text = recorded(cluster, namespace, name, "Warning", "ErrResourceExists");
        assert!(text.contains(words), "{text}");
        let now = || ready(&get(cluster, namespace, "icecream", name));
        until(
            "the status has it, too",
            || (now()["message"].as_str()?.contains(words) && now()["reason"] == "SlotFailed").then_some(()),
            || now().to_string(),
        );
    };
    cluster.apply([icecream(namespace, "thief", "taken", 2)]);
    refused("thief", "no owner controls it");

    // Of two with the same Deployment, the second one reports its owner.
    cluster.apply([icecream(namespace, "first", "shared", 1)]);
    wait_until_served(cluster, namespace, "first", 1);
    cluster.apply([icecream(namespace, "second", "shared", 2)]);
    refused("second", "IceCream `first`");
    let shared = get(cluster, namespace, "deployment", "shared");
    assert_eq!(shared["spec"]["replicas"], 1, "{shared}");
    assert_eq!(unversioned(), before);

    // Then it creates its own.
    cluster.must(&["-n", namespace, "delete", "icecream", "first"]);
    wait_until_served(cluster, namespace, "second", 2);
    stop(program);
}

#[test]
fn icecream_rejects_an_invalid_spec() {
    let namespace = "icecream-schema";
    let Some(cluster) = cluster(namespace) else { return };
    let program = start(ICECREAM, cluster, namespace, &[], &[]);
    program.wait_for_page("/readyz", 200, &[]);
    let long = "n".repeat(64);
    cluster.apply([icecream(namespace, "plain", "plain", 0)]);
    for (name, deployment, replicas, words) in [
        (long.as_str(), "plain", 1, "it becomes a label"),
        ("long", long.as_str(), 1, "Too long"),
        ("many", "many", 1001, "less than or equal to 1000"),
        ("plain", "other", 0, "make another IceCream for another Deployment"),
    ] {
        let object = icecream(namespace, name, deployment, replicas).to_string();
        let applied = cluster.kubectl_with(&["apply", "--filename=-"], &object);
        assert!(!applied.success && applied.stderr.contains(words), "{words}: {}", applied.stderr);
    }
    stop(program);
}

#[test]
fn icecream_writes_nothing_in_the_desired_state() {
    let namespace = "icecream-stable";
    let Some(cluster) = cluster(namespace) else { return };
    let _nodes = Nodes::start(cluster, namespace);
    let program = start(ICECREAM, cluster, namespace, &["--resync", "500ms"], &[]);
    program.wait_for_page("/readyz", 200, &[]);
    let names = ["a", "b", "c", "d", "e"];
    cluster.apply(names.map(|name| icecream(namespace, name, name, 1)));
    for name in names {
        wait_until_served(cluster, namespace, name, 1);
    }
    // Pending changes settle within some rounds.
    let calls = calls(&program);
    program.wait_for_metric(CALLS, |now| now >= calls + 25.0);
    let (before, calls) = (writes(cluster, namespace), self::calls(&program));
    assert!(before.len() >= 2 * names.len(), "each has a Deployment and a status: {before:#?}");
    program.wait_for_metric(CALLS, |now| now >= calls + 50.0);
    assert_eq!(writes(cluster, namespace)[before.len()..], [""; 0]);
    stop(program);
}

const CALLS: &str = "controller_runtime_reconcile_total{controller=\"icecream\",result=\"success\"}";

/// The number of successful handler calls.
pub(crate) fn calls(program: &Process) -> f64 {
    program.metric(CALLS).unwrap_or_default()
}

/// Returns the write requests that `icecream` has made in a namespace so far.
pub(crate) fn writes(cluster: &ControlPlane, namespace: &str) -> Vec<String> {
    let written = |event: &Value| {
        let (verb, path) = (event["verb"].as_str()?, event["requestURI"].as_str()?);
        let place = format!("/namespaces/{namespace}/");
        let ours = path.contains("fieldManager=icecream") || event["objectRef"]["apiGroup"] == "events.k8s.io";
        let writes = ["create", "update", "patch", "delete"].contains(&verb) && path.contains(&place) && ours;
        // Other components have their own accounts and Events.
        (writes && event["user"]["username"] == "admin").then(|| format!("{verb} {path}"))
    };
    cluster.audit_log(namespace).iter().filter_map(written).collect()
}
