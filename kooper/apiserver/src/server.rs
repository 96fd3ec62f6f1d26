//! The server: HTTPS on a socket, and the same thing without one.

mod connections;
mod credentials;
mod kubeconfig;
mod service;
mod stored;
mod tls;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::select_all;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::credentials::{Credentials, CredentialsError};
pub use self::service::Service;
pub use self::stored::StoredObject;
use crate::bootstrap;
use crate::cluster::Cluster;
use crate::faults::{Faults, Report};
use crate::identity::User;
use crate::kinds::Kind;
use crate::store::Table;

/// A Kubernetes API server in this process, with data of its own.
///
/// It is in memory, listens on loopback and speaks HTTPS (HTTP/2 and
/// HTTP/1.1). Dropping it ends its connections at once;
/// [`shutdown`](Self::shutdown) lets them finish.
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use kooper_apiserver::ApiServer;
///
/// let server = ApiServer::start().await?;
/// let client = server.client();
/// std::fs::write("kubeconfig.yaml", server.kubeconfig())?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it stops the server"]
pub struct ApiServer {
    cluster: Arc<Cluster>,
    address: SocketAddr,
    credentials: Credentials,
    /// A value asks the connections to finish; without its sender they end at once.
    running: watch::Sender<()>,
    accepting: JoinHandle<()>,
    _report: Report,
}

/// Settings of a server that is not started yet, from [`ApiServer::builder`].
#[derive(Debug)]
#[must_use = "nothing happens until it is started"]
pub struct Builder {
    address: SocketAddr,
    credentials: Option<Credentials>,
    accounts: bool,
}

impl Builder {
    /// Where to listen: a free port of 127.0.0.1 unless set.
    ///
    /// The server's certificate is for loopback and for this address.
    pub fn address(mut self, address: impl Into<SocketAddr>) -> Self {
        self.address = address.into();
        self
    }

    /// The certificate authority and the token of the administrator: new ones unless set.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// A server as kube-apiserver is without kube-controller-manager and without the plugin `ServiceAccount`: no
    /// namespace has anything from its beginning. For comparisons with such a one.
    #[doc(hidden)]
    pub fn without_accounts(mut self) -> Self {
        self.accounts = false;
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on.
    pub async fn start(self) -> io::Result<ApiServer> {
        let listener = TcpListener::bind(self.address).await?;
        let address = listener.local_addr()?;
        let credentials = self.credentials.unwrap_or_else(Credentials::generate);
        let tls = tls::acceptor(&credentials, address.ip())?;
        let cluster = Arc::new(Cluster::new(&credentials.token, credentials.certificate_pem(), address, self.accounts));
        bootstrap::create_objects(&cluster);
        // Watches begin after them at the earliest, as on a server that was started on its data.
        cluster.kinds().stored().for_each(|kind| kind.table.compact());
        let (running, stopped) = watch::channel(());
        let accepting = tokio::spawn(connections::accept(listener, tls, Arc::clone(&cluster), stopped));
        let report = Report::of(&cluster.faults);
        Ok(ApiServer { cluster, address, credentials, running, accepting, _report: report })
    }
}

impl ApiServer {
    /// Starts a fresh server on a free port of loopback.
    ///
    /// # Errors
    ///
    /// When loopback cannot be listened on.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// A server whose address or credentials are given.
    ///
    /// ```no_run
    /// # async fn run(saved: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// use kooper_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().address(([127, 0, 0, 1], 6443)).credentials(saved.parse()?).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder { address: (Ipv4Addr::LOCALHOST, 0).into(), credentials: None, accounts: true }
    }

    /// Stops listening, ends the watches, and waits until the requests that
    /// are being served are answered, for at most 2 seconds.
    ///
    /// Clients without a socket are served as long as they live.
    pub async fn shutdown(self) {
        self.running.send_replace(());
        // It ends by itself: a panic in it was reported by the panic hook.
        drop(self.accepting.await);
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the server for clients on this machine, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        kubeconfig::url(self.address)
    }

    /// Returns the certificate authority by which clients verify the server, and the token of a
    /// user with all permissions.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// A client of a user who may do everything. It needs no socket.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// A client of a user who may do what the roles of this server allow. It needs no socket.
    #[must_use]
    pub fn client_of(&self, user: User) -> kube::Client {
        let token = self.cluster.tokens.issue(user);
        kube::Client::new(Service::new(&self.cluster, &token), "default")
    }

