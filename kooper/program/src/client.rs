//! A Kubernetes client for operators: kube's layers over a connector that detects a
//! connection whose peer is gone, with a connection of its own for each watch.

mod buffered;
mod watches;

use std::time::Duration;

use http::Uri;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::{ServiceBuilder, ServiceExt};
use tracing::Instrument;
use tracing::field::Empty;

use crate::metrics::ClientLayer;
use buffered::Buffered;
use kooper_runtime::BoxError;

/// A silent connection is probed after this time, and again after each interval.
const KEEPALIVE: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// Maximum time that sent data may remain unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(25);

/// A client that counts its requests in metrics and retries none; programs of
/// `main!` have it.
///
/// A connection whose peer is gone is detected within 30 seconds. A watch is read
/// from a connection of its own, in the task of its reader, which takes less CPU
/// than kube's own client. That one is used with a proxy; with an exec plugin, as
/// only kube knows when its certificate expires; and with two crypto providers,
/// between which kube chooses.
///
/// ```
/// # fn client(metrics: &kooper::metrics::Prometheus, config: kube::Config) -> kube::Result<kube::Client> {
/// let layer = metrics.client_layer(&config.cluster_url);
/// kooper::client::connect(config, &layer)
/// # }
/// ```
///
/// # Errors
/// If the configuration's certificates, keys or credentials cannot be used.
pub fn connect(config: Config, layer: &ClientLayer) -> kube::Result<Client> {
    let undecided = cfg!(all(feature = "ring", feature = "aws-lc-rs"));
    if config.proxy_url.is_some() || config.auth_info.exec.is_some() || undecided {
        return Ok(ClientBuilder::try_from(config)?.with_layer(layer).build());
    }
    let connector = ServiceExt::<Uri>::map_response(tcp(), Buffered::new);
    #[cfg(feature = "rustls-tls")]
    let connector = config.rustls_https_connector_with_connector(connector)?;
    #[cfg(all(not(feature = "rustls-tls"), feature = "openssl-tls"))]
    let connector = config.openssl_https_connector_with_connector(connector)?;
    #[cfg(not(any(feature = "rustls-tls", feature = "openssl-tls")))]
    if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
        return Err(kube::Error::TlsRequired);
    }
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let pool: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector.clone());
    let traced = tower::service_fn(move |request: http::Request<Body>| {
        let (method, url) = (request.method(), request.uri());
        // As those of kube's own client.
        let span = tracing::debug_span!(
            "HTTP", http.method = %method, http.url = %url, http.status_code = Empty, otel.kind = "client",
            otel.status_code = Empty,
        );
        let (connector, pool, recorded) = (connector.clone(), pool.clone(), span.clone());
        let response = async move {
            let response = if watches::is_watch(request.uri()) {
                watches::send(connector, request).await
            } else {
                let response = pool.request(request).await;
                response.map(|response| response.map(watches::ConnectionBody::from)).map_err(BoxError::from)
            };
            let status = response.as_ref().ok().map(http::Response::status);
            if let Some(status) = status {
                recorded.record("http.status_code", status.as_u16());
            }
            if status.is_none_or(|status| status.is_client_error() || status.is_server_error()) {
                recorded.record("otel.status_code", "ERROR");
            }
            response
        };
        response.instrument(span)
    });
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(traced);
    Ok(ClientBuilder::new(service, config.default_namespace).with_layer(layer).build())
}

/// Connects with options by which the system detects a lost peer within 30 seconds.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(INTERVAL));
    tcp.set_keepalive_retries(Some(PROBES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;

    use http::Request;
    use parking_lot::Mutex;
    use prometheus::Registry;
    use rustix::net::sockopt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tower::Service;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::metrics::Prometheus;

    #[tokio::test]
    async fn a_connection_to_a_lost_peer_is_detected_within_30_seconds() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let connection = tcp().call(url).await.unwrap().into_inner();
        assert!(sockopt::socket_keepalive(&connection).unwrap());
        let asked = sockopt::tcp_keepidle(&connection).unwrap();
        let unanswered = sockopt::tcp_keepintvl(&connection).unwrap() * sockopt::tcp_keepcnt(&connection).unwrap();
        assert!(asked + unanswered <= Duration::from_secs(30), "{asked:?} and {unanswered:?}");
        let unacknowledged = sockopt::tcp_user_timeout(&connection).unwrap();
        assert!((1..=30_000).contains(&unacknowledged), "{unacknowledged} ms");
    }

    /// Keeps what is recorded for the spans of requests.
    #[derive(Clone, Default)]
    struct Recorded(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Recorded {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.name() == "HTTP"
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, values: &Record<'_>) {
            values.record(&mut self.clone());
        }

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    impl Visit for Recorded {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0.lock().push(format!("{field}={value:?}"));
        }
    }

    #[tokio::test]
    async fn the_span_of_a_request_has_the_status_of_its_response_and_whether_it_failed() {
        let recorded = Recorded::default();
        let _subscribed = tracing::subscriber::set_default(recorded.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let layer = Prometheus::new(&Registry::new()).unwrap().client_layer(&url);
        let mut config = Config::new(url);
        // Otherwise those of the system are read.
        config.root_cert = Some(Vec::new());
        let client = connect(config, &layer).unwrap();
        let served = tokio::spawn(async move {
            for status in ["200 OK", "404 Not Found"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                stream.write_all(response.as_bytes()).await.unwrap();
            }
        });
        let send = async || client.send(Request::get("/version").body(Body::empty()).unwrap()).await;
        assert_eq!(send().await.unwrap().status(), 200);
        assert_eq!(send().await.unwrap().status(), 404);
        served.await.unwrap();
        assert!(send().await.is_err(), "no server listens any more");
        let failed = "otel.status_code=\"ERROR\"";
        assert_eq!(*recorded.0.lock(), ["http.status_code=200", "http.status_code=404", failed, failed]);
    }
}
