//! The behaviour of each example.

use serde_json::json;

use crate::support::{
    CONFIG_CUSTOM, CONTROLLER_CONCURRENCY, ECHO_POD, METRICS, MULTI_RESOURCE, ONEFILE_ECHO_POD, TRACED, cluster, pod,
    start, stop, workload,
};

#[test]
fn onefile_echo_pod_logs_every_pod_once_then_changes_and_all_again_at_each_resync() {
    let namespace = "onefile-echo-pod";
    let Some(cluster) = cluster(namespace) else { return };
    cluster.apply(["a", "b", "c"].map(|name| pod(namespace, name)));
    let seen = |name: &str, reasons: &str| {
        [format!("key={namespace}/{name} "), format!("reasons={reasons}}}"), "seen".to_owned()]
    };

    // First without a resync: only the first list and changes are logged.
    let program = start(ONEFILE_ECHO_POD, cluster, namespace, &["--resync", "off"], &[]);
    for name in ["a", "b", "c"] {
        program.wait_for_line(&seen(name, "initial").each_ref().map(String::as_str));
    }
    cluster.must(&["label", "pod", "a", "new=label", "--namespace", namespace]);
    program.wait_for_line(&seen("a", "modified").each_ref().map(String::as_str));
    cluster.apply([pod(namespace, "d")]);
    program.wait_for_line(&seen("d", "added").each_ref().map(String::as_str));
    assert_eq!(program.count(&["seen"]), 5, "{}", program.lines().join("\n"));

    // A call is counted when it has ended, which is after its line.
    let counted = "kooper_controller_processed_event_duration_seconds_count{controller=\"echo\",success=\"true\"}";
    program.wait_for_metric(counted, |calls| calls == 5.0);

    // Kooper's four series, byte for byte.
    let metrics = program.wait_for_page("/metrics", 200, &[]);
    for line in [
        "# HELP kooper_controller_queued_events_total Total number of events queued.",
        "# TYPE kooper_controller_queued_events_total counter",
        "# HELP kooper_controller_event_in_queue_duration_seconds The duration of an event in the queue.",
        "kooper_controller_event_in_queue_duration_seconds_bucket{controller=\"echo\",le=\"300\"} 5",
        "# HELP kooper_controller_processed_event_duration_seconds The duration for an event to be processed.",
        "kooper_controller_processed_event_duration_seconds_bucket{controller=\"echo\",success=\"true\",le=\"10\"} 5",
        "# HELP kooper_controller_event_queue_length Length of the controller resource queue.",
        "# TYPE kooper_controller_event_queue_length gauge",
        "kooper_controller_event_queue_length{controller=\"echo\"} 0",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line}\nis not in\n{metrics}");
    }
    cluster.must(&["delete", "pod", "c", "--namespace", namespace]);
    program.wait_for_metric("kooper_store_objects{controller=\"echo\"}", |objects| objects == 3.0);
    stop(program);

    let program = start(ONEFILE_ECHO_POD, cluster, namespace, &["--resync", "1s"], &[]);
    for name in ["a", "b", "d"] {
        program.wait_for_line(&seen(name, "initial").each_ref().map(String::as_str));
        program.wait_for_lines(2, &seen(name, "resync").each_ref().map(String::as_str));
    }
    program.wait_for_page("/readyz", 200, &["ok"]);
    program.wait_for_page("/healthz", 200, &["ok"]);
    stop(program);
}

#[test]
fn echo_pod_logs_created_and_deleted_pods() {
    let namespace = "echo-pod";
    let Some(cluster) = cluster(namespace) else { return };
    let program = start(ECHO_POD, cluster, namespace, &[], &[]);
    program.wait_for_line(&["synced"]);
    // A pod with a node is deleted in two steps: the kubelet confirms it.
    let mut going = pod(namespace, "going");
    going["spec"]["nodeName"] = json!("nowhere");
    cluster.apply([going]);
    program.wait_for_line(&["added pod=echo-pod/going"]);
    cluster.must(&["delete", "pod", "going", "--wait=false", "--namespace", namespace]);
    program.wait_for_line(&["deleted pod=echo-pod/going why=modified"]);
    stop(program);
}

