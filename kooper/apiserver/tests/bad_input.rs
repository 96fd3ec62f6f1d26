//! Whatever a client sends, it gets an answer: that of the API, or a Status that says what is wrong.
//!
//! `KOOPER_CASES` sets how many requests are tried, `KOOPER_SEED` which.

#[path = "bad_input/mutated.rs"]
mod mutated;
#[path = "bad_input/tokens.rs"]
mod tokens;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use kooper_apiserver::{ApiServer, Body};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

/// A runtime whose clock runs ahead while nothing happens.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("there is a runtime")
}

async fn send<B>(server: &ApiServer, request: Request<B>) -> Response<Body>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    server.service().oneshot(request).await.expect("the server answers")
}

/// The status and the body of an answer; a watch is read for a moment.
async fn read(response: Response<Body>) -> (StatusCode, String) {
    let (status, bytes) = read_bytes(response).await;
    (status, String::from_utf8(bytes).expect("answers are UTF-8"))
}

async fn read_bytes(response: Response<Body>) -> (StatusCode, Vec<u8>) {
    let status = response.status();
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_secs(1), body.frame()).await {
        bytes.extend_from_slice(&frame.expect("the body ends well").into_data().unwrap_or_default());
    }
    (status, bytes)
}

async fn answer(server: &ApiServer, method: &str, path: &str, media: &str, body: &[u8]) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    read(send(server, request.body(Full::new(Bytes::copy_from_slice(body))).expect("it is a request")).await).await
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: &str = "application/json";

/// A refusal is a Status with its own code, or the page of an unknown path.
fn check(status: StatusCode, body: &str) {
    if status.is_success() {
        return;
    }
    let refusal: Value = serde_json::from_str(body).unwrap_or_default();
    if refusal.is_null() {
        assert!(body == "404 page not found\n" || status == StatusCode::METHOD_NOT_ALLOWED, "{status}: {body}");
        return;
    }
    assert_eq!(refusal["code"], status.as_u16(), "{body}");
    assert_eq!(refusal["kind"], "Status", "{body}");
    assert!(is_allowed(status, refusal["message"].as_str().unwrap_or_default()), "{status}: {body}");
}

/// The real server answers most mistakes in a strategic merge patch with 500.
fn is_strategic_mistake(media: &str, status: StatusCode) -> bool {
    media.starts_with("application/strategic-merge-patch+json") && status == StatusCode::INTERNAL_SERVER_ERROR
}

/// Returns whether a refusal is allowed: a client error, an error that the real server answers with
/// 500 or 504, or a feature that is not implemented.
fn is_allowed(status: StatusCode, message: &str) -> bool {
    let known = [
        "resourceVersion should not be set",
        "resourceVersion: Invalid value",
        "strconv.ParseUint",
        "Object 'apiVersion' is missing in 'object has no apiVersion field'",
        "the spec replicas field",
        "Too large resource version",
        "target.name: Required value",
        "target.kind: Unsupported value",
        "more than one PodDisruptionBudget",
    ];
    status.is_client_error()
        || status == StatusCode::NOT_IMPLEMENTED
        || known.iter().any(|known| message.contains(known))
        // A configuration that does not fit the schema.
        || message.contains("failed to create typed patch object")
        // One that fits the schema, but not the type: base64 that does not decode.
        || message.contains("failed to convert new object")
}

