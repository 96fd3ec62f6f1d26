//! The server: a socket on loopback, and the same thing without one.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::auth::User;
use crate::core::Core;
use crate::faults::{Faults, Report};
use crate::http::Body;

/// A Kubernetes API server in this process, with data of its own.
///
/// It is in memory and listens on loopback. Dropping it ends its connections.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use kooper_apiserver::ApiServer;
///
/// let server = ApiServer::start().await?;
/// let client = server.client();
/// println!("serving on {}", server.address());
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it stops the server"]
pub struct ApiServer {
    core: Arc<Core>,
    address: SocketAddr,
    /// Closed when the server is dropped.
    _running: watch::Sender<()>,
    _report: Report,
}

impl ApiServer {
    /// Starts a fresh server on a free port of loopback.
    ///
    /// # Errors
    ///
    /// When loopback cannot be listened on.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let core = Core::new();
        let (running, stopped) = watch::channel(());
        tokio::spawn(accept(listener, Arc::clone(&core), stopped));
        let report = Report::of(&core);
        Ok(Self { core, address, _running: running, _report: report })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client of a user who may do everything. It needs no socket.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// A client of a user who may do what the roles of this server allow. It needs no socket.
    #[must_use]
    pub fn client_of(&self, user: User) -> kube::Client {
        let token = self.core.authority.issue(user);
        kube::Client::new(Service::new(&self.core, &token), "default")
    }

    /// The server without its socket: requests carry the token of a user who may do everything, unless they have one.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(&self.core, self.core.authority.admin())
    }

    /// The bearer token of a user who may do everything.
    #[must_use]
    pub fn token(&self) -> &str {
        self.core.authority.admin()
    }

    /// A new bearer token for a user.
    #[must_use]
    pub fn token_of(&self, user: User) -> String {
        self.core.authority.issue(user)
    }

    /// A kubeconfig, in YAML, for the user who may do everything.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: kooper\n  cluster:\n    server: http://{}\nusers:\n- name: \
             admin\n  user:\n    token: {}\ncontexts:\n- name: kooper\n  context:\n    cluster: kooper\n    user: \
             admin\ncurrent-context: kooper\n",
            self.address,
            self.token()
        )
    }

    /// The faults that a test injects. From the first call on, requests are counted and the last ones are kept.
    ///
    /// # Panics
    ///
    /// If the environment variable `KOOPER_SEED` is not a number, or the file of `KOOPER_FAULTS` cannot be read.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults::of(&self.core)
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Forgets the changes of the past, as a compaction of etcd does: older watches and pages get `410 Gone`.
    pub fn compact(&self) {
        self.core.expire_history();
    }
}

/// Accepts connections until the server is dropped.
async fn accept(listener: TcpListener, core: Arc<Core>, mut stopped: watch::Receiver<()>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        // A connection that ended before it was accepted, or too many open files: others may come.
        let Ok((stream, _)) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        // Small answers are sent at once; without it they only take longer.
        drop(stream.set_nodelay(true));
        let core = Arc::clone(&core);
        let mut stopped = stopped.clone();
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let core = Arc::clone(&core);
                async move { core.serve(request).await }
            });
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new());
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // A client that goes away in the middle is its own business.
                _ = connection => {}
                _ = stopped.changed() => {}
            }
        });
    }
}

/// The server as a `tower::Service`, so that a client needs no socket.
#[derive(Clone, Debug)]
pub struct Service {
    core: Arc<Core>,
    authorization: Option<HeaderValue>,
}

impl Service {
    fn new(core: &Arc<Core>, token: &str) -> Self {
        Self { core: Arc::clone(core), authorization: HeaderValue::from_str(&format!("Bearer {token}")).ok() }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    /// The connection is reset, as an injected fault requests.
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let (None, Some(value)) = (request.headers().get(header::AUTHORIZATION), &self.authorization) {
            request.headers_mut().insert(header::AUTHORIZATION, value.clone());
        }
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.serve(request).await })
    }
}