#[test]
fn config_custom_has_one_worker_and_gives_up_after_five_retries() {
    let namespace = "config-custom";
    let Some(cluster) = cluster(namespace) else { return };
    cluster.apply([pod(namespace, "good"), pod(namespace, "very-broken")]);
    let program = start(CONFIG_CUSTOM, cluster, namespace, &[], &[]);
    program.wait_for_line(&["seen pod=config-custom/good"]);
    program.wait_for_line(&["attempt 6 came to nothing", "it waits for a change"]);
    assert_eq!(program.count(&["came to nothing; it is retried"]), 5);
    assert_eq!(program.metric("controller_runtime_max_concurrent_reconciles{controller=\"config-custom\"}"), Some(1.0));
    // A change is handled again.
    cluster.must(&["label", "pod", "very-broken", "new=label", "--namespace", namespace]);
    program.wait_for_line(&["reasons=modified", "came to nothing"]);
    stop(program);
}

#[test]
fn controller_concurrency_runs_as_many_handlers_as_it_has_workers() {
    let namespace = "controller-concurrency";
    let Some(cluster) = cluster(namespace) else { return };
    cluster.apply((0..6).map(|n| pod(namespace, &format!("pod-{n}"))));
    let args = ["--workers", "4", "--resync", "off"];
    let program = start(CONTROLLER_CONCURRENCY, cluster, namespace, &args, &[("SLEEP_MS", "1500")]);
    let series = |name: &str| format!("{name}{{controller=\"controller-concurrency\"}}");
    program.wait_for_metric(&series("controller_runtime_active_workers"), |active| active == 4.0);
    assert_eq!(program.metric(&series("controller_runtime_max_concurrent_reconciles")), Some(4.0));
    assert_eq!(program.metric(&series("kooper_controller_event_queue_length")), Some(2.0));
    program.wait_for_lines(6, &["seen"]);
    stop(program);
}

#[test]
fn controller_concurrency_reports_an_invalid_variable() {
    let namespace = "controller-concurrency-init";
    let Some(cluster) = cluster(namespace) else { return };
    let program = start(CONTROLLER_CONCURRENCY, cluster, namespace, &[], &[("SLEEP_MS", "soon")]);
    program.wait_for_line(&["`init` failed: SLEEP_MS is not a whole number"]);
    program.wait_for_page(
        "/readyz?verbose",
        503,
        &["controller-concurrency: `init` failed: SLEEP_MS is not a whole number"],
    );
    stop(program);
}

#[test]
fn metrics_fails_at_random_and_counts_it() {
    let namespace = "metrics";
    let Some(cluster) = cluster(namespace) else { return };
    cluster.apply((0..8).map(|n| pod(namespace, &format!("pod-{n}"))));
    let program = start(METRICS, cluster, namespace, &["--workers", "8", "--resync", "200ms"], &[]);
    for result in ["success", "error"] {
        let series = format!("controller_runtime_reconcile_total{{controller=\"metrics\",result=\"{result}\"}}");
        program.wait_for_metric(&series, |calls| calls >= 3.0);
    }
    program.wait_for_line(&["the handler failed: bad luck; it is retried"]);
    program
        .wait_for_metric("kooper_controller_queued_events_total{controller=\"metrics\",requeue=\"true\"}", |retries| {
            retries >= 3.0
        });
    stop(program);
}

#[test]
fn multi_resource_handles_deployments_and_stateful_sets_with_one_function() {
    let namespace = "multi-resource";
    let Some(cluster) = cluster(namespace) else { return };
    let program = start(MULTI_RESOURCE, cluster, namespace, &[], &[]);
    program.wait_for_page("/readyz", 200, &["ok"]);
    cluster.apply(["Deployment", "StatefulSet"].map(|kind| workload(namespace, kind)));
    for kind in ["Deployment", "StatefulSet"] {
        let controller = format!("controller=multi-resource-{}", kind.to_lowercase());
        let seen = format!("seen kind={kind} object=multi-resource/web");
        program.wait_for_line(&[&controller, &seen]);
    }
    stop(program);
}

#[test]
fn traced_logs_the_spans_of_each_line() {
    let namespace = "traced";
    let Some(cluster) = cluster(namespace) else { return };
    let mut broken = pod(namespace, "broken");
    broken["metadata"]["labels"]["broken"] = json!("yes");
    cluster.apply([pod(namespace, "plain"), broken]);
    let program = start(TRACED, cluster, namespace, &["--resync", "off"], &[]);
    for name in ["plain", "broken"] {
        program.wait_for_line(&["call{controller=traced", &format!("key=traced/{name} attempt=1"), "}:work", "works"]);
    }
    program.wait_for_line(&["key=traced/broken attempt=4", "the handler failed: it is broken"]);
    stop(program);
}
