//! The connections of a listener: HTTP/1.1, over TLS if the site has a certificate.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::site::Site;
use kooper_runtime::BoxError;
#[cfg(all(feature = "cli", feature = "rustls-tls"))]
use kooper_serving::Limits;
use kooper_serving::Source;

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

/// Accepts connections until it is dropped.
pub(super) async fn accept(socket: &tokio::net::TcpListener, site: Arc<Site>) {
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    let handshakes = Limits::new(HANDSHAKES_OF_SOURCE);
    kooper_serving::accept(socket, "metrics and probes", MOST_CONNECTIONS, |stream, source| {
        // Refused at once: it costs nothing, and ends no other connection.
        #[cfg(all(feature = "cli", feature = "rustls-tls"))]
        let tls = match site.acceptor().map(|acceptor| handshakes.begin(source).map(|running| (acceptor, running))) {
            Some(None) => return None,
            tls => tls.flatten(),
        };
        let site = Arc::clone(&site);
        let served = async move {
            #[cfg(all(feature = "cli", feature = "rustls-tls"))]
            if let Some((acceptor, running)) = tls {
                let accepting = kooper_serving::handshake(acceptor, running, stream);
                return within_time(async { serve_stream(Box::new(accepting.await?), source, &site).await }).await;
            }
            within_time(serve_stream(Box::new(stream), source, &site)).await;
        };
        Some(served.boxed())
    })
    .await;
}

/// Serves a connection, for a limited time.
async fn within_time(served: impl Future<Output = Result<(), BoxError>>) {
    // An error of a client only affects its own connection.
    if let Ok(Err(error)) = tokio::time::timeout(LONGEST_CONNECTION, served).await {
        tracing::debug!(%error, "a connection to the listener for metrics and probes broke");
    }
}

/// A TCP connection with or without TLS. For each type of stream, hyper's whole server would be compiled.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

async fn serve_stream(stream: Box<dyn Stream>, source: Source, site: &Arc<Site>) -> Result<(), BoxError> {
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let site = Arc::clone(site);
        async move {
            let (head, _) = request.into_parts();
            Ok::<_, std::convert::Infallible>(site.answer(&head, source).await)
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

#[cfg(all(test, feature = "cli", feature = "rustls-tls"))]
mod tests {
    use kooper_runtime::Health;
    use prometheus::Registry;
    use tokio::runtime::Handle;

    use super::*;
    use crate::http::Routes;
    use crate::http::certificate::Certificate;
    use crate::http::pages::Pages;

    #[tokio::test]
    async fn a_source_with_many_handshakes_is_refused_before_the_next_one_and_others_are_not() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let certificate = Certificate::self_signed().expect("a certificate");
        let pages = Pages::new(Registry::new(), Health::default(), Handle::current(), &[], None, Routes::default());
        let site = Site::new(pages, true).with_certificate(Some(certificate));
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server = socket.local_addr().expect("bound");
        tokio::spawn(async move { accept(&socket, Arc::new(site)).await });
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
