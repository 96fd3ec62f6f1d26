use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use prometheus::{Registry, TextEncoder};
use tower::{Layer, ServiceExt};

use super::*;

/// The output of Kooper for Go after the same calls, byte for byte. Counters that
/// were not incremented are included, with 0.
const KOOPER: &str = r#"# HELP kooper_controller_event_in_queue_duration_seconds The duration of an event in the queue.
# TYPE kooper_controller_event_in_queue_duration_seconds histogram
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="0.01"} 1
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="0.05"} 1
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="0.1"} 1
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="0.25"} 1
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="0.5"} 1
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="1"} 1
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="3"} 2
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="10"} 2
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="20"} 2
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="60"} 2
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="150"} 2
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="300"} 2
kooper_controller_event_in_queue_duration_seconds_bucket{controller="echo",le="+Inf"} 2
kooper_controller_event_in_queue_duration_seconds_sum{controller="echo"} 2.0078125
kooper_controller_event_in_queue_duration_seconds_count{controller="echo"} 2
# HELP kooper_controller_event_queue_length Length of the controller resource queue.
# TYPE kooper_controller_event_queue_length gauge
kooper_controller_event_queue_length{controller="echo"} 7
# HELP kooper_controller_processed_event_duration_seconds The duration for an event to be processed.
# TYPE kooper_controller_processed_event_duration_seconds histogram
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="0.005"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="0.01"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="0.025"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="0.05"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="0.1"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="0.25"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="0.5"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="1"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="2.5"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="5"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="10"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="false",le="+Inf"} 1
kooper_controller_processed_event_duration_seconds_sum{controller="echo",success="false"} 11
kooper_controller_processed_event_duration_seconds_count{controller="echo",success="false"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="0.005"} 0
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="0.01"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="0.025"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="0.05"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="0.1"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="0.25"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="0.5"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="1"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="2.5"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="5"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="10"} 1
kooper_controller_processed_event_duration_seconds_bucket{controller="echo",success="true",le="+Inf"} 1
kooper_controller_processed_event_duration_seconds_sum{controller="echo",success="true"} 0.0078125
kooper_controller_processed_event_duration_seconds_count{controller="echo",success="true"} 1
# HELP kooper_controller_queued_events_total Total number of events queued.
# TYPE kooper_controller_queued_events_total counter
kooper_controller_queued_events_total{controller="echo",requeue="false"} 2
kooper_controller_queued_events_total{controller="echo",requeue="true"} 1
"#;

const GAUGES: [Gauge; 12] = [
    Gauge::ActiveWorkers,
    Gauge::MaxWorkers,
    Gauge::UnfinishedWork,
    Gauge::LongestRunning,
    Gauge::FailingKeys,
    Gauge::StoreObjects,
    Gauge::StoreBytes,
    Gauge::StuckCalls,
    Gauge::LeaseTimeLeft,
    Gauge::ShardsOwned,
    Gauge::ShardsUnowned,
    Gauge::ShardsUnownedTime,
];

fn read(value: f64) -> ReadGauge {
    Box::new(move || value)
}

fn text(registry: &Registry) -> String {
    TextEncoder::new().encode_to_string(&registry.gather()).expect("the metrics can be encoded")
}

fn begun() -> (Registry, Prometheus) {
    let registry = Registry::new();
    let metrics = Prometheus::new(&registry).expect("an empty registry accepts the metrics");
    metrics.register_queue_length("echo", read(7.0)).expect("the first of its name");
    (registry, metrics)
}

#[test]
fn the_four_metrics_of_kooper_for_go_are_exported_unchanged() {
    let (registry, metrics) = begun();
    metrics.inc_event_queued("echo", false);
    metrics.inc_event_queued("echo", false);
    metrics.inc_event_queued("echo", true);
    metrics.observe_in_queue_duration("echo", Duration::from_micros(7812) + Duration::from_nanos(500));
    metrics.observe_in_queue_duration("echo", Duration::from_secs(2));
    metrics.observe_processing_duration("echo", true, Duration::from_micros(7812) + Duration::from_nanos(500));
    metrics.observe_processing_duration("echo", false, Duration::from_secs(11));
    let kooper: String = text(&registry)
        .split_inclusive('\n')
        .filter(|line| {
            line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ").starts_with("kooper_controller_")
        })
        .collect();
    assert_eq!(kooper, KOOPER);
}

