use std::net::Ipv4Addr;
use std::sync::{Arc, LazyLock};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::admission::Admission;
use crate::denied::Denied;
use crate::webhook::FailurePolicy;

const CHECK: &str = "/validate--v1-configmap/check";
const FILL: &str = "/mutate--v1-configmap/fill";

/// Does what `data.do` says.
async fn check(new: Arc<ConfigMap>, old: Option<Arc<ConfigMap>>, request: Admission) -> kooper_runtime::Result<()> {
    let word = |object: &ConfigMap| object.data.as_ref().and_then(|data| data.get("do").cloned()).unwrap_or_default();
    match word(&new).as_str() {
        "deny" => {
            return Err(Denied::default().field("data.do", "must not be `deny`").field("data.b", "is missing").into());
        }
        "deny within" => return Err(Wrapped(Denied::new("the shop is shut")).into()),
        "fail" => return Err("the stock cannot be read".into()),
        "quote" => {
            let error = serde_json::from_str::<Vec<u8>>("\"the canary\"").expect_err("it is no list");
            return Err(kube::Error::SerdeError(error).into());
        }
        "panic" => panic!("the canary is secret"),
        "block" => std::thread::sleep(Duration::from_secs(20)),
        "wait" => std::future::pending().await,
        "spawn" => {
            let (send, receive) = mpsc::channel();
            tokio::spawn(async move { send.send(()) });
            receive.recv_timeout(Duration::from_secs(10)).expect("the task runs while its caller waits");
        }
        "warn" => {
            request.warn("it is late");
            request.audit("was", old.map_or_else(|| "nothing".to_owned(), |old| word(&old)));
        }
        "shout" => request.warn("x".repeat(16 << 20)),
        _ => {}
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("it is denied")]
struct Wrapped(#[source] Denied);

async fn fill(mut object: ConfigMap) -> ConfigMap {
    object.data.get_or_insert_default().entry("motto".to_owned()).or_insert_with(|| "keep calm".to_owned());
    object
}

struct Client {
    address: SocketAddr,
    connector: TlsConnector,
}

/// A certificate and a client's trust in it, which are made once for hundreds of servers. Each connection has a whole
/// handshake.
static TLS: LazyLock<(TlsAcceptor, TlsConnector)> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let chain: Vec<CertificateDer<'static>> = vec![made.cert.der().clone()];
    let acceptor = kooper_serving::acceptor(chain.clone(), key.into()).expect("a certificate and its key");
    let mut roots = RootCertStore::empty();
    roots.add(chain[0].clone()).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(kooper_serving::provider()));
    let config = config.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.resumption = Resumption::disabled();
    (acceptor, TlsConnector::from(Arc::new(config)))
});

fn started() -> (Server, Client) {
    let (acceptor, connector) = TLS.clone();
    let validate = Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Fail).function(check);
    let mutate = Webhook::mutate::<ConfigMap>("fill").failure(FailurePolicy::Fail).function(fill);
    let webhooks = [validate.build(), mutate.build()].map(|built| Arc::new(built.expect("a webhook")));
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let metrics = Metrics::new("shop".to_owned()).expect("metrics");
    let server = Server::start(any, webhooks, Arc::new(move || Some(acceptor.clone())), metrics).expect("it starts");
    let client = Client { address: server.address, connector };
    (server, client)
}

impl Client {
    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        let name = ServerName::try_from("localhost").expect("a name");
        self.connector.connect(name, stream).await.expect("the certificate is trusted")
    }

    /// Sends a text, and returns status and body of the response.
    async fn exchange(&self, text: &[u8]) -> (u16, Value) {
        let mut stream = self.connect().await;
        // The server may answer before it has read everything. Until it is flushed, the last of a long text
        // may wait in the stream, whose reads do not send it.
        drop(stream.write_all(text).await);
        drop(stream.flush().await);
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {answer}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        (status, serde_json::from_str(body).expect("JSON"))
    }

    async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        self.exchange((head + body).as_bytes()).await
    }

    async fn review(&self, path: &str, object: &Value) -> (u16, Value) {
        self.post(path, &review(object).to_string()).await
    }
}

