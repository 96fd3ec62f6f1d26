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
        let span = tracing::debug_span!("HTTP", http.method = %method, http.url = %url, otel.kind = "client");
        let (connector, pool) = (connector.clone(), pool.clone());
        let response = async move {
            if watches::is_watch(request.uri()) {
                return watches::send(connector, request).await;
            }
            let response = pool.request(request).await?;
            Ok::<_, BoxError>(response.map(watches::ConnectionBody::from))
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
    use rustix::net::sockopt;
    use tower::Service;

    use super::*;

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
}
