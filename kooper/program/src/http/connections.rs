//! The connections of a listener: HTTP/1.1, over TLS if the service has a certificate.
//!
//! A source with many connections ends its own: those of others stay.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
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
use tokio::task::AbortHandle;
use tokio::time::Instant;

#[cfg(all(feature = "cli", feature = "rustls-tls"))]
use super::limits::{Limits, Running};
use super::source::Source;
use kooper_runtime::BoxError;

/// A connection serves one request and lasts no longer than this, however
/// slow its client is.
pub(super) const LONGEST_CONNECTION: Duration = Duration::from_secs(10);

/// Maximum time for the head of a request to arrive, and its maximum size in bytes.
pub(super) const LONGEST_HEAD: (Duration, usize) = (Duration::from_secs(5), 16 * 1024);

/// The most connections at the same time; a further one ends the oldest of the source
/// that has the most.
pub(super) const MOST_CONNECTIONS: usize = 128;

/// Maximum number of concurrent TLS handshakes of a source. Each counts for at least the pace,
/// which allows 64 a second.
#[cfg(all(feature = "cli", feature = "rustls-tls"))]
pub(super) const HANDSHAKES_OF_SOURCE: usize = 16;
#[cfg(all(feature = "cli", feature = "rustls-tls"))]
const HANDSHAKE_PACE: Duration = Duration::from_millis(250);

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Minimum time between two log lines about connections that could not be accepted.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Answers the requests of a listener.
pub(super) trait Service: Send + Sync + 'static {
    /// The response to a request, whose body is not read.
    fn answer(&self, request: &Parts, source: Source) -> impl Future<Output = Response<Full<Bytes>>> + Send;

    /// Returns the TLS acceptor, or `None` without TLS.
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    fn acceptor(&self) -> Option<tokio_rustls::TlsAcceptor>;
}

/// Accepts connections until it is dropped.
pub(super) async fn accept(socket: tokio::net::TcpListener, service: Arc<impl Service>) {
    let mut connections: VecDeque<(Source, AbortHandle)> = VecDeque::new();
    let mut logged: Option<Instant> = None;
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    let handshakes = Limits::new(HANDSHAKES_OF_SOURCE);
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
        // Refused at once: it costs nothing, and ends no other connection.
        #[cfg(all(feature = "cli", feature = "rustls-tls"))]
        let tls = match service.acceptor().map(|acceptor| handshakes.begin(source).map(|running| (acceptor, running))) {
            Some(None) => continue,
            tls => tls.flatten(),
        };
        connections.retain(|(_, connection)| !connection.is_finished());
        if connections.len() >= MOST_CONNECTIONS
            && let Some(at) = dispensable(connections.iter().map(|(source, _)| *source))
            && let Some((_, connection)) = connections.remove(at)
        {
            connection.abort();
        }
        let service = Arc::clone(&service);
        let task = tokio::spawn(async move {
            #[cfg(all(feature = "cli", feature = "rustls-tls"))]
            if let Some((acceptor, running)) = tls {
                let accepting = handshake(acceptor, running, stream);
                return within_time(async { serve_stream(accepting.await?, source, &service).await }).await;
            }
            within_time(serve_stream(stream, source, &service)).await;
        });
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

/// Makes a TLS handshake, which counts until it has ended, and until its time is over.
#[cfg(all(feature = "cli", feature = "rustls-tls"))]
async fn handshake(
    acceptor: tokio_rustls::TlsAcceptor,
    running: Running,
    stream: tokio::net::TcpStream,
) -> std::io::Result<tokio_rustls::server::TlsStream<tokio::net::TcpStream>> {
    let running = Arc::new(running);
    let paced = Arc::clone(&running);
    tokio::spawn(async move {
        tokio::time::sleep(HANDSHAKE_PACE).await;
        drop(paced);
    });
    let accepted = acceptor.accept(stream).await;
    drop(running);
    accepted
}

/// Serves a connection, for a limited time.
async fn within_time(served: impl Future<Output = Result<(), BoxError>>) {
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

    /// A service with TLS.
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    struct Secured(super::super::certificate::Certificate);

    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    impl Service for Secured {
        async fn answer(&self, _: &Parts, _: Source) -> Response<Full<Bytes>> {
            Response::default()
        }

        fn acceptor(&self) -> Option<tokio_rustls::TlsAcceptor> {
            Some(self.0.acceptor())
        }
    }

    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    #[tokio::test]
    async fn a_source_with_many_handshakes_is_refused_before_the_next_one_and_others_are_not() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let certificate = super::super::certificate::Certificate::self_signed().expect("a certificate");
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server = socket.local_addr().expect("bound");
        tokio::spawn(accept(socket, Arc::new(Secured(certificate))));
        let connect = async |source: &str| {
            let client = tokio::net::TcpSocket::new_v4().expect("a socket");
            client.bind(format!("{source}:0").parse().expect("an address")).expect("an address of loopback");
            client.connect(server).await.expect("the server listens")
        };
        // Sends something that is not a handshake. The server responds with an alert, or not at all
        // if it refuses the connection.
        let answered = async |mut stream: tokio::net::TcpStream| {
            stream.write_all(b"this is not a handshake").await.ok();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.ok();
            !answer.is_empty()
        };
        let mut many = Vec::new();
        for _ in 0..HANDSHAKES_OF_SOURCE {
            many.push(connect("127.0.0.1").await);
        }
        assert!(!answered(connect("127.0.0.1").await).await, "there are too many of it");
        assert!(answered(connect("127.0.0.2").await).await, "it is another source");
        // Those that have ended count for a moment longer.
        drop(many);
        while !answered(connect("127.0.0.1").await).await {}
    }
}
