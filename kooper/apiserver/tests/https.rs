//! The socket: TLS, both versions of HTTP, identities, and how a server ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kooper_apiserver::{ApiServer, Credentials, User};
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn start() -> ApiServer {
    ApiServer::start().await.expect("loopback can be listened on")
}

/// A connection that trusts these credentials and offers one protocol.
async fn connect(
    address: SocketAddr,
    credentials: &Credentials,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(credentials.certificate_pem().as_bytes()).expect("it is PEM");
    roots.add(certificate).expect("it is a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.expect("the library has the defaults").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::from(address.ip()), stream).await
}

async fn http1(server: &ApiServer) -> http1::SendRequest<Full<Bytes>> {
    let stream = connect(server.address(), server.credentials(), "http/1.1").await.expect("the server is trusted");
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP/1.1");
    tokio::spawn(connection);
    sender
}

fn request(method: Method, path: &str, token: Option<&str>, body: &Value) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    request.body(Full::new(body)).expect("it is a request")
}

async fn read(response: Response<Incoming>) -> (StatusCode, String) {
    let status = response.status();
    let body = response.into_body().collect().await.expect("the body ends well").to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn health(server: &ApiServer) -> (StatusCode, String) {
    let response = http1(server).await.send_request(request(Method::GET, "/healthz", None, &Value::Null)).await;
    read(response.expect("the server answers")).await
}

async fn client(kubeconfig: &str) -> kube::Client {
    let config = Kubeconfig::from_yaml(kubeconfig).expect("it is a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    config.expect("it is complete").try_into().expect("a client can be made of it")
}

fn named(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() }, ..Default::default() }
}

#[tokio::test]
async fn a_kubeconfig_is_all_that_kube_needs() {
    let server = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server.kubeconfig()).await);
    let created = maps.create(&PostParams::default(), &named("a")).await.expect("it is created");
    let version = created.metadata.resource_version.expect("it has a version");
    let mut events = maps.watch(&WatchParams::default(), &version).await.expect("it is watched").boxed();
    maps.create(&PostParams::default(), &named("b")).await.expect("it is created");
    let event = events.try_next().await.expect("the watch goes on").expect("there is an event");
    assert!(matches!(event, WatchEvent::Added(map) if map.metadata.name.as_deref() == Some("b")));
}

#[tokio::test]
async fn a_kubeconfig_of_a_user_carries_that_identity() {
    let server = start().await;
    let client = client(&server.kubeconfig_of(User::service_account("default", "robot"))).await;
    let namespaces: Api<Namespace> = Api::all(client);
    let refused = namespaces.get("default").await.expect_err("nothing is granted").to_string();
    assert!(refused.contains("system:serviceaccount:default:robot"), "{refused}");
}