/// One of these words.
fn word(words: &'static str) -> prop::sample::Select<&'static str> {
    prop::sample::select(words.split(' ').collect::<Vec<_>>())
}

fn path() -> impl Strategy<Value = String> {
    let known = prop_oneof![
        Just(MAPS.to_owned()),
        Just(format!("{MAPS}/a")),
        Just("/api/v1/namespaces/default/pods/a/status".to_owned()),
        Just("/apis/apps/v1/namespaces/default/deployments/a/scale".to_owned()),
        Just("/apis/apps/v1/namespaces/default/deployments".to_owned()),
        Just(DEFINITIONS.to_owned()),
        Just(format!("{DEFINITIONS}/things.input.example")),
        Just("/apis/input.example/v1/namespaces/default/things".to_owned()),
        Just("/apis/input.example/v1/namespaces/default/things/a".to_owned()),
        Just("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned()),
        Just("/apis/rbac.authorization.k8s.io/v1/clusterroles/a".to_owned()),
    ];
    let part = prop_oneof![
        1 => "[a-z]{0,3}",
        1 => "(%[0-9a-fA-F]{2}){1,3}",
        6 => word("namespaces watch v1 apis api ..").prop_map(str::to_owned),
    ];
    prop_oneof![4 => known, 1 => vec(part, 0..8).prop_map(|parts| format!("/{}", parts.join("/")))]
}

fn query() -> impl Strategy<Value = String> {
    let key = word(
        "labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch timeoutSeconds watch \
         sendInitialEvents allowWatchBookmarks dryRun fieldValidation fieldManager force gracePeriodSeconds \
         propagationPolicy orphanDependents pretty",
    );
    let value = prop_oneof![
        1 => Just(String::new()),
        1 => "[0-9]{1,25}",
        1 => "-[0-9]{1,20}",
        5 => word("true NotOlderThan Exact All Strict").prop_map(str::to_owned),
        1 => "[a-z!=,()<>+ ./]{0,12}".prop_map(|text| text.replace(' ', "+").replace('<', "%3C").replace('>', "%3E")),
        1 => "(%[0-9a-fA-F]{2}){1,6}",
        1 => "[a-z%&=]{0,8}",
    ];
    vec((key, value), 0..4).prop_map(|pairs| pairs.iter().map(|(key, value)| format!("{key}={value}&")).collect())
}

fn media() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just(JSON),
        2 => Just("application/merge-patch+json"),
        2 => Just("application/json-patch+json"),
        2 => Just("application/strategic-merge-patch+json"),
        2 => Just("application/apply-patch+yaml"),
        1 => Just("application/yaml"),
        1 => Just("application/vnd.kubernetes.protobuf"),
        1 => Just("text/plain"),
        1 => Just(";;"),
    ]
}

/// Values with the names that mean something to the server.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9._/-]{0,12}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        word("a v1 ConfigMap replace delete merge").prop_map(Value::from),
    ];
    let key = prop_oneof![
        word(
            "metadata name labels finalizers ownerReferences managedFields fieldsV1 f:data data spec status kind \
             apiVersion $patch $retainKeys $setElementOrder/finalizers $deleteFromPrimitiveList/finalizers versions \
             schema openAPIV3Schema properties items type x-kubernetes-validations rule default names group \
             containers template selector replicas op path from value uid resourceVersion preconditions \
             generateName subjects rules",
        )
        .prop_map(str::to_owned),
        "[a-z]{0,3}",
    ];
    scalar.prop_recursive(6, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((key.clone(), inner), 0..6).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// An object with something wrong in it, a list of operations, anything else, or what is not JSON at all.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let named = (value(), value(), value()).prop_map(|(metadata, spec, data)| {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "spec": spec, "data": data});
        if let (Value::Object(into), Value::Object(from)) = (&mut object["metadata"], metadata) {
            into.extend(from);
        }
        object
    });
    let operation = (
        word("add remove replace move copy test x"),
        "(/(metadata|data|labels|finalizers|-|0|1|99999999999999999999|~0|~1|~2|a)){0,4}",
        "(/(metadata|data|a)){0,3}",
        value(),
    );
    let operation =
        operation.prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    let text = prop_oneof![
        4 => named.prop_map(|value| value.to_string()),
        2 => value().prop_map(|value| value.to_string()),
        2 => vec(operation, 0..5).prop_map(|operations| Value::from(operations).to_string()),
    ];
    prop_oneof![
        8 => text.clone().prop_map(String::into_bytes),
        2 => (text, any::<prop::sample::Index>()).prop_map(|(text, at)| {
            let mut bytes = text.into_bytes();
            bytes.truncate(at.index(bytes.len() + 1));
            bytes
        }),
        1 => vec(any::<u8>(), 0..60),
        1 => "[ a-z:{}\\[\\]&*!|>\n-]{0,60}".prop_map(String::into_bytes),
    ]
}