    /// The server without its socket: requests carry the token of a user who may do everything, unless they have one.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(&self.cluster, self.token())
    }

    /// The bearer token of a user who may do everything.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.credentials.token
    }

    /// A new bearer token for a user.
    #[must_use]
    pub fn token_of(&self, user: User) -> String {
        self.cluster.tokens.issue(user)
    }

    /// A kubeconfig, in YAML, for the user who may do everything.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        kubeconfig::kubeconfig(self.address, &self.credentials.certificate_pem(), "admin", self.token())
    }

    /// A kubeconfig, in YAML, with a new token for a user.
    #[must_use]
    pub fn kubeconfig_of(&self, user: User) -> String {
        let name = user.name().to_owned();
        let token = self.cluster.tokens.issue(user);
        kubeconfig::kubeconfig(self.address, &self.credentials.certificate_pem(), &name, &token)
    }

    /// Sets where the webhooks of a Service are, which this server has no network to reach: configurations that name the
    /// Service are called at this address, whatever their port. Its certificate is still for `name.namespace.svc`.
    pub fn set_webhook_service(&self, namespace: &str, name: &str, address: SocketAddr) {
        self.cluster.webhooks.write().insert((namespace.to_owned(), name.to_owned()), address);
    }

    /// The faults that a test injects. From the first call on, requests are counted and the last ones are kept.
    ///
    /// # Panics
    ///
    /// If the environment variable `KOOPER_SEED` is not a number, or the file of `KOOPER_FAULTS` cannot be read.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults::of(&self.cluster.faults, &self.cluster.store)
    }

    /// Waits until there is an object of one of these resources, such as `("apps", "deployments")`. The future does
    /// not keep the server running.
    ///
    /// ```
    /// # async fn run(server: kooper_apiserver::ApiServer) {
    /// server.first_of(&[("", "pods"), ("apps", "deployments")]).await;
    /// # }
    /// ```
    pub fn first_of(&self, resources: &[(&str, &str)]) -> impl Future<Output = ()> + Send + 'static + use<> {
        let kinds = self.cluster.kinds();
        let named = |kind: &&Arc<Kind>| resources.contains(&(&*kind.group, &*kind.resource));
        let first: Vec<_> = kinds.stored().filter(named).map(|kind| Arc::clone(&kind.table)).map(first_in).collect();
        async move {
            if first.is_empty() {
                return std::future::pending().await;
            }
            select_all(first).await;
        }
    }

    #[cfg(test)]
    pub(crate) fn fault_state(&self) -> &crate::faults::State {
        &self.cluster.faults
    }

    /// Everything that is stored, by resource and key: what the comparison of two end states begins with. It is not
    /// a request, and meets no faults.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let server = kooper_apiserver::ApiServer::start().await?;
    /// let objects = server.objects();
    /// assert!(objects.iter().any(|object| object.resource() == "namespaces" && object.key() == "default"));
    /// # Ok::<_, std::io::Error>(())
    /// # })?;
    /// # Ok::<_, std::io::Error>(())
    /// ```
    #[must_use]
    pub fn objects(&self) -> Vec<StoredObject> {
        let kinds = self.cluster.kinds();
        kinds.stored().flat_map(StoredObject::all).collect()
    }

    /// The stored object of this resource and key, see [`objects`](Self::objects).
    #[must_use]
    pub fn object(&self, group: &str, resource: &str, key: &str) -> Option<StoredObject> {
        let kinds = self.cluster.kinds();
        let mut of_resource = kinds.stored().filter(|kind| kind.group == group && kind.resource == resource);
        of_resource.find_map(|kind| StoredObject::get(kind, key))
    }

    /// The version of the last write of any object. As long as it stays the same, so do all
    /// [`objects`](Self::objects).
    #[must_use]
    pub fn version(&self) -> u64 {
        self.cluster.store.version()
    }

    /// Forgets the changes of the past, as a compaction of etcd does: older watches and pages get `410 Gone`.
    pub fn compact(&self) {
        self.cluster.store.compact();
    }
}

/// Waits until the table has an object.
fn first_in(table: Arc<Table>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        loop {
            let changed = table.changed();
            if !table.is_empty() {
                return;
            }
            changed.await;
        }
    })
}
