//! Checks the output of `dashboard` and `alerts` with Prometheus and against Grafana's types.
//!
//! A test whose tool is not on the path is skipped with a message, see `kooper_tests::tools`.

mod cases;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kooper_tests::prometheus::{Prometheus, filled, queries};
use kooper_tests::tools::has;
use serde_json::{Value, json};

use crate::support::{METRICS, SHARDS, WEBHOOKS, cluster, pod, start, stop};
use cases::{CASES, Case};

/// Returns the output of the example's command.
fn printed(args: &[&str]) -> String {
    printed_by(METRICS, args)
}

fn printed_by(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("the example can be run");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The rules of the example, as a file of Prometheus and as values.
fn rules() -> (String, Vec<Value>) {
    let text = printed(&["alerts", "--leader-election", "on"]);
    let rules = read(&text);
    (text, rules)
}

/// The rules of an example whose names begin like this.
fn rules_of(program: &str, prefix: &str) -> Vec<Value> {
    let mut rules = read(&printed_by(program, &["alerts"]));
    rules.retain(|rule| rule["alert"].as_str().is_some_and(|name| name.starts_with(prefix)));
    rules
}

/// The rules of a file.
fn read(text: &str) -> Vec<Value> {
    let mut document: Value = serde_saphyr::from_str(text).expect("YAML");
    let Value::Array(rules) = document["groups"][0]["rules"].take() else { panic!("a list: {text}") };
    rules
}

/// An empty folder for files.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn promtool(folder: &Path, args: &[&str]) {
    let output = Command::new("promtool").args(args).current_dir(folder).output().expect("promtool can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn promtool_accepts_the_rules_of_every_format() {
    if !has("promtool") {
        return;
    }
    let folder = folder("promtool-check");
    fs::write(folder.join("rules.yaml"), rules().0).expect("written");
    fs::write(folder.join("without.yaml"), printed(&["alerts", "--format", "rules"])).expect("written");
    let object =
        printed(&["alerts", "--format", "prometheusrule", "--install-namespace", "shop", "--instance", "blue"]);
    let mut object: Value = serde_saphyr::from_str(&object).expect("YAML");
    assert_eq!((&object["kind"], &object["metadata"]["namespace"]), (&json!("PrometheusRule"), &json!("shop")));
    let spec = serde_saphyr::to_string(&object["spec"].take()).expect("YAML");
    assert!(
        spec.contains(r#"namespace=\"shop\", job=\"metrics--blue\""#)
            || spec.contains(r#"namespace="shop", job="metrics--blue""#),
        "{spec}"
    );
    fs::write(folder.join("spec.yaml"), spec).expect("written");
    for file in ["rules.yaml", "without.yaml", "spec.yaml"] {
        promtool(&folder, &["check", "rules", "--lint=all", "--lint-fatal", file]);
    }
}

#[test]
fn alerts_fire_for_their_reason_and_for_nothing_else() {
    if !has("promtool") {
        return;
    }
    let folder = folder("promtool-test");
    let (text, mut rules) = rules();
    fs::write(folder.join("rules.yaml"), text).expect("written");
    for (name, program, prefix) in [("webhooks", WEBHOOKS, "KooperWebhook"), ("shards", SHARDS, "KooperShards")] {
        let more = rules_of(program, prefix);
        let file = json!({"groups": [{"name": name, "rules": more}]});
        let text = serde_saphyr::to_string(&file).expect("YAML");
        fs::write(folder.join(format!("{name}.yaml")), text).expect("written");
        rules.extend(more);
    }
    let names: BTreeSet<_> = rules.iter().filter_map(|rule| rule["alert"].as_str()).collect();
    let tried: BTreeSet<_> = CASES.iter().filter(|case| case.fires.is_some()).map(|case| case.alert).collect();
    assert_eq!(names, tried, "each alert has a case in which it fires");

    let cases: Vec<_> = CASES.iter().map(|case| test_of(case, &rules)).collect();
    let files = ["rules.yaml", "webhooks.yaml", "shards.yaml"];
    let file = json!({"rule_files": files, "evaluation_interval": "1m", "tests": cases});
    fs::write(folder.join("cases.yaml"), serde_saphyr::to_string(&file).expect("YAML")).expect("written");
    promtool(&folder, &["test", "rules", "cases.yaml"]);
}

/// A case as promtool reads it.
fn test_of(case: &Case, rules: &[Value]) -> Value {
    let rule = rules.iter().find(|rule| rule["alert"] == case.alert).expect("a rule of this name");
    let mut expected: Vec<_> =
        case.quiet.iter().map(|at| json!({"eval_time": at, "alertname": case.alert, "exp_alerts": []})).collect();
    if let Some((at, labels, summary)) = case.fires {
        let mut labels: serde_json::Map<_, _> =
            labels.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
        labels.extend([("severity".to_owned(), rule["labels"]["severity"].clone())]);
        let annotations = json!({"summary": summary, "description": rule["annotations"]["description"]});
        let alert = json!({"exp_labels": labels, "exp_annotations": annotations});
        expected.push(json!({"eval_time": at, "alertname": case.alert, "exp_alerts": [alert]}));
    }
    let series = case.series.iter().map(|(series, values)| json!({"series": series, "values": values}));
    json!({
        "name": case.name, "interval": "1m", "input_series": series.collect::<Vec<_>>(), "alert_rule_test": expected,
    })
}

/// Queries of public dashboards for controller-runtime and for Kooper for Go: their metrics, labels and functions.
const PUBLIC: &[&str] = &[
    r#"controller_runtime_active_workers{job="$job", namespace="$namespace"}"#,
    r#"controller_runtime_max_concurrent_reconciles{job="$job", namespace="$namespace"}"#,
    r#"sum(rate(controller_runtime_reconcile_total{job="$job", namespace="$namespace"}[1m])) by (instance, pod)"#,
    r#"sum(rate(controller_runtime_reconcile_total{controller="metrics", result="error"}[1m])) by (controller)"#,
    r#"sum(rate(controller_runtime_reconcile_errors_total{job="$job"}[1m])) by (instance, pod)"#,
    r#"histogram_quantile(0.9, sum(rate(controller_runtime_reconcile_time_seconds_bucket[1m])) by (controller, le))"#,
    r#"workqueue_depth{job="$job", namespace="$namespace", name="metrics"}"#,
    r#"histogram_quantile(0.9, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job"}[1m])) by (instance, name, le))"#,
    r#"histogram_quantile(0.9, sum(rate(workqueue_work_duration_seconds_bucket{job="$job"}[1m])) by (instance, name, le))"#,
    r#"sum(rate(workqueue_adds_total{job="$job", namespace="$namespace"}[1m])) by (instance, name)"#,
    r#"sum(rate(workqueue_retries_total{job="$job", namespace="$namespace"}[1m])) by (instance, name)"#,
    r#"rate(workqueue_unfinished_work_seconds{job="$job", namespace="$namespace"}[1m])"#,
    r#"workqueue_longest_running_processor_seconds{job="$job"}"#,
    r#"sum(rate(rest_client_requests_total{job="$job", code=~"2.."}[1m])) by (method, host)"#,
    r#"leader_election_master_status{name="metrics-metrics"}"#,
    r#"rate(process_cpu_seconds_total{job="$job", namespace="$namespace", pod="metrics-0"}[1m]) * 100"#,
    r#"process_resident_memory_bytes{job="$job", namespace="$namespace", pod="metrics-0"}"#,
    r#"process_open_fds{job="$job"} / process_max_fds"#,
    r#"time() - process_start_time_seconds{job="$job"}"#,
    r#"sum(rate(kooper_controller_processed_event_duration_seconds_count{controller="metrics", success="false"}[1m]))"#,
    r#"sum(rate(kooper_controller_processed_event_duration_seconds_bucket{controller="metrics", le="0.25"}[1m]))"#,
    r#"sum(rate(kooper_controller_queued_events_total{controller="metrics", requeue="true"}[1m]))"#,
    r#"histogram_quantile(0.9, sum(rate(kooper_controller_event_in_queue_duration_seconds_bucket[1m])) by (controller, le))"#,
    r#"kooper_controller_event_queue_length{controller="metrics"}"#,
];

#[test]
fn prometheus_answers_every_query_with_data() {
    if !has("prometheus") {
        return;
    }
    let namespace = "monitored";
    let Some(cluster) = cluster(namespace) else { return };
    cluster.apply(["a", "b", "c"].map(|name| pod(namespace, name)));
    let flags = ["--resync", "500ms", "--workers", "4", "--leader-election", "on", "--lease-namespace", namespace];
    let program = start(METRICS, cluster, namespace, &flags, &[]);
    program.wait_for_metric(r#"controller_runtime_reconcile_total{controller="metrics",result="error"}"#, |n| n > 0.0);
    let labels = json!({"namespace": namespace, "pod": "metrics-0"});
    let prometheus = Prometheus::start(&folder("prometheus"), &[(program.address(), labels)], &[]);

    let mut all: Vec<String> = PUBLIC.iter().map(ToString::to_string).collect();
    let dashboard: Value = serde_json::from_str(&printed(&["dashboard", "--leader-election", "on"])).expect("JSON");
    all.extend(queries(&dashboard));
    // An alert has no value while all is well: the comparison is made to return 0 or 1.
    all.extend(rules().1.iter().map(|rule| {
        let expression = rule["expr"].as_str().expect("a string");
        let of_any = |rest: &'_ str| rest.split_once(") or on (").map(|(value, _)| value.to_owned());
        let value = expression.strip_prefix("absent(").and_then(of_any).unwrap_or_else(|| expression.to_owned());
        value.replace(" > ", " > bool ").replace(" == ", " == bool ")
    }));
    assert!(all.len() > 60, "{} queries", all.len());
    for query in all {
        prometheus.wait_for_data(&filled(&query, namespace, "kooper"));
    }
    drop(prometheus);
    stop(program);
}