#[test]
fn any_request_gets_an_answer() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect(name));
    let (cases, seed) = (number("KOOPER_CASES", 1500), number("KOOPER_SEED", 1));
    let runtime = runtime();
    let server = runtime.block_on(ApiServer::start()).expect("loopback can be listened on");
    let definition = definition(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    runtime.block_on(async {
        let (status, body) = answer(&server, "POST", DEFINITIONS, JSON, definition.to_string().as_bytes()).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
    });
    let method = prop_oneof![
        3 => Just("GET"), 4 => Just("POST"), 3 => Just("PUT"), 6 => Just("PATCH"), 2 => Just("DELETE"), 1 => Just("HEAD"),
        1 => Just("OPTIONS"), 1 => Just("BREW"),
    ];
    let request = (method, path(), query(), media(), body());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_le_bytes(); 8].concat());
    let mut runner = TestRunner::new_with_rng(config, random);
    let result = runner.run(&request, |(method, path, query, media, body)| {
        let uri = format!("{path}?{query}");
        prop_assume!(uri.parse::<http::Uri>().is_ok());
        runtime.block_on(async {
            let (status, body) = answer(&server, method, &uri, media, &body).await;
            if method != "HEAD" && !is_strategic_mistake(media, status) {
                check(status, &body);
            }
        });
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

fn definition(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.input.example"},
        "spec": {
            "group": "input.example", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]
        }
    })
}