/// A registry in which every metric has a value.
fn every_metric() -> Registry {
    let (registry, metrics) = begun();
    for gauge in GAUGES
        .into_iter()
        .chain([Gauge::WatchAge { watch: "pods".into() }, Gauge::Leader { lease: "shop-echo".into() }])
        .chain([Gauge::ShardSelector { state: "applied" }])
        .chain([Gauge::ChildState { slot: "web".into(), state: "ready" }])
    {
        metrics.register_gauge("echo", gauge, read(1.0)).expect("the first of its name");
    }
    drop(metrics.client_layer(&http::Uri::from_static("https://host")).layer(()).count(http::Method::GET));
    registry
}

/// The table of the reference: name, type and labels of each metric.
#[test]
fn the_reference_has_the_types_and_labels_of_the_table() {
    let page = include_str!("../../../../docs/reference/metrics.md");
    for metric in table::ALL {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        let row = format!("| `{}` | {kind} | {labels} | ", metric.name);
        assert!(page.lines().any(|line| line.starts_with(&row)), "docs/reference/metrics.md lacks the row {row}");
    }
}

#[test]
fn each_metric_is_in_the_table_once_and_named_after_its_unit() {
    let mut names: Vec<_> = table::ALL.iter().map(|metric| metric.name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    for metric in table::ALL {
        let is_counter = metric.kind == table::MetricKind::Counter;
        assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
        let name = metric.name.trim_end_matches("_total");
        assert_eq!(name.ends_with("_seconds"), metric.unit == table::Unit::Seconds, "{}", metric.name);
        assert_eq!(name.ends_with("_bytes"), metric.unit == table::Unit::Bytes, "{}", metric.name);
    }
}

/// The registry contains exactly the metrics of the table, with their types and labels.
#[test]
fn the_registry_has_the_metrics_of_the_table() {
    let described = |name: &str, kind: &dyn std::fmt::Debug, mut labels: Vec<&str>| {
        labels.sort_unstable();
        (name.to_owned(), format!("{kind:?}").to_lowercase(), labels.join(","))
    };
    let found: Vec<_> = every_metric()
        .gather()
        .iter()
        .map(|family| {
            let labels = family.get_metric()[0].get_label();
            described(
                family.name(),
                &family.get_field_type(),
                labels.iter().map(prometheus::proto::LabelPair::name).collect(),
            )
        })
        .collect();
    let of_others = |metric: &table::Metric| metric.name.starts_with("process_") || metric.name.contains("_webhook_");
    let of_recorder = table::ALL.iter().filter(|metric| !of_others(metric));
    let mut expected: Vec<_> =
        of_recorder.map(|metric| described(metric.name, &metric.kind, metric.labels.to_vec())).collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[cfg(feature = "webhooks")]
#[test]
fn the_metrics_of_webhooks_are_those_of_the_table() {
    let mut found: Vec<_> = kooper_webhooks::described()
        .into_iter()
        .map(|metric| (metric.fq_name, metric.help, metric.variable_labels.join(", ")))
        .collect();
    let of_webhooks = table::ALL.iter().filter(|metric| metric.name.contains("_webhook_"));
    let mut expected: Vec<_> =
        of_webhooks.map(|metric| (metric.name.to_owned(), metric.help.to_owned(), metric.labels.join(", "))).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn counters_start_at_zero_and_each_is_incremented_separately() {
    let counts: [(Counter, &[&str]); 17] = [
        (Counter::Success, &[r#"controller_runtime_reconcile_total{controller="echo",result="success"}"#]),
        (
            Counter::Error,
            &[
                r#"controller_runtime_reconcile_total{controller="echo",result="error"}"#,
                r#"controller_runtime_reconcile_errors_total{controller="echo"}"#,
            ],
        ),
        (Counter::Requeue, &[r#"controller_runtime_reconcile_total{controller="echo",result="requeue"}"#]),
        (Counter::RequeueAfter, &[r#"controller_runtime_reconcile_total{controller="echo",result="requeue_after"}"#]),
        (Counter::TerminalError, &[r#"controller_runtime_terminal_reconcile_errors_total{controller="echo"}"#]),
        (Counter::Panic, &[r#"controller_runtime_reconcile_panics_total{controller="echo"}"#]),
        (
            Counter::Timeout,
            &[
                r#"controller_runtime_reconcile_timeouts_total{controller="echo"}"#,
                r#"kooper_handler_timeouts_total{controller="echo"}"#,
            ],
        ),
        (Counter::Add, &[r#"workqueue_adds_total{controller="echo",name="echo"}"#]),
        (Counter::Retry, &[r#"workqueue_retries_total{controller="echo",name="echo"}"#]),
        (Counter::Relist, &[r#"kooper_relists_total{controller="echo"}"#]),
        (
            Counter::WatchError(WatchFault::NotFound),
            &[r#"kooper_watch_errors_total{controller="echo",reason="not_found"}"#],
        ),
        (Counter::DecodeError, &[r#"kooper_decode_errors_total{controller="echo"}"#]),
        (Counter::Restore, &[r#"kooper_restores_total{controller="echo"}"#]),
        (Counter::Abandoned, &[r#"kooper_abandoned_total{controller="echo"}"#]),
        (Counter::LeaderTransition, &[r#"kooper_leader_transitions_total{controller="echo"}"#]),
        (Counter::ShardGained, &[r#"kooper_shards_gained_total{controller="echo"}"#]),
        (Counter::ShardObjectDropped, &[r#"kooper_shard_objects_dropped_total{controller="echo"}"#]),
    ];
    for (counter, expected) in counts {
        let (registry, metrics) = begun();
        let before = text(&registry);
        for line in expected {
            assert!(before.contains(&format!("{line} 0\n")), "{line} is missing at the start");
        }
        metrics.count("echo", counter);
        let after = text(&registry);
        let changed: Vec<_> = after.lines().filter(|line| !before.lines().any(|old| old == *line)).collect();
        assert_eq!(changed.len(), expected.len(), "{counter:?}: {changed:?}");
        for line in expected {
            assert!(after.contains(&format!("{line} 1\n")), "{counter:?} does not count {line}");
        }
    }
}

#[test]
fn gauges_are_read_at_each_scrape() {
    let registry = Registry::new();
    let metrics = Prometheus::new(&registry).expect("an empty registry accepts the metrics");
    let length = Arc::new(AtomicU32::new(1));
    let seen = Arc::clone(&length);
    metrics
        .register_queue_length("echo", Box::new(move || f64::from(seen.load(Ordering::Relaxed))))
        .expect("the first of its name");
    metrics.register_gauge("echo", Gauge::WatchAge { watch: "pods".into() }, read(1.5)).expect("the first");
    assert!(text(&registry).contains(r#"workqueue_depth{controller="echo",name="echo"} 1"#));
    length.store(5, Ordering::Relaxed);
    let text = text(&registry);
    assert!(text.contains(r#"workqueue_depth{controller="echo",name="echo"} 5"#));
    assert!(text.contains(r#"kooper_controller_event_queue_length{controller="echo"} 5"#));
    assert!(text.contains(r#"kooper_watch_last_heard_seconds{controller="echo",watch="pods"} 1.5"#));
}

#[test]
fn each_duration_is_recorded_in_its_histograms() {
    let (registry, metrics) = begun();
    metrics.observe_work_duration("echo", Duration::from_secs(2));
    metrics.observe_lease_renewal("echo", Duration::from_secs(3));
    metrics.observe_shard_handover("echo", Duration::from_secs(4));
    let text = text(&registry);
    assert!(text.contains(r#"workqueue_work_duration_seconds_sum{controller="echo",name="echo"} 2"#));
    assert!(text.contains(r#"controller_runtime_reconcile_time_seconds_sum{controller="echo"} 2"#));
    assert!(text.contains(r#"kooper_lease_renew_duration_seconds_sum{controller="echo"} 3"#));
    assert!(text.contains(r#"kooper_shard_handover_duration_seconds_sum{controller="echo"} 4"#));
}

#[test]
fn a_name_or_a_gauge_is_registered_once() {
    let (_registry, metrics) = begun();
    let error = metrics.clone().register_queue_length("echo", read(0.0)).expect_err("the name is taken");
    assert_eq!(error.to_string(), "two controllers in one registry are named `echo`: rename one of them");
    metrics.register_queue_length("other", read(0.0)).expect("another name");
    for watch in ["pods", "nodes"] {
        metrics.register_gauge("echo", Gauge::WatchAge { watch: watch.into() }, read(0.0)).expect("another watch");
    }
    let error = metrics.register_gauge("echo", Gauge::WatchAge { watch: "pods".into() }, read(0.0));
    assert!(error.expect_err("the watch is registered").to_string().contains("already registered"));
}

#[test]
fn a_registry_accepts_one_recorder() {
    let (registry, _metrics) = begun();
    let error = Prometheus::new(&registry).expect_err("the registry has the metrics");
    assert!(error.to_string().contains("create one `Prometheus` for each registry"), "{error}");
}

#[test]
fn buckets_can_be_set_and_are_checked() {
    let registry = Registry::new();
    let metrics = Prometheus::builder(&registry)
        .in_queue_buckets([1.0, 2.0])
        .processing_buckets([4.0])
        .build()
        .expect("usable buckets");
    metrics.register_queue_length("echo", read(0.0)).expect("the first of its name");
    let text = text(&registry);
    assert_eq!(text.matches("kooper_controller_event_in_queue_duration_seconds_bucket").count(), 3);
    assert_eq!(text.matches(r#"processed_event_duration_seconds_bucket{controller="echo",success="true""#).count(), 2);
    for buckets in [vec![], vec![2.0, 1.0], vec![f64::NAN], vec![1.0, f64::INFINITY]] {
        let error = Prometheus::builder(&Registry::new()).in_queue_buckets(buckets).build().expect_err("not usable");
        assert!(error.to_string().contains("in increasing order"), "{error}");
    }
}

#[tokio::test]
async fn requests_of_a_client_are_counted_by_their_response() {
    let (registry, metrics) = begun();
    let server = "https://user@10.0.0.1:6443/prefix".parse().expect("a URL");
    let service =
        metrics.client_layer(&server).layer(tower::service_fn(async |request: http::Request<()>| {
            match request.uri().path() {
                "/broken" => Err("refused"),
                "/slow" => std::future::pending().await,
                path => {
                    Ok(http::Response::builder().status(if path == "/" { 200 } else { 404 }).body(()).expect("built"))
                }
            }
        }));
    for path in ["/", "/", "/absent", "/broken"] {
        let _ = service.clone().oneshot(http::Request::get(path).body(()).expect("built")).await;
    }
    let slow = service.oneshot(http::Request::post("/slow").body(()).expect("built"));
    assert!(tokio::time::timeout(Duration::from_millis(1), slow).await.is_err());
    let text = text(&registry);
    for line in [
        r#"rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 2"#,
        r#"rest_client_requests_total{code="404",host="10.0.0.1:6443",method="GET"} 1"#,
        r#"rest_client_requests_total{code="<error>",host="10.0.0.1:6443",method="GET"} 1"#,
        r#"rest_client_requests_total{code="<error>",host="10.0.0.1:6443",method="POST"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn no_metrics_accepts_every_call() {
    let metrics: &dyn MetricsRecorder = &NoMetrics;
    for _ in 0..2 {
        metrics.register_queue_length("echo", read(0.0)).expect("nothing is registered");
        metrics.register_gauge("echo", Gauge::StoreBytes, read(0.0)).expect("nothing is registered");
    }
    metrics.count("echo", Counter::Add);
    metrics.observe_work_duration("echo", Duration::ZERO);
    metrics.observe_lease_renewal("echo", Duration::ZERO);
    metrics.observe_shard_handover("echo", Duration::ZERO);
}
