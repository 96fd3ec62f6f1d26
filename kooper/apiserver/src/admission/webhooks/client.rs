//! The way to a webhook: HTTPS, by the certificate authority of its configuration.
//!
//! Errors are those of Go's client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

use crate::cluster::Cluster;
use crate::faults::WebhookFault;
use crate::tls;

/// The longest answer that is read.
const LONGEST: usize = 16 << 20;

const UNTRUSTED: &str = "tls: failed to verify certificate: x509: certificate signed by unknown authority";

/// Where a webhook is, and who signs its certificate.
#[derive(Debug)]
pub(super) struct Location {
    /// The name in errors.
    url: Uri,
    /// Where the connection goes, if that is not what the URL names.
    address: Option<SocketAddr>,
    roots: RootCertStore,
    timeout: Duration,
}

/// The answer of a webhook.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

impl Location {
    /// The location that a client configuration names. That of a Service was registered by the program.
    pub(super) fn of(config: &Value, timeout: Duration, cluster: &Cluster) -> Result<Self, String> {
        let unusable = |why: String| format!("could not get REST client: {why}");
        let query = format!("timeout={}s", timeout.as_secs());
        let (url, address) = match (config["url"].as_str(), &config["service"]) {
            (Some(url), _) => (url.to_owned(), None),
            (None, service) => {
                let text = |key: &str| service[key].as_str().unwrap_or_default();
                let (name, namespace) = (text("name"), text("namespace"));
                let port = service["port"].as_u64().unwrap_or(443);
                let url = format!("https://{name}.{namespace}.svc:{port}/{}", text("path").trim_start_matches('/'));
                (url, Some((namespace.to_owned(), name.to_owned())))
            }
        };
        let url: Uri = url.parse().map_err(|error| unusable(format!("{error}")))?;
        let path = if url.path().is_empty() { "/" } else { url.path() };
        let authority = url.authority().map(ToString::to_string).unwrap_or_default();
        let url: Uri =
            format!("https://{authority}{path}?{query}").parse().map_err(|error| unusable(format!("{error}")))?;
        let address = match address {
            None => None,
            Some((namespace, name)) => {
                let known = cluster.webhooks.read().get(&(namespace, name.clone())).copied();
                let absent =
                    || format!("failed to call webhook: Post {:?}: service {name:?} not found", url.to_string());
                Some(known.ok_or_else(absent)?)
            }
        };
        let mut roots = RootCertStore::empty();
        let bundle = STANDARD.decode(config["caBundle"].as_str().unwrap_or_default()).unwrap_or_default();
        for certificate in CertificateDer::pem_slice_iter(&bundle) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        Ok(Self { url, address, roots, timeout })
    }

    fn host(&self) -> &str {
        self.url.host().unwrap_or_default().trim_matches(['[', ']'])
    }
}

/// The fault that a test injects in place of the call.
pub(super) async fn broken(location: &Location, fault: WebhookFault) -> Result<Answer, String> {
    let authority = location.url.authority().map(ToString::to_string).unwrap_or_default();
    let why = match fault {
        WebhookFault::Away => format!("dial tcp {authority}: connect: connection refused"),
        WebhookFault::Slow => {
            tokio::time::sleep(location.timeout).await;
            "context deadline exceeded".to_owned()
        }
        WebhookFault::WrongCertificate => UNTRUSTED.to_owned(),
        WebhookFault::Garbage => {
            let content_type = "application/json".to_owned();
            return Ok(Answer { status: StatusCode::OK, content_type, body: Bytes::from_static(b"garbage") });
        }
    };
    Err(format!("Post {:?}: {why}", location.url.to_string()))
}

/// Posts a review.
///
/// A thread of its own does it: the test whose clock is paused, and whose tasks all wait, would skip the timeout.
pub(super) async fn post(location: Location, body: Bytes) -> Result<Answer, String> {
    let url = location.url.to_string();
    // The call ends with the request that it is for.
    let (_waiting, gone) = oneshot::channel::<()>();
    let called = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let timeout = location.timeout;
            tokio::select! {
                answer = tokio::time::timeout(timeout, exchange(location, body)) => {
                    answer.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
                }
                _ = gone => Err("context canceled".to_owned()),
            }
        })
    });
    let answer = called.await.unwrap_or_else(|error| Err(error.to_string()));
    answer.map_err(|why| format!("Post {url:?}: {why}"))
}

async fn exchange(location: Location, body: Bytes) -> Result<Answer, String> {
    let host = location.host().to_owned();
    let connected = match location.address {
        Some(address) => TcpStream::connect(address).await,
        None => TcpStream::connect((host.as_str(), location.url.port_u16().unwrap_or(443))).await,
    };
    let authority = location.url.authority().map(ToString::to_string).unwrap_or_default();
    let stream = connected.map_err(|error| not_connected(&authority, &host, &error))?;
    let config = ClientConfig::builder_with_provider(Arc::new(tls::provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(location.roots).with_no_client_auth();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let stream =
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| not_secure(&error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    let path = location.url.path_and_query().map(ToString::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|error| no_answer(&error))?;
    let status = response.status();
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let body = Limited::new(response.into_body(), LONGEST).collect().await.map_err(|error| error.to_string())?;
    Ok(Answer { status, content_type, body: body.to_bytes() })
}

fn not_connected(authority: &str, host: &str, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => format!("dial tcp {authority}: connect: connection refused"),
        _ if error.raw_os_error().is_none() => format!("dial tcp: lookup {host}: no such host"),
        _ => format!("dial tcp {authority}: connect: {error}"),
    }
}

fn not_secure(error: &std::io::Error) -> String {
    let found = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    let why = match found {
        Some(rustls::Error::InvalidCertificate(why)) => why,
        Some(rustls::Error::InvalidMessage(_)) => return "http: server gave HTTP response to HTTPS client".to_owned(),
        Some(other) => return format!("tls: {other}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
        None => return error.to_string(),
    };
    let why = match why {
        CertificateError::UnknownIssuer => return UNTRUSTED.to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

fn no_answer(error: &hyper::Error) -> String {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    let has_ended = source.is_some_and(|source| source.kind() == std::io::ErrorKind::UnexpectedEof);
    if has_ended || error.is_incomplete_message() || error.is_closed() { "EOF".to_owned() } else { error.to_string() }
}