/// A body that ends, or fails, after some bytes.
struct Broken(Vec<Result<Bytes, &'static str>>);

impl http_body::Body for Broken {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(if self.0.is_empty() { None } else { Some(self.0.remove(0).map(Frame::data)) })
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_or_is_too_long_is_refused() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let post = |body: Broken| Request::post(MAPS).header("content-type", JSON).body(body).expect("it is a request");
    let broken = Broken(vec![Ok(Bytes::from_static(b"{\"metadata\"")), Err("the connection is gone")]);
    let (status, body) = read(send(&server, post(broken)).await).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    check(status, &body);
    // Without a length, so that it must be read to be known.
    let long = Broken(std::iter::repeat_n(Ok(Bytes::from_static(&[b' '; 1 << 16])), 64).collect());
    let (status, body) = read(send(&server, post(long)).await).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    check(status, &body);
    let (status, body) = answer(&server, "POST", MAPS, JSON, &[b' '; 4 << 20]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    check(status, &body);
}

#[tokio::test]
async fn what_is_nested_deeply_is_refused() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let deep = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    for depth in [100, 1000, 100_000] {
        let nested = deep("{\"a\":", "1", "}", depth);
        let lists = deep("[", "", "]", depth);
        for (method, path, media, body) in [
            ("POST", MAPS.to_owned(), JSON, format!(r#"{{"metadata": {{"name": "a"}}, "data": {nested}}}"#)),
            ("POST", MAPS.to_owned(), JSON, lists.clone()),
            ("POST", MAPS.to_owned(), "application/yaml", lists.clone()),
            ("PATCH", format!("{MAPS}/a?fieldManager=a"), "application/apply-patch+yaml", nested.clone()),
            ("PATCH", format!("{MAPS}/a"), "application/merge-patch+json", nested.clone()),
            ("PATCH", format!("{MAPS}/a"), "application/strategic-merge-patch+json", nested.clone()),
            (
                "PATCH",
                format!("{MAPS}/a"),
                "application/json-patch+json",
                format!(r#"[{{"op": "add", "path": "/data", "value": {nested}}}]"#),
            ),
            ("DELETE", format!("{MAPS}/a"), JSON, nested.clone()),
        ] {
            let (status, body) = answer(&server, method, &path, media, body.as_bytes()).await;
            check(status, &body);
        }
        let rule = deep("(", "true", ")", depth);
        let not = format!("{}true", "!".repeat(depth));
        let sum = format!("1{} == 1", " + 1".repeat(depth));
        for rule in [rule, not, sum] {
            let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
            let (status, body) =
                answer(&server, "POST", DEFINITIONS, JSON, definition(&schema).to_string().as_bytes()).await;
            check(status, &body);
            answer(&server, "DELETE", &format!("{DEFINITIONS}/things.input.example"), JSON, b"").await;
        }
    }
}

#[tokio::test]
async fn small_bodies_do_not_grow_without_bound() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    answer(&server, "POST", MAPS, JSON, br#"{"metadata": {"name": "a"}, "data": {"a": "1"}}"#).await;
    // Each operation doubles what is there.
    let mut operations = vec![json!({"op": "add", "path": "/x", "value": {"a": "0123456789"}})];
    for index in 0..60 {
        operations.push(json!({"op": "copy", "from": "/x", "path": format!("/x/{index}")}));
    }
    let operations = Value::from(operations).to_string();
    let path = format!("{MAPS}/a");
    let (status, body) = answer(&server, "PATCH", &path, "application/json-patch+json", operations.as_bytes()).await;
    assert!(status.is_client_error(), "{status}");
    check(status, &body);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for index in 1..12 {
        let before = format!("*a{}", index - 1);
        bomb.push_str(&format!("a{index}: &a{index} [{}]\n", vec![before; 10].join(", ")));
    }
    let (status, body) = answer(&server, "POST", MAPS, "application/yaml", bomb.as_bytes()).await;
    assert!(status.is_client_error(), "{status}");
    check(status, &body);
    let many: Vec<_> = (0..10_001).map(|_| json!({"op": "test", "path": "/data/a", "value": "1"})).collect();
    let many = Value::from(many).to_string();
    let (status, _) = answer(&server, "PATCH", &path, "application/json-patch+json", many.as_bytes()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// A watch that is never read keeps its position only, and finds what happened when it is read at last.
#[tokio::test]
async fn a_watch_that_is_not_read_delays_no_other_request() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let watch = Request::get(format!("{MAPS}?watch=1")).body(Full::new(Bytes::new())).expect("it is a request");
    let watch = send(&server, watch).await;
    for index in 0..2000 {
        let object = json!({"metadata": {"name": format!("a-{index}")}}).to_string();
        let (status, _) = answer(&server, "POST", MAPS, JSON, object.as_bytes()).await;
        assert_eq!(status, StatusCode::CREATED);
    }
    let mut body = watch.into_body();
    let mut events = 0;
    while events < 2000 {
        let frame = body.frame().await.expect("the watch lasts").expect("it does not fail");
        events += frame.into_data().unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
    }
}

/// An option that is ignored would delete what a dry run or a precondition protects.
#[tokio::test]
async fn an_option_of_a_deletion_has_the_type_of_the_api() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    answer(&server, "POST", MAPS, JSON, br#"{"metadata": {"name": "a"}}"#).await;
    let path = format!("{MAPS}/a");
    let wrong = ["\"dryRun\": \"All\"", "\"preconditions\": {\"uid\": 1}", "\"propagationPolicy\": [\"Orphan\"]"];
    for wrong in wrong {
        let (status, body) = answer(&server, "DELETE", &path, JSON, format!("{{{wrong}}}").as_bytes()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}: {body}");
        check(status, &body);
        assert!(body.contains("json: cannot unmarshal"), "{wrong}: {body}");
    }
    let (status, _) = answer(&server, "GET", &path, JSON, b"").await;
    assert_eq!(status, StatusCode::OK);
}

/// The largest and smallest numbers that a query can have.
#[tokio::test(start_paused = true)]
async fn absurd_limits_and_timeouts_are_served_or_refused() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let numbers =
        ["0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e9", "0x10", " 1", "%00"];
    for number in numbers {
        for name in ["limit", "timeoutSeconds", "resourceVersion", "gracePeriodSeconds", "continue"] {
            for (method, more) in [
                ("GET", ""),
                ("GET", "&watch=1"),
                ("GET", "&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
                ("DELETE", ""),
            ] {
                let uri = format!("{MAPS}?{name}={number}{more}").replace(' ', "%20");
                let method: Method = method.parse().expect("it is a method");
                let (status, body) = answer(&server, method.as_str(), &uri, JSON, b"").await;
                check(status, &body);
            }
        }
    }
}
