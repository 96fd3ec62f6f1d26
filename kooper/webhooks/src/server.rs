//! The server that the API server calls: HTTPS, HTTP/1.1, on separate threads.
//!
//! Whoever reaches it can call it. So there are limits for each source and for each request,
//! and a response has nothing that the caller has not sent, beside the messages of functions.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::webhook::Webhook;
use metrics::Metrics;
use threads::{QuickCalls, Threads};

mod answer;
mod connection;
pub(crate) mod metrics;
#[cfg(test)]
mod tests;
mod threads;

/// Maximum number of functions on separate threads. More wait, within their deadline.
const RUNNING: usize = 256;

/// Maximum time for requests in progress when the server has stopped to accept others.
const DRAIN: Duration = Duration::from_secs(10);

/// Returns the newest TLS acceptor, or `None` while there is no certificate: connections are
/// closed then.
pub(crate) type Certificate = Arc<dyn Fn() -> Option<TlsAcceptor> + Send + Sync>;

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("cannot listen on {address} for webhooks: {error}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// Two webhooks have the same path.
    #[error("two webhooks have the path `{path}`: give one of them another name")]
    Twice {
        /// The path of both.
        path: String,
    },
    /// The threads cannot be started.
    #[error("cannot start the threads that serve webhooks")]
    Thread(#[source] io::Error),
}

/// The running server of webhooks. Dropping it ends its connections at once.
#[derive(Debug)]
#[must_use = "the server stops when it is dropped"]
pub(crate) struct Server {
    /// The address in use: with port 0, the port that the system chose.
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Shared by all connections.
struct Shared {
    webhooks: HashMap<String, (Arc<Webhook>, Arc<QuickCalls>)>,
    certificate: Certificate,
    metrics: Metrics,
    /// `true` if each response ends its connection.
    closing: AtomicBool,
    /// Cancelled to end the connections, each when its response was sent.
    stop: CancellationToken,
    connections: TaskTracker,
    threads: Arc<Threads>,
    /// The memory for large bodies.
    room: Semaphore,
}

impl Server {
    /// Starts to serve webhooks on an address.
    pub(crate) fn start(
        address: SocketAddr,
        webhooks: impl IntoIterator<Item = Arc<Webhook>>,
        certificate: Certificate,
        metrics: Metrics,
    ) -> Result<Self, ServeError> {
        let bound = kooper_serving::bind(address).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, socket) = bound.map_err(|error| ServeError::Bind { address, error })?;
        let mut by_path = HashMap::new();
        for webhook in webhooks {
            let path = webhook.path();
            if by_path.insert(path.clone(), (webhook, Arc::default())).is_some() {
                return Err(ServeError::Twice { path });
            }
        }
        let shared = Arc::new(Shared {
            webhooks: by_path,
            certificate,
            metrics,
            closing: AtomicBool::new(false),
            stop: CancellationToken::new(),
            connections: TaskTracker::new(),
            threads: Arc::default(),
            room: Semaphore::new(answer::ROOM),
        });
        let thread = spawn(socket, Arc::clone(&shared)).map_err(ServeError::Thread)?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Stops without a failed call: serves for `linger`, while API servers learn that it goes,
    /// and ends each connection with its next response; then accepts no more, and waits for the
    /// requests in progress.
    pub(crate) async fn shutdown(self, linger: Duration) {
        self.shared.closing.store(true, Ordering::Relaxed);
        tokio::time::sleep(linger).await;
        self.shared.stop.cancel();
        self.shared.connections.close();
        if tokio::time::timeout(DRAIN, self.shared.connections.wait()).await.is_err() {
            tracing::warn!("requests to webhooks are still running after {} s, and are cancelled", DRAIN.as_secs());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.shared.connections.close();
        if let Some(thread) = self.thread.take() {
            // It panicked if this fails, and the panic was reported then.
            drop(thread.join());
        }
    }
}

kooper_runtime::internal::debug_fields! { Shared { webhooks } }

/// Starts the runtime of the server, and the thread that watches over it and drops it.
fn spawn(socket: TcpListener, shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let (started, start) = mpsc::channel();
    let thread = std::thread::Builder::new().name("kooper-webhooks".into()).spawn(move || {
        let runtimes = runtime(threads::READING).and_then(|reading| Ok((reading, runtime(1)?)));
        let (runtime, calls) = match runtimes {
            Ok(runtimes) => runtimes,
            Err(error) => return drop(started.send(Err(error))),
        };
        let (running, end) = mpsc::channel::<()>();
        runtime.spawn({
            let (shared, reading, calls) = (Arc::clone(&shared), runtime.handle().clone(), calls.handle().clone());
            async move {
                match tokio::net::TcpListener::from_std(socket) {
                    Ok(socket) => {
                        shared.threads.start(&reading, &calls);
                        drop(started.send(Ok(())));
                        shared.stop.run_until_cancelled(connection::accept(&socket, &shared)).await;
                        drop(socket);
                        // Those with requests in progress; none after `shutdown`.
                        drop(tokio::time::timeout(DRAIN, shared.connections.wait()).await);
                    }
                    Err(error) => drop(started.send(Err(error))),
                }
                drop(running);
            }
        });
        // It fails when the task above has ended.
        let _: Result<(), RecvError> = end.recv();
        shared.threads.stop();
        // A function that blocks its thread does not hold up the end.
        runtime.shutdown_background();
        calls.shutdown_background();
    })?;
    start.recv().unwrap_or_else(|_| Err(io::Error::other("they ended at once")))?;
    Ok(thread)
}

fn runtime(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(RUNNING)
        .thread_name("kooper-webhook")
        .enable_io()
        .enable_time()
        .build()
}
