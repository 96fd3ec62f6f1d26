//! The listener for `/metrics`, `/healthz` and `/readyz`, and for the status page.
//!
//! It runs on a separate thread and runtime, so that probes are answered while
//! handlers block the program's runtime. A program may have two: one for the metrics,
//! which may be secured, and one for probes.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::Registry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::BoxError;
use crate::metrics::health::Health;
use pages::Pages;
use site::Site;

#[cfg(all(feature = "cli", feature = "rustls-tls"))]
pub(crate) mod certificate;
#[cfg(feature = "cli")]
pub(crate) mod guard;
mod pages;
mod pulse;
mod site;
mod status;
#[cfg(test)]
mod tests;

#[cfg(feature = "cli")]
pub(crate) use site::{GuardMaker, Offer, SiteBuilder};

/// A connection serves one request and lasts no longer than this, however
/// slow its client is.
const LONGEST_CONNECTION: Duration = Duration::from_secs(10);

/// How long a client may take to send the head of its request, and how long
/// that head may be.
const LONGEST_HEAD: (Duration, usize) = (Duration::from_secs(5), 16 * 1024);

/// The most connections at the same time; a further one ends the oldest.
const MOST_CONNECTIONS: usize = 128;

/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often that is logged.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// A socket that is bound: its port is taken.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    /// The title of the status page, if there is one.
    status: Option<String>,
}

/// Why the listener cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {}", advice(error))]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// The address of probes cannot be bound.
    #[error("cannot listen on {address} for probes: {}", advice_on_probes(error))]
    BindProbes {
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread that serves metrics and probes")]
    Thread(#[source] io::Error),
}

impl Listener {
    /// The default of `--listen`: all addresses, port 8080.
    pub const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 8080);

    /// The default of `--listen-probes`, if probes have a port of their own: all
    /// addresses, port 8081.
    pub const DEFAULT_PROBES: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 8081);

    /// Binds the address. `[::]` accepts IPv4 connections, too; on a machine without
    /// IPv6, `0.0.0.0` is bound instead.
    ///
    /// # Errors
    /// When the port is taken, or the address is not one of this machine's.
    pub fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let every_v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
        let socket = TcpListener::bind(address).or_else(|error| {
            let v6_is_absent = !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
            if address.ip() == Ipv6Addr::UNSPECIFIED && v6_is_absent { TcpListener::bind(every_v4) } else { Err(error) }
        });
        let ready = |socket: TcpListener| {
            socket.set_nonblocking(true)?;
            Ok(Self { address: socket.local_addr()?, socket, status: None })
        };
        socket.and_then(ready).map_err(|error| ListenError::Bind { address, error })
    }

    /// Binds the address of probes.
    #[cfg(feature = "cli")]
    pub(crate) fn bind_probes(address: SocketAddr) -> Result<Self, ListenError> {
        Self::bind(address).map_err(|error| match error {
            ListenError::Bind { address, error } => ListenError::BindProbes { address, error },
            other => other,
        })
    }

    /// The address in use: with port 0, the port that the system chose.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Adds `/status`, a page for people: the controllers with their watches, queues
    /// and running calls, and what each key waits for, with its last error. It is
    /// read-only, has at most 1 000 rows and no contents of objects, which errors may
    /// quote, though.
    ///
    /// ```
    /// use kooper::Health;
    /// use kooper::http::Listener;
    /// use kooper::prometheus::Registry;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kooper::Result<()> {
    /// let health = Health::default(); // that of the operator
    /// let listener = Listener::bind("127.0.0.1:0".parse()?)?.status_page("shop");
    /// let server = listener.serve(Registry::new(), health, tokio::runtime::Handle::current())?;
    /// println!("http://{}/status", server.local_addr());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn status_page(mut self, title: impl Into<String>) -> Self {
        self.status = Some(title.into());
        self
    }

    /// Starts to answer. `/healthz` also fails when `program`, the runtime of
    /// the controllers, runs no task for a minute.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn serve(mut self, registry: Registry, health: Health, program: Handle) -> Result<Server, ListenError> {
        let status = self.status.take();
        self.serve_site(|| Ok(Site::open(Pages::new(registry, health, program).with_status(status))))
    }

    /// Starts to answer with what `site` makes on the thread and the runtime of the
    /// listener.
    fn serve_site(self, site: impl FnOnce() -> io::Result<Site> + Send + 'static) -> Result<Server, ListenError> {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let (started, start) = mpsc::channel();
        let thread = std::thread::Builder::new().name("kooper-http".into()).spawn(move || {
            let runtime = match Builder::new_current_thread().enable_io().enable_time().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            runtime.block_on(async move {
                let socket = tokio::net::TcpListener::from_std(self.socket);
                match socket.and_then(|socket| Ok((socket, site()?))) {
                    Ok((socket, site)) => {
                        drop(started.send(Ok(())));
                        stopped.run_until_cancelled(accept(socket, Arc::new(site))).await;
                    }
                    Err(error) => drop(started.send(Err(error))),
                }
            });
        });
        let thread = thread.map_err(ListenError::Thread)?;
        match start.recv() {
            Ok(Ok(())) => Ok(Server { address: self.address, stop, thread: Some(thread) }),
            Ok(Err(error)) => Err(ListenError::Thread(error)),
            Err(_) => Err(ListenError::Thread(io::Error::other("it ended at once"))),
        }
    }
}

