//! The listener for `/metrics`, `/healthz` and `/readyz`, and for the status page.
//!
//! It runs on a separate thread and runtime, so that probes are answered while
//! handlers block the program's runtime. A program may have two: one for the metrics,
//! which may be secured, and one for probes.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use prometheus::Registry;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

use crate::block_on::block_on;
use kooper_runtime::Health;
use pages::Pages;
pub(crate) use route::Routes;
use site::Site;

#[cfg(all(feature = "cli", feature = "rustls-tls"))]
pub(crate) mod certificate;
mod connections;
#[cfg(feature = "cli")]
pub(crate) mod guard;
mod history;
mod pages;
mod route;
mod runtime_probe;
mod site;
mod status;
#[cfg(test)]
mod tests;

/// Makes the guard on the runtime of the listener, as its client runs there.
#[cfg(feature = "cli")]
pub(crate) type GuardMaker = Box<dyn FnOnce() -> io::Result<guard::Guard> + Send + Sync>;

/// A socket that is bound: its port is taken.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    /// Its pages besides the status page and the program's own.
    offers: &'static [&'static str],
    /// The title of the status page, if there is one.
    status: Option<String>,
    /// The pages of the program's own.
    routes: Routes,
    #[cfg(feature = "cli")]
    guard: Option<GuardMaker>,
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    certificate: Option<certificate::Certificate>,
}

