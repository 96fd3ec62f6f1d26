//! The export of spans to an OpenTelemetry collector.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::process::Process;
use kooper_tests::tools::has;
use kooper_tests::wait::{eventually, until};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use serde_json::json;

use crate::support::{TRACED, cluster, pod, start, stop};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Interval at which spans are exported, in milliseconds.
const EACH: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "100");

/// A collector that accepts OTLP over HTTP, and keeps the requests.
struct Collector {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Sent>>>,
}

#[derive(Clone)]
struct Sent {
    compressed: bool,
    request: ExportTraceServiceRequest,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let requests = Arc::new(Mutex::default());
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                thread::spawn(move || while take(&stream, &kept).is_some() {});
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn sent(&self) -> Vec<Sent> {
        self.requests.lock().expect("not poisoned").clone()
    }

    fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        self.sent().into_iter().map(|sent| sent.request).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

/// One request of a connection; `None` when there are no more.
fn take(mut stream: &TcpStream, kept: &Mutex<Vec<Sent>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let compressed = head.contains("content-encoding: gzip\r\n");
    if compressed {
        let mut plain = Vec::new();
        GzDecoder::new(&*body).read_to_end(&mut plain).expect("gzip");
        body = plain;
    }
    let request = ExportTraceServiceRequest::decode(&*body).expect("OTLP");
    kept.lock().expect("not poisoned").push(Sent { compressed, request });
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()
}

/// The value of an attribute as a string.
fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        Value::BoolValue(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// Creates a pod that succeeds and one that fails, and runs `traced` until the second was tried four times.
fn traced(cluster: &ControlPlane, namespace: &str, args: &[&str], variables: &[(&str, &str)]) -> Process {
    let mut broken = pod(namespace, "broken");
    broken["metadata"]["labels"]["broken"] = json!("yes");
    cluster.apply([pod(namespace, "plain"), broken]);
    let program = start(TRACED, cluster, namespace, args, variables);
    program.wait_for_line(&[&format!("key={namespace}/plain attempt=1"), "}:work", "works"]);
    program.wait_for_line(&[&format!("key={namespace}/broken attempt=4"), "the handler failed: it is broken"]);
    program
}

#[test]
fn a_call_is_exported_as_a_span_with_its_steps_before_the_program_ends() {
    let namespace = "traces";
    let Some(cluster) = cluster(namespace) else { return };
    let collector = Collector::start();
    let program = traced(cluster, namespace, &["--resync", "off"], &[(ENDPOINT, &collector.url())]);
    stop(program);

    let spans = collector.spans();
    for (name, attempts, status) in [("plain", 1, StatusCode::Unset), ("broken", 4, StatusCode::Error)] {
        let key = format!("{namespace}/{name}");
        for attempt in 1..=attempts {
            let is_it = |span: &&Span| {
                let has = |key: &str, value: &str| attribute(&span.attributes, key).as_deref() == Some(value);
                span.name == "call"
                    && has("controller", "traced")
                    && has("key", &key)
                    && has("attempt", &attempt.to_string())
            };
            let found: Vec<_> = spans.iter().filter(is_it).collect();
            let [call] = found[..] else { panic!("one span of attempt {attempt} of {key}: {spans:#?}") };
            assert!(call.parent_span_id.is_empty(), "it is the root: {call:#?}");
            assert_eq!(call.status.clone().unwrap_or_default().code(), status, "{call:#?}");
            assert!(call.end_time_unix_nano >= call.start_time_unix_nano, "{call:#?}");
            let below = |span: &&Span| span.trace_id == call.trace_id && span.parent_span_id == call.span_id;
            let mut steps: Vec<_> = spans.iter().filter(below).map(|span| &*span.name).collect();
            steps.sort_unstable();
            assert_eq!(steps, ["fetch", "work"]);
        }
    }
    assert_eq!(spans.iter().filter(|span| span.name == "call").count(), 5, "each is sent once");

    for sent in collector.requests().iter().flat_map(|request| &request.resource_spans) {
        let said = sent.resource.clone().expect("it has a resource").attributes;
        assert_eq!(attribute(&said, "service.name").as_deref(), Some("traced"));
        assert_eq!(attribute(&said, "service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn lines_of_the_log_have_the_trace_of_their_call() {
    let namespace = "traces-ids";
    let Some(cluster) = cluster(namespace) else { return };
    let collector = Collector::start();
    let json = ["--log-format", "json", "--resync", "off"];
    let url = collector.url();
    for (args, compression) in [(&json[2..], "none"), (&json, "gzip")] {
        let before = collector.sent().len();
        cluster.must(&["delete", "pods", "--all", "--now", "--namespace", namespace]);
        cluster.apply([pod(namespace, "plain")]);
        let variables = [(ENDPOINT, &*url), ("OTEL_EXPORTER_OTLP_COMPRESSION", compression)];
        let program = start(TRACED, cluster, namespace, args, &variables);
        let line = program.wait_for_line(&["works", "trace_id"]);
        stop(program);
        let sent = &collector.sent()[before..];
        assert!(!sent.is_empty() && sent.iter().all(|sent| sent.compressed == (compression == "gzip")));
        let spans = collector.spans();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let known = |span: &Span| {
            let (trace, own) = (hex(&span.trace_id), hex(&span.span_id));
            let has_span = args.len() == 2 || line.contains(&format!("\"span_id\":\"{own}\""));
            span.name == "work" && line.contains(&trace) && has_span
        };
        assert!(spans.iter().any(known), "{line}: {spans:#?}");
    }
}

#[test]
fn a_real_collector_accepts_compressed_spans() {
    if !has("otel-collector") {
        return;
    }
    let namespace = "traces-collector";
    let Some(cluster) = cluster(namespace) else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("collector");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).expect("a folder");
    let address = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let (config, received) = (folder.join("config.yaml"), folder.join("spans.json"));
    let settings = json!({
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": address.to_string()}}}},
        "exporters": {"file": {"path": received}},
        "service": {
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
    });
    // JSON is YAML.
    fs::write(&config, settings.to_string()).expect("written");
    let mut command = Command::new("otel-collector");
    let collector = Process::run(command.arg("--config").arg(&config));
    collector.wait_for_line(&["Everything is ready"]);

    let variables = [(ENDPOINT, &*format!("http://{address}")), ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"), EACH];
    let program = traced(cluster, namespace, &["--resync", "off"], &variables);
    let line = program.wait_for_line(&["works", "trace_id="]);
    stop(program);
    let trace = line.rsplit_once("trace_id=").expect("it is there").1.to_owned();
    let spans = || {
        let text = fs::read_to_string(&received).unwrap_or_default();
        (text.contains(&trace) && text.contains("\"name\":\"fetch\"")).then_some(())
    };
    until("the spans of the call are received", spans, || collector.lines().join("\n"));
}

#[test]
fn levels_apply_to_spans_and_the_exporter_itself_has_none() {
    let namespace = "traces-debug";
    let Some(cluster) = cluster(namespace) else { return };
    let collector = Collector::start();
    let url = collector.url();
    let variables = [(ENDPOINT, &*url), EACH, ("OTEL_SERVICE_NAME", "shop")];
    let program = traced(cluster, namespace, &["--log-level", "debug", "--resync", "200ms"], &variables);
    eventually("many batches are sent", || collector.requests().len() > 5);
    // The spans of the API server's client are exported with `debug` only.
    let named = |name: &str| collector.spans().into_iter().filter(|span| span.name == name).collect::<Vec<_>>();
    until("a span of a request", || named("HTTP").pop(), || format!("{:#?}", collector.spans()));
    let lines = stopped(program);
    assert!(lines.iter().any(|line| line.contains(":HTTP{")), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains("/v1/traces")), "{lines:#?}");
    for span in collector.spans() {
        let url = attribute(&span.attributes, "http.url").unwrap_or_default();
        assert!(!url.contains("/v1/traces"), "{span:#?}");
    }
    let requests = collector.requests();
    let said = requests[0].resource_spans[0].resource.clone().expect("it has a resource").attributes;
    assert_eq!(attribute(&said, "service.name").as_deref(), Some("shop"));
}

#[test]
fn a_call_below_the_level_has_no_span() {
    let namespace = "traces-off";
    let Some(cluster) = cluster(namespace) else { return };
    cluster.apply([pod(namespace, "plain")]);
    let collector = Collector::start();
    let args = ["--log-level", "info,kooper=off"];
    let mut program = start(TRACED, cluster, namespace, &args, &[(ENDPOINT, &collector.url())]);
    program.wait_for_line(&["works"]);
    program.terminate();
    let spans = collector.spans();
    assert!(spans.iter().any(|span| span.name == "work"), "{spans:#?}");
    assert!(spans.iter().all(|span| span.name != "call"), "{spans:#?}");
}

#[test]
fn an_unavailable_collector_is_logged_once_and_delays_neither_handlers_nor_the_stop() {
    let namespace = "traces-away";
    let Some(cluster) = cluster(namespace) else { return };
    let away = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("a bound socket has an address")
    };
    let program = traced(cluster, namespace, &[], &[(ENDPOINT, &format!("http://{away}")), EACH]);
    let warning = ["spans cannot be exported: ", "Connection refused"];
    program.wait_for_line(&warning);
    let begun = Instant::now();
    let lines = stopped(program);
    let took = begun.elapsed();
    assert_eq!(lines.iter().filter(|line| warning.iter().all(|part| line.contains(part))).count(), 1, "{lines:#?}");
    assert!(took < Duration::from_secs(8), "the stop took {took:?}");

    // A connection is accepted by the system, and there is never a response.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("a bound socket has an address"));
    let program = traced(cluster, namespace, &[], &[(ENDPOINT, &url), EACH]);
    let begun = Instant::now();
    let lines = stopped(program);
    let took = begun.elapsed();
    assert!(lines.iter().any(|line| line.contains("the last spans could not be exported within 3s")), "{lines:#?}");
    assert!(took < Duration::from_secs(8), "the stop took {took:?}");
}

/// Stops a program in order, and returns its lines.
fn stopped(mut program: Process) -> Vec<String> {
    program.terminate();
    assert_eq!(program.count(&[" stopped"]), 1, "{}", program.lines().join("\n"));
    program.lines()
}

#[test]
fn a_variable_sets_the_certificate_authority_of_an_https_collector() {
    let namespace = "traces-https";
    let Some(cluster) = cluster(namespace) else { return };
    // It is not a collector, but it has a certificate, and responds.
    let url = format!("https://{}", cluster.address());
    let certificate = cluster.dir().join("certificates").join("apiserver.crt");
    let certificate = ("OTEL_EXPORTER_OTLP_CERTIFICATE", certificate.to_str().expect("the path is UTF-8"));
    let program = traced(cluster, namespace, &["--resync", "off"], &[(ENDPOINT, &url), certificate, EACH]);
    program.wait_for_line(&[
        "spans cannot be exported: the response was 40",
        "set credentials with OTEL_EXPORTER_OTLP_HEADERS",
    ]);
    stop(program);

    let variables = [(ENDPOINT, &*url), ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.crt")];
    let mut program = Process::start(TRACED, &["--listen", "off"], &variables);
    assert_eq!(program.exit_code(), Some(1), "{}", program.lines().join("\n"));
    program.wait_for_line(&["error: spans cannot be exported to https://", "No such file"]);
}

#[test]
fn an_invalid_endpoint_is_reported_at_the_start_of_run_only() {
    let variables = [(ENDPOINT, "collector:4318")];
    let mut program = Process::start(TRACED, &["--listen", "off"], &variables);
    assert_eq!(program.exit_code(), Some(2));
    let error = "error: invalid value 'collector:4318' for the environment variable OTEL_EXPORTER_OTLP_ENDPOINT: \
                write the URL of a collector that accepts OTLP over HTTP, such as `http://collector:4318`";
    assert_eq!(program.lines(), [error]);
    let mut program = Process::start(TRACED, &["crd"], &variables);
    assert_eq!(program.exit_code(), Some(0), "{}", program.lines().join("\n"));
}
