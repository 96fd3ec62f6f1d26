//! The connections of a listener: HTTP/1.1, over TLS if the service has a certificate.
//!
//! A source with many connections ends its own: those of others stay.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::error::BoxError;

/// A connection serves one request and lasts no longer than this, however
/// slow its client is.
pub(super) const LONGEST_CONNECTION: Duration = Duration::from_secs(10);

/// How long a client may take to send the head of its request, and how long
/// that head may be.
pub(super) const LONGEST_HEAD: (Duration, usize) = (Duration::from_secs(5), 16 * 1024);

/// The most connections at the same time; a further one ends the oldest of the source
/// that has the most.
pub(super) const MOST_CONNECTIONS: usize = 128;

/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often that is logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Answers the requests of a listener.
pub(super) trait Service: Send + Sync + 'static {
    /// The response to a request, whose body is not read.
    fn answer(&self, request: &Parts, source: Source) -> impl Future<Output = Response<Full<Bytes>>> + Send;

    /// What accepts TLS connections; `None` without TLS.
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    fn acceptor(&self) -> Option<tokio_rustls::TlsAcceptor>;
}

/// Where a connection comes from. One client may have a whole network of IPv6: the
/// first 64 bits of the address count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Source(IpAddr);

impl Source {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
            address => Self(address),
        }
    }
}

/// Accepts connections until it is dropped.
pub(super) async fn accept(socket: tokio::net::TcpListener, service: Arc<impl Service>) {
    let mut connections: VecDeque<(Source, AbortHandle)> = VecDeque::new();
    let mut logged: Option<Instant> = None;
    loop {
        let (stream, source) = match socket.accept().await {
            Ok((stream, address)) => (stream, Source::of(address.ip())),
            Err(error) => {
                // Out of file descriptors, as a rule: the socket stays ready,
                // so without a pause this would spin.
                if logged.is_none_or(|last| last.elapsed() >= LOG_EVERY) {
                    tracing::warn!(%error, "the listener for metrics and probes cannot accept a connection");
                    logged = Some(Instant::now());
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        connections.retain(|(_, connection)| !connection.is_finished());
        if connections.len() >= MOST_CONNECTIONS
            && let Some(at) = dispensable(connections.iter().map(|(source, _)| *source))
            && let Some((_, connection)) = connections.remove(at)
        {
            connection.abort();
        }
        let task = tokio::spawn(serve_connection(stream, source, Arc::clone(&service)));
        connections.push_back((source, task.abort_handle()));
    }
}

/// The oldest connection of the source with the most; the first is the oldest of all.
fn dispensable(connections: impl Iterator<Item = Source> + Clone) -> Option<usize> {
    let mut counts: HashMap<Source, usize> = HashMap::new();
    for source in connections.clone() {
        *counts.entry(source).or_default() += 1;
    }
    let of = |source: &Source| counts.get(source).copied().unwrap_or_default();
    connections.enumerate().max_by_key(|(at, source)| (of(source), Reverse(*at))).map(|(at, _)| at)
}

async fn serve_connection(stream: TcpStream, source: Source, service: Arc<impl Service>) {
    let served = async {
        #[cfg(all(feature = "cli", feature = "rustls-tls"))]
        if let Some(acceptor) = service.acceptor() {
            return serve_stream(acceptor.accept(stream).await?, source, &service).await;
        }
        serve_stream(stream, source, &service).await
    };
    // An error of a client only affects its own connection.
    if let Ok(Err(error)) = tokio::time::timeout(LONGEST_CONNECTION, served).await {
        tracing::debug!(%error, "a connection to the listener for metrics and probes broke");
    }
}

async fn serve_stream<S>(stream: S, source: Source, service: &Arc<impl Service>) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let service = Arc::clone(service);
        async move {
            let (head, _) = request.into_parts();
            Ok::<_, std::convert::Infallible>(service.answer(&head, source).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(LONGEST_HEAD.0)
        .max_buf_size(LONGEST_HEAD.1)
        .serve_connection(TokioIo::new(stream), service);
    Ok(connection.await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> Source {
        Source::of(address.parse().expect("an address"))
    }

    #[test]
    fn a_flood_of_one_source_ends_its_own_oldest_connection() {
        let of = |addresses: &[&str]| dispensable(addresses.iter().map(|address| source(address)));
        assert_eq!(of(&["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.2"]), Some(1));
        assert_eq!(of(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]), Some(0), "of equals, the oldest");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:0:0:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("10.0.0.2"), source("10.0.0.1"));
    }
}
