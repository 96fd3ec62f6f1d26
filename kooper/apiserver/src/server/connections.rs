//! Connections: from a socket over TLS to requests and answers.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::cluster::Cluster;
use crate::walk;

/// Maximum time for a client's part of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum time for the head of a request, and for silence between two requests, as on the real
/// server.
const HEAD: Duration = Duration::from_secs(32);
/// HTTP/2: after this silence the client is asked whether it is there.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(15);
/// Maximum time for requests in progress when the server stops.
const DRAIN: Duration = Duration::from_secs(2);

/// Accepts connections until the server stops, then lets those that are there finish.
pub(super) async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    cluster: Arc<Cluster>,
    mut running: watch::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    let graceful = loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, tls.clone(), Arc::clone(&cluster), running.clone()));
                }
                // Too many open files, for example: others may be closed soon.
                Err(_) => sleep(Duration::from_millis(5)).await,
            },
            // One that ended gives its memory back.
            Some(_) = connections.join_next() => {}
            asked = running.changed() => break asked.is_ok(),
        }
    };
    drop(listener);
    if graceful {
        let all = async { while connections.join_next().await.is_some() {} };
        // Dropping the set ends the others.
        drop(timeout(DRAIN, all).await);
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, cluster: Arc<Cluster>, running: watch::Receiver<()>) {
    // Small answers are sent at once; without it they only take longer.
    drop(stream.set_nodelay(true));
    // A client that fails here has got its alert, or is gone.
    let Ok(Ok(stream)) = timeout(HANDSHAKE, handshake(stream, &tls)).await else { return };
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stop = running.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let cluster = Arc::clone(&cluster);
        let mut running = running.clone();
        async move {
            let response = walk::serve(&cluster, request).await?;
            // A watch would go on for long: it ends between two of its events.
            let stopped = async move { drop(running.changed().await) };
            Ok::<_, io::Error>(response.map(|body| body.until(stopped)))
        }
    });
    let io = TokioIo::new(stream);
    if http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(PING_AFTER).keep_alive_timeout(PING_ANSWER);
        until_stopped(builder.serve_connection(io, service), stop).await;
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
        until_stopped(builder.serve_connection(io, service), stop).await;
    }
}

/// Drives a connection to its end. A client that goes away in the middle is not an error of the server.
async fn until_stopped<C: GracefulConnection>(connection: C, mut running: watch::Receiver<()>) {
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        asked = running.changed() => if asked.is_err() { return },
    }
    connection.as_mut().graceful_shutdown();
    drop(connection.await);
}

async fn handshake(mut stream: TcpStream, tls: &TlsAcceptor) -> io::Result<TlsStream<TcpStream>> {
    /// The first byte of a handshake.
    const TLS: u8 = 22;
    let mut first = [TLS];
    stream.peek(&mut first).await?;
    if first == [TLS] {
        return tls.accept(stream).await;
    }
    refuse_plain(&mut stream).await?;
    Err(io::ErrorKind::InvalidData.into())
}

/// Answers a client that speaks HTTP without TLS, as Go's server does.
async fn refuse_plain(stream: &mut TcpStream) -> io::Result<()> {
    let mut start = [0; 5];
    stream.read_exact(&mut start).await?;
    if matches!(&start, b"GET /" | b"HEAD " | b"POST " | b"PUT /" | b"OPTIO" | b"PATCH" | b"DELET") {
        let answer = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with bytes unread would reset the connection before the client has read the answer.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
    }
    Ok(())
}