#[tokio::test]
async fn both_versions_of_http_are_spoken() {
    let server = start().await;
    assert_eq!(health(&server).await, (StatusCode::OK, "ok".to_owned()));
    let stream = connect(server.address(), server.credentials(), "h2").await.expect("the server is trusted");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let path = format!("{}/api/v1/namespaces/default", server.url());
    let response = sender.send_request(request(Method::GET, &path, Some(server.token()), &Value::Null)).await;
    assert_eq!(read(response.expect("the server answers")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_server_that_starts_again_is_the_same_to_its_clients() {
    let first = start().await;
    let (address, kubeconfig) = (first.address(), first.kubeconfig());
    let saved = first.credentials().to_pem();
    first.shutdown().await;
    let credentials = saved.parse().expect("they were written just now");
    let second = ApiServer::builder().address(address).credentials(credentials).start().await;
    let second = second.expect("the port is free again");
    assert_eq!(second.kubeconfig(), kubeconfig);
    let namespaces: Api<Namespace> = Api::all(client(&kubeconfig).await);
    namespaces.get("default").await.expect("the client trusts the server, and the server the client");
}

#[tokio::test]
async fn a_client_refuses_a_server_of_another_authority() {
    let server = start().await;
    let refused = connect(server.address(), &Credentials::generate(), "h2").await;
    assert!(refused.expect_err("the certificate is of another authority").to_string().contains("certificate"));
    assert_eq!(health(&server).await.0, StatusCode::OK);
}

/// Returns the server's response to bytes without TLS.
async fn plain(server: &ApiServer, sent: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
    stream.write_all(sent.as_bytes()).await.expect("it is sent");
    let mut answer = Vec::new();
    // A reset is an answer, too.
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_client_without_tls_gets_the_answer_of_a_go_server() {
    let server = start().await;
    let text = plain(&server, "GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(text, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
    assert_eq!(plain(&server, "SSH-2.0-OpenSSH_9.6\r\n").await, "");
    assert_eq!(health(&server).await.0, StatusCode::OK);
}

/// Reads until the server ends the connection; time runs ahead while nothing else is to be done.
async fn is_closed(mut stream: impl tokio::io::AsyncRead + Unpin) -> bool {
    let mut bytes = Vec::new();
    tokio::time::timeout(Duration::from_secs(3600), stream.read_to_end(&mut bytes)).await.is_ok()
}

#[tokio::test]
async fn a_client_that_never_finishes_its_handshake_is_closed() {
    let server = start().await;
    let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
    // The head of a handshake message of 512 bytes, without the message.
    stream.write_all(&[22, 3, 1, 2, 0]).await.expect("it is sent");
    tokio::time::pause();
    assert!(is_closed(stream).await);
}

#[tokio::test]
async fn a_client_that_never_finishes_its_request_is_closed() {
    let server = start().await;
    let mut stream = connect(server.address(), server.credentials(), "http/1.1").await.expect("it is trusted");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: local").await.expect("it is sent");
    stream.flush().await.expect("it is sent");
    tokio::time::pause();
    assert!(is_closed(stream).await);
}

#[tokio::test]
async fn a_body_that_never_ends_is_answered() {
    let server = start().await;
    let mut stream = connect(server.address(), server.credentials(), "http/1.1").await.expect("it is trusted");
    let head = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\n{{",
        server.token()
    );
    stream.write_all(head.as_bytes()).await.expect("it is sent");
    stream.flush().await.expect("it is sent");
    tokio::time::pause();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.expect("it is answered");
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 504");
}

/// A watch of the ConfigMaps, without the one that each namespace has, from its own connection.
async fn watch(server: &ApiServer) -> Incoming {
    let path = "/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name!=kube-root-ca.crt";
    let response = http1(server).await.send_request(request(Method::GET, path, Some(server.token()), &Value::Null));
    response.await.expect("the server answers").into_body()
}

async fn create(server: &ApiServer, name: &str) {
    let body = json!({"metadata": {"name": name}});
    let path = "/api/v1/namespaces/default/configmaps";
    let response = http1(server).await.send_request(request(Method::POST, path, Some(server.token()), &body)).await;
    assert_eq!(response.expect("the server answers").status(), StatusCode::CREATED);
}

#[tokio::test]
async fn a_shutdown_ends_watches_between_two_events() {
    let server = start().await;
    let address = server.address();
    create(&server, "a").await;
    let watched = watch(&server).await;
    let mut idle = http1(&server).await;
    let read = tokio::spawn(watched.collect());
    tokio::time::timeout(TIMEOUT, server.shutdown()).await.expect("it waits for nothing else");
    let body = read.await.expect("it was read").expect("it ended well").to_bytes();
    let event: Value = serde_json::from_slice(&body).expect("it is one whole event");
    assert_eq!(event["object"]["metadata"]["name"], "a");
    assert!(idle.send_request(request(Method::GET, "/healthz", None, &Value::Null)).await.is_err());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn dropping_a_server_ends_its_connections() {
    let server = start().await;
    let watched = watch(&server).await;
    drop(server);
    // In the middle of an answer or behind an event.
    drop(tokio::time::timeout(TIMEOUT, watched.collect()).await.expect("it ends"));
}

#[tokio::test]
async fn a_slow_reader_of_a_watch_holds_its_position_only() {
    let server = start().await;
    let mut watched = watch(&server).await;
    let mut sender = http1(&server).await;
    let path = "/api/v1/namespaces/default/configmaps";
    let body = json!({"metadata": {"name": "big"}, "data": {"a": "x".repeat(900_000)}});
    let response = sender.send_request(request(Method::POST, path, Some(server.token()), &body)).await;
    assert_eq!(read(response.expect("the server answers")).await.0, StatusCode::CREATED);
    // More than the history keeps.
    for number in 0..45 {
        let body = json!({"metadata": {"name": "big"}, "data": {"a": format!("{number}{}", "x".repeat(900_000))}});
        let path = format!("{path}/big");
        let response = sender.send_request(request(Method::PUT, &path, Some(server.token()), &body)).await;
        assert_eq!(read(response.expect("the server answers")).await.0, StatusCode::OK);
    }
    let (mut received, mut last) = (0, Bytes::new());
    while let Some(frame) = watched.frame().await {
        let Ok(data) = frame.expect("the watch ends well").into_data() else { continue };
        received += data.len();
        last = data;
    }
    // The connection buffers some events until it is full. The history does not keep the rest.
    assert!(received < 20 << 20, "{received} bytes were kept for the reader");
    let lines = String::from_utf8_lossy(&last).into_owned();
    let event: Value = serde_json::from_str(lines.lines().last().unwrap_or_default()).expect("the last event is whole");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
}