/// The running listener. It stops when it is dropped.
#[derive(Debug)]
#[must_use = "the listener stops when its server is dropped"]
pub struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// The address in use.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Closes the socket and every connection, and waits until that is done.
    pub fn stop(self) {}
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // It panicked if this fails, and the panic was reported then.
            drop(thread.join());
        }
    }
}

async fn accept(socket: tokio::net::TcpListener, site: Arc<Site>) {
    let mut connections: VecDeque<AbortHandle> = VecDeque::new();
    let mut logged: Option<Instant> = None;
    loop {
        let stream = match socket.accept().await {
            Ok((stream, _)) => stream,
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
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= MOST_CONNECTIONS
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let task = tokio::spawn(serve_connection(stream, Arc::clone(&site)));
        connections.push_back(task.abort_handle());
    }
}

async fn serve_connection(stream: TcpStream, site: Arc<Site>) {
    let served = async {
        #[cfg(all(feature = "cli", feature = "rustls-tls"))]
        if let Some(acceptor) = site.acceptor() {
            return serve_stream(acceptor.accept(stream).await?, &site).await;
        }
        serve_stream(stream, &site).await
    };
    // An error of a client only affects its own connection.
    if let Ok(Err(error)) = tokio::time::timeout(LONGEST_CONNECTION, served).await {
        tracing::debug!(%error, "a connection to the listener for metrics and probes broke");
    }
}

async fn serve_stream<S>(stream: S, site: &Arc<Site>) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let site = Arc::clone(site);
        async move {
            let (head, _) = request.into_parts();
            Ok::<_, std::convert::Infallible>(site.answer(&head).await)
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

/// The error of the system, and what to do about it.
fn advice(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program uses this port: choose another one with `--listen` or \
             KOOPER_LISTEN, such as `--listen [::]:8081`, or `--listen off`"
            .to_owned(),
        io::ErrorKind::PermissionDenied => format!(
            "{error}: ports below 1024 require a privilege; choose a higher one with `--listen` or KOOPER_LISTEN, such as \
             `--listen [::]:8080`"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "{error}: no interface of this machine has this address; write `[::]` for all of them in `--listen` or \
             KOOPER_LISTEN"
        ),
        _ => format!("{error}: choose another address with `--listen` or KOOPER_LISTEN, or `--listen off`"),
    }
}

fn advice_on_probes(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program uses this port: choose another one with `--listen-probes` or \
             KOOPER_LISTEN_PROBES, such as `--listen-probes [::]:8082`"
            .to_owned(),
        _ => format!("{error}: choose another address with `--listen-probes` or KOOPER_LISTEN_PROBES"),
    }
}
