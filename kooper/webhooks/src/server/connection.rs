//! The connections of the server.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kooper_runtime::Result;
use kooper_serving::{Limits, Running};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::{Shared, answer};

/// The most connections at the same time; a further one ends the oldest of the source that
/// has the most. An API server opens one for each concurrent request.
pub(super) const CONNECTIONS: usize = 512;

/// Maximum number of concurrent TLS handshakes of a source. An API server with more concurrent
/// requests than idle connections opens hundreds in a second, and one that is refused is a
/// failed call.
const HANDSHAKES: usize = 256;

/// Maximum time of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Maximum time until the first request, and between two. It is longer than an API server keeps an idle
/// connection, which is 90 seconds, so that none is closed while a request is under way. An API server keeps
/// connections without a request, too: another one was free before their handshakes had ended.
const IDLE: Duration = Duration::from_secs(120);

/// Maximum time for the rest of a connection's first head when the server stops. An API server sends a head as a whole, so
/// that its parts arrive together.
const LAST_HEAD: Duration = Duration::from_secs(1);

/// Maximum size of a request's head, in bytes.
const HEAD: usize = 16 * 1024;

/// Accepts connections until it is dropped.
pub(super) async fn accept(socket: &tokio::net::TcpListener, shared: &Arc<Shared>) {
    let handshakes = Limits::new(HANDSHAKES);
    kooper_serving::accept(socket, "webhooks", CONNECTIONS, |stream, source| {
        let acceptor = (shared.certificate)()?;
        let running = handshakes.begin(source)?;
        let shared = Arc::clone(shared);
        let served = async move {
            // A client that goes away, or is no client, only affects its own connection.
            if let Err(error) = serve(stream, acceptor, running, shared).await {
                tracing::debug!(error, "a connection to the webhooks failed");
            }
        };
        Some(served.boxed())
    })
    .await;
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, running: Running, shared: Arc<Shared>) -> Result<()> {
    // Small responses are sent at once.
    stream.set_nodelay(true)?;
    let stream = timeout(HANDSHAKE, kooper_serving::handshake(acceptor, running, stream)).await??;
    let _open = shared.connections.token();
    let has_request = AtomicBool::new(false);
    let service = service_fn(|request| {
        has_request.store(true, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer::answer(&shared, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = shared.stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    match timeout(LAST_HEAD, connection.as_mut()).await {
        Ok(ended) => Ok(ended?),
        Err(_) if has_request.load(Ordering::Relaxed) => Ok(connection.await?),
        Err(_) => Ok(()),
    }
}