fn review(object: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1-2", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "operation": "UPDATE",
        "name": "motto", "namespace": "shop", "userInfo": {"username": "jane"},
        "object": object, "oldObject": {"metadata": {"name": "motto"}, "data": {"do": "sleep"}},
    }})
}

fn doing(word: &str) -> Value {
    json!({"metadata": {"name": "motto"}, "data": {"do": word}})
}

#[tokio::test]
async fn a_request_is_allowed_with_warnings_and_audit_annotations() {
    let (_server, client) = started();
    let (status, body) = client.review(CHECK, &doing("warn")).await;
    let expected =
        json!({"uid": "1-2", "allowed": true, "warnings": ["it is late"], "auditAnnotations": {"was": "sleep"}});
    assert_eq!((status, &body["response"]), (200, &expected));
    assert_eq!((&body["apiVersion"], &body["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
}

#[tokio::test]
async fn a_denial_has_every_cause_with_its_field_wherever_it_is_in_the_chain() {
    let (_server, client) = started();
    let (status, body) = client.review(CHECK, &doing("deny")).await;
    let response = &body["response"];
    assert_eq!((status, &response["allowed"], &response["status"]["code"]), (200, &json!(false), &json!(422)));
    assert_eq!(response["status"]["reason"], "Invalid");
    let causes = &response["status"]["details"]["causes"];
    assert_eq!((&causes[0]["field"], &causes[1]["field"]), (&json!("data.do"), &json!("data.b")));
    let (_, within) = client.review(CHECK, &doing("deny within")).await;
    assert_eq!(within["response"]["status"]["message"], "the shop is shut");
}

#[tokio::test]
async fn other_errors_and_panics_are_failures_that_the_failure_policy_decides_on() {
    let (_server, client) = started();
    let (status, body) = client.review(CHECK, &doing("fail")).await;
    assert_eq!((status, &body["kind"], &body["code"]), (500, &json!("Status"), &json!(500)));
    assert_eq!(body["message"], "the function `check` failed: the stock cannot be read");
    let (status, body) = client.review(CHECK, &doing("quote")).await;
    assert_eq!(status, 500);
    assert!(!body.to_string().contains("canary"), "an object that does not decode is quoted: {body}");
    let (status, body) = client.review(CHECK, &doing("panic")).await;
    assert_eq!(
        (status, &body["message"]),
        (500, &json!("the function `check` panicked")),
        "a panic may quote anything"
    );
    assert_eq!(client.review(CHECK, &doing("nothing")).await.0, 200, "only that request failed");
}

#[tokio::test]
async fn a_function_that_waits_or_blocks_its_thread_is_answered_before_the_caller_gives_up() {
    let (_server, client) = started();
    for word in ["wait", "block"] {
        let (status, body) = client.review(&format!("{CHECK}?timeout=1s"), &doing(word)).await;
        let message = "the function `check` did not return within 900 ms";
        assert_eq!((status, &body["message"]), (500, &json!(message)), "{word}");
    }
    assert_eq!(client.review(CHECK, &doing("nothing")).await.0, 200);
}

#[tokio::test]
async fn a_server_starts_whichever_of_its_threads_is_first() {
    for _ in 0..500 {
        let (_server, client) = started();
        assert_eq!(client.review(CHECK, &doing("nothing")).await.0, 200);
    }
}

#[tokio::test]
async fn functions_that_block_after_many_quick_calls_delay_no_other_one() {
    let (server, client) = started();
    let client = Arc::new(client);
    let (_, quick) = &server.shared.webhooks[CHECK];
    let be_quick = async || {
        while !quick.are_enough() {
            client.review(CHECK, &doing("nothing")).await;
        }
    };
    be_quick().await;
    assert_eq!(client.review(CHECK, &doing("spawn")).await.0, 200);
    be_quick().await;
    let mut blocked = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let client = Arc::clone(&client);
        blocked.spawn(async move { client.review(CHECK, &doing("block")).await });
    }
    while !server.shared.threads.is_inline() {
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        assert_eq!(client.review(CHECK, &doing("nothing")).await.0, 200);
        assert_eq!(client.review(FILL, &doing("nothing")).await.0, 200);
    }
    assert!(blocked.try_join_next().is_none(), "they still block their threads");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_requests_that_panic_block_wait_or_fail_delay_no_other_one() {
    let (_server, client) = started();
    let client = Arc::new(client);
    let mut requests = tokio::task::JoinSet::new();
    for (word, expected) in
        ["panic", "block", "wait", "fail", "nothing", "deny"].into_iter().zip([500; 4].iter().chain(&[200; 2]))
    {
        for _ in 0..25 {
            let client = Arc::clone(&client);
            requests.spawn(async move {
                // Those that never end have less time than the others.
                let path =
                    if *expected == 500 { format!("{CHECK}?timeout=2s") } else { format!("{CHECK}?timeout=30s") };
                (word, *expected, client.review(&path, &doing(word)).await.0)
            });
        }
    }
    while let Some(answered) = requests.join_next().await {
        let (word, expected, status) = answered.expect("a response");
        assert_eq!(status, expected, "{word}");
    }
}

#[tokio::test]
async fn a_function_fills_a_field_and_what_it_leaves_is_not_sent() {
    let (_server, client) = started();
    let (_, body) = client.review(FILL, &doing("nothing")).await;
    let patch = body["response"]["patch"].as_str().expect("a patch");
    let patch = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, patch).expect("base64");
    let patch: Value = serde_json::from_slice(&patch).expect("JSON");
    assert_eq!(patch, json!([{"op": "add", "path": "/data/motto", "value": "keep calm"}]));
    let (_, body) = client.review(FILL, &json!({"metadata": {}, "data": {"motto": "mine"}})).await;
    assert_eq!(body["response"], json!({"uid": "1-2", "allowed": true}));
}

#[tokio::test]
async fn bad_input_gets_a_status_that_says_what_is_wrong() {
    let (_server, client) = started();
    let changed = |pointer: &str, value: Value| {
        let mut review = review(&doing("nothing"));
        *review.pointer_mut(pointer).expect("it is there") = value;
        review.to_string()
    };
    let cases = [
        ("garbage".to_owned(), 400, "the body is not an AdmissionReview in JSON (line 1, column 1)"),
        ("{}".to_owned(), 400, "the body is `, Kind=`, but must be `admission.k8s.io/v1, Kind=AdmissionReview`"),
        (
            changed("/apiVersion", json!("admission.k8s.io/v1beta1")),
            400,
            "the body is `admission.k8s.io/v1beta1, Kind=AdmissionReview`, but must be \
             `admission.k8s.io/v1, Kind=AdmissionReview`",
        ),
        (
            changed("/kind", json!("ConversionReview")),
            400,
            "the body is `admission.k8s.io/v1, Kind=ConversionReview`, but must be \
             `admission.k8s.io/v1, Kind=AdmissionReview`",
        ),
        (r#"{"apiVersion": "#.to_owned(), 400, "the body is not an AdmissionReview in JSON (line 1, column 15)"),
        (changed("/request", Value::Null), 400, "the review has no request"),
        (changed("/request", json!({})), 400, "the body is not an AdmissionReview in JSON (line 1, column 73)"),
        (
            changed("/request/operation", json!("DELETE")),
            400,
            "the operation is DELETE, but this webhook is for CREATE, UPDATE",
        ),
        (changed("/request/object", Value::Null), 400, "the request has no object"),
        (changed("/request/oldObject", Value::Null), 400, "the request has no oldObject"),
        (
            changed("/request/kind/kind", json!("Pod")),
            400,
            "the object is `v1, Kind=Pod`, but this webhook is for `v1, Kind=ConfigMap`",
        ),
        (
            changed("/request/object", json!({"metadata": {"name": "motto"}, "data": {"canary": 7}})),
            500,
            "the function `check` failed: object motto is not a valid ConfigMap: data.canary: expected a string, found a \
             number (line 1, column 19)",
        ),
    ];
    for (body, code, message) in cases {
        let (status, answer) = client.post(CHECK, &body).await;
        assert_eq!((status, answer["message"].as_str()), (code, Some(message)), "{body}");
        assert_eq!(answer["kind"], "Status");
    }
    assert_eq!(client.post("/validate--v1-pod/check", "{}").await.0, 404);
    let get = format!("GET {CHECK} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(client.exchange(get.as_bytes()).await.0, 405);
    let head = format!("POST {CHECK} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\n");
    assert_eq!(client.exchange(&[head.as_bytes(), b"\"\xff\""].concat()).await.0, 400, "it is not UTF-8");
    assert_eq!(client.review(CHECK, &doing("nothing")).await.0, 200, "only those requests failed");
}

#[tokio::test]
async fn a_body_of_seven_mebibytes_is_read_and_a_larger_one_is_refused() {
    let (_server, client) = started();
    let of = |size: usize| {
        let empty = review(&json!({"metadata": {"name": "motto"}, "data": {"x": ""}})).to_string();
        empty.replace("\"x\":\"\"", &format!("\"x\":\"{}\"", "x".repeat(size - empty.len())))
    };
    let slowly = format!("{CHECK}?timeout=60s");
    assert_eq!(client.post(&slowly, &of(answer::BODY)).await.0, 200);
    let (status, body) = client.post(&slowly, &of(answer::BODY + 1)).await;
    assert_eq!((status, &body["reason"]), (413, &json!("RequestEntityTooLarge")));
    // Nor is one whose size is not known before.
    let head = format!("POST {slowly} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(1 << 20)).repeat(8);
    assert_eq!(client.exchange((head + &chunk).as_bytes()).await.0, 413);
    assert_eq!(client.review(CHECK, &doing("nothing")).await.0, 200, "only that request failed");
}

#[tokio::test]
async fn large_bodies_take_no_more_memory_than_there_is_for_them_and_small_requests_go_on() {
    let (_server, client) = started();
    let head = format!("POST {CHECK}?timeout=60s HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", answer::BODY);
    let mut half = Vec::new();
    for _ in 0..answer::ROOM / (answer::BODY / 1024) {
        let mut stream = client.connect().await;
        stream.write_all(head.as_bytes()).await.expect("sent");
        half.push(stream);
    }
    let large = format!("{{{}}}", " ".repeat(answer::BODY - 2));
    let refused = async || client.post(&format!("{CHECK}?timeout=1s"), &large).await;
    let mut answer = refused().await;
    // The requests before may arrive later.
    while answer.0 != 503 {
        assert_eq!(answer.0, 400, "{answer:?}");
        answer = refused().await;
    }
    assert!(answer.1["message"].as_str().is_some_and(|text| text.contains("other large requests")), "{answer:?}");
    assert_eq!(client.review(CHECK, &doing("nothing")).await.0, 200);
    drop(half);
    let slowly = format!("{CHECK}?timeout=60s");
    assert_eq!(client.post(&slowly, &large).await.0, 400, "there is room again");
}

#[tokio::test]
async fn a_client_that_makes_no_handshake_or_sends_half_a_body_is_disconnected_and_holds_up_no_other() {
    let (_server, client) = started();
    let mut plain = TcpStream::connect(client.address).await.expect("the server listens");
    let mut slow = client.connect().await;
    let head = format!("POST {CHECK}?timeout=1s HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nhalf");
    slow.write_all(head.as_bytes()).await.expect("sent");
    assert_eq!(client.review(CHECK, &doing("nothing")).await.0, 200);
    let mut text = Vec::new();
    drop(slow.read_to_end(&mut text).await);
    assert!(String::from_utf8_lossy(&text).starts_with("HTTP/1.1 408 "), "{text:?}");
    let mut text = Vec::new();
    drop(plain.read_to_end(&mut text).await);
    assert_eq!(text, b"", "it is disconnected without a response");
}

#[tokio::test]
async fn a_connection_that_is_kept_in_reserve_serves_its_first_request_when_it_comes() {
    let (_server, client) = started();
    let mut reserve = client.connect().await;
    let mut plain = TcpStream::connect(client.address).await.expect("the server listens");
    drop(plain.read_to_end(&mut Vec::new()).await);
    // The time for a handshake is over.
    let body = review(&doing("nothing")).to_string();
    let head =
        format!("POST {CHECK} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    drop(reserve.write_all((head + &body).as_bytes()).await);
    let mut text = Vec::new();
    drop(reserve.read_to_end(&mut text).await);
    assert!(text.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&text));
}

#[tokio::test]
async fn a_connection_serves_many_requests_until_the_server_goes() {
    let (server, client) = started();
    let mut stream = client.connect().await;
    let body = review(&doing("nothing")).to_string();
    let head = format!("POST {CHECK} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut response = async |closes: bool| {
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut text = Vec::new();
        while !text.ends_with(b"}") {
            assert_ne!(stream.read_buf(&mut text).await.expect("a response"), 0, "it is open");
        }
        assert_eq!(String::from_utf8_lossy(&text).contains("connection: close"), closes);
    };
    response(false).await;
    response(false).await;
    server.shared.closing.store(true, Ordering::Relaxed);
    response(true).await;
    server.shutdown(Duration::ZERO).await;
    assert!(TcpStream::connect(client.address).await.is_err(), "it no longer listens");
}

#[tokio::test]
async fn half_a_head_does_not_hold_up_the_stop() {
    let (server, client) = started();
    let mut half = client.connect().await;
    half.write_all(b"POST / HTTP/1.1\r\nho").await.expect("sent");
    half.flush().await.expect("sent");
    // The server reads it meanwhile.
    assert_eq!(client.review(CHECK, &doing("nothing")).await.0, 200);
    let since = std::time::Instant::now();
    server.shutdown(Duration::ZERO).await;
    assert!(since.elapsed() < DRAIN, "{:?}", since.elapsed());
    drop(half);
}

#[tokio::test]
async fn a_response_that_is_read_slowly_is_complete_although_the_server_goes() {
    let (server, client) = started();
    let mut stream = client.connect().await;
    let body = review(&doing("shout")).to_string();
    let head = format!("POST {CHECK}?timeout=60s HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut text = vec![0];
    stream.read_exact(&mut text).await.expect("the response has begun");
    let stopping = tokio::spawn(server.shutdown(Duration::ZERO));
    while TcpStream::connect(client.address).await.is_ok() {}
    drop(stream.read_to_end(&mut text).await);
    assert!(text.ends_with(b"x\"]}}"), "{} bytes", text.len());
    stopping.await.expect("it stops");
}

#[tokio::test]
async fn metrics_count_requests_by_path_and_code_and_other_paths_do_not() {
    let (server, client) = started();
    for word in ["nothing", "deny", "panic"] {
        client.review(CHECK, &doing(word)).await;
    }
    client.post("/elsewhere", "{}").await;
    let registry = prometheus::Registry::new();
    server.shared.metrics.register(&registry, [CHECK.to_owned()].into_iter()).expect("registered");
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
    for line in [
        r#"controller_runtime_webhook_requests_total{code="200",webhook="/validate--v1-configmap/check"} 2"#,
        r#"controller_runtime_webhook_requests_total{code="500",webhook="/validate--v1-configmap/check"} 1"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/validate--v1-configmap/check"} 0"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/validate--v1-configmap/check"} 3"#,
        "controller_runtime_webhook_panics_total 1",
        r#"kooper_webhook_denied_total{webhook="/validate--v1-configmap/check"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("elsewhere"), "{text}");
}

#[test]
fn two_webhooks_cannot_have_the_same_path() {
    let webhook = Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Fail).function(check).build();
    let webhook = Arc::new(webhook.expect("a webhook"));
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let error = Server::start(
        any,
        [Arc::clone(&webhook), webhook],
        Arc::new(|| None),
        Metrics::new("shop".to_owned()).expect("metrics"),
    );
    let error = error.map(drop).expect_err("it is refused");
    assert_eq!(error.to_string(), format!("two webhooks have the path `{CHECK}`: give one of them another name"));
}