kooper_runtime::internal::debug_fields! { Listener { socket, address, status, routes } }

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
    /// The status page would be open to other machines. It shows keys and errors.
    #[error("anyone who can reach {address} could read the status page: {}", advice_on_status())]
    OpenStatusPage {
        /// The address in use.
        address: SocketAddr,
    },
    /// The program adds a page that a listener cannot have.
    #[error("the page `{path}` cannot be added: {problem}")]
    Route {
        /// The path of the page.
        path: &'static str,
        /// The reason, and what to write instead.
        problem: &'static str,
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
        let ready = |socket: TcpListener| {
            Ok(Self {
                address: socket.local_addr()?,
                socket,
                offers: pages::EVERY,
                status: None,
                routes: Routes::default(),
                #[cfg(feature = "cli")]
                guard: None,
                #[cfg(all(feature = "cli", feature = "rustls-tls"))]
                certificate: None,
            })
        };
        kooper_serving::bind(address).and_then(ready).map_err(|error| ListenError::Bind { address, error })
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
    /// quote, though. It is for this machine only: [`serve`](Self::serve) refuses an
    /// address that is not loopback.
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

    /// Adds a page: the function answers `GET` and `HEAD` of this path. It is called on the runtime of
    /// the controllers, and a panic ends one request. It is aborted when its client is gone, and after
    /// ten seconds. Everyone who reads the metrics can read it; where the metrics need a token, the role
    /// of its user needs `get` on this path in `nonResourceURLs`.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use kooper::Health;
    /// use kooper::http::Listener;
    /// use kooper::prometheus::Registry;
    ///
    /// async fn version(_: Request<()>) -> Response<&'static str> {
    ///     Response::new(env!("CARGO_PKG_VERSION"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> kooper::Result<()> {
    /// let listener = Listener::bind("127.0.0.1:0".parse()?)?.route("/version", version);
    /// let server = listener.serve(Registry::new(), Health::default(), tokio::runtime::Handle::current())?;
    /// println!("http://{}/version", server.local_addr());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn route<B, F>(
        mut self,
        path: &'static str,
        answer: impl Fn(http::Request<()>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = http::Response<B>> + Send + 'static,
        B: Into<bytes::Bytes>,
    {
        self.routes.add(path, answer);
        self
    }

    /// Adds the pages that a program has.
    #[cfg(feature = "cli")]
    pub(crate) fn routes(mut self, routes: Routes) -> Self {
        self.routes = routes;
        self
    }

    /// Has only these pages, besides the status page and the program's own.
    #[cfg(feature = "cli")]
    pub(crate) fn only(mut self, offers: &'static [&'static str]) -> Self {
        self.offers = offers;
        self
    }

    #[cfg(feature = "cli")]
    pub(crate) fn guard(mut self, guard: Option<GuardMaker>) -> Self {
        self.guard = guard;
        self
    }

    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    pub(crate) fn certificate(mut self, certificate: Option<certificate::Certificate>) -> Self {
        self.certificate = certificate;
        self
    }

    /// Returns an error for the first page that is taken or whose path cannot be requested.
    fn check_routes(&self) -> Result<(), ListenError> {
        for path in self.routes.paths() {
            let problem = if pages::is_taken(path) {
                "it is a page of every listener: choose another path"
            } else if !path.starts_with('/')
                || path.parse::<http::uri::PathAndQuery>().is_err()
                || path.contains(['?', '#'])
            {
                "its path must begin with `/` and have no query or fragment, such as `/version`"
            } else if self.routes.paths().filter(|other| *other == path).count() > 1 {
                "it was added before: choose another path"
            } else {
                continue;
            };
            return Err(ListenError::Route { path, problem });
        }
        Ok(())
    }

    /// Starts to answer. `/healthz` also fails when `program`, the runtime of
    /// the controllers, runs no task for a minute.
    ///
    /// # Errors
    /// When there is a status page and the address is not loopback, a page cannot be added, or the
    /// system has no thread left.
    pub fn serve(self, registry: Registry, health: Health, program: Handle) -> Result<Server, ListenError> {
        let address = self.address;
        #[cfg(feature = "cli")]
        let is_open = self.guard.is_none() && !self.is_loopback();
        #[cfg(not(feature = "cli"))]
        let is_open = !self.is_loopback();
        if is_open && self.status.is_some() {
            return Err(ListenError::OpenStatusPage { address });
        }
        self.check_routes()?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let (started, start) = mpsc::channel();
        let thread = std::thread::Builder::new().name("kooper-http".into()).spawn(move || {
            let runtime = match Builder::new_current_thread().enable_io().enable_time().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            block_on(&runtime, async move {
                match self.open(registry, health, program) {
                    Ok((socket, site)) => {
                        drop(started.send(Ok(())));
                        // It ends with the runtime.
                        tokio::spawn(site.record());
                        stopped.run_until_cancelled(connections::accept(&socket, Arc::new(site))).await;
                    }
                    Err(error) => drop(started.send(Err(error))),
                }
            });
            // A collector of the program may block.
            runtime.shutdown_background();
        });
        let thread = thread.map_err(ListenError::Thread)?;
        match start.recv() {
            Ok(Ok(())) => Ok(Server { address, stop, thread: Some(thread) }),
            Ok(Err(error)) => Err(ListenError::Thread(error)),
            Err(_) => Err(ListenError::Thread(io::Error::other("it ended at once"))),
        }
    }

    /// The socket, on the runtime of this thread, and the site that answers its requests.
    fn open(self, registry: Registry, health: Health, program: Handle) -> io::Result<(tokio::net::TcpListener, Site)> {
        let is_local = self.is_loopback();
        let socket = tokio::net::TcpListener::from_std(self.socket)?;
        let site = Site::new(Pages::new(registry, health, program, self.offers, self.status, self.routes), is_local);
        #[cfg(feature = "cli")]
        let site = site.with_guard(self.guard.map(|make| make()).transpose()?);
        #[cfg(all(feature = "cli", feature = "rustls-tls"))]
        let site = site.with_certificate(self.certificate);
        Ok((socket, site))
    }

    /// Returns `true` if only this machine can connect to the listener.
    pub(crate) fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
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

fn advice_on_status() -> &'static str {
    if cfg!(feature = "cli") {
        "write `--metrics-auth token`, or `--listen 127.0.0.1:8080` for this machine only, or `--status-page off`"
    } else {
        "bind the listener to `127.0.0.1:8080`, for this machine only"
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
