//! All webhooks of a program: the server, its certificate, and their registration.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kooper_access::{Controller, Recorder, State};
use kooper_runtime::internal::clock;
use kooper_runtime::internal::controller::installation::Installation;
use kooper_runtime::internal::error::chain;
use kooper_runtime::leader::LeaderElection;
use kooper_runtime::retriever::fixed;
use kooper_runtime::{Action, ConfigError as ControllerError, Result};
use kooper_serving::{CertificateError, FileCertificate};
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta};
use parking_lot::Mutex;
use prometheus::Registry;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::authority::leaf::Leaf;
use crate::authority::secret::{CaSecret, SecretError};
use crate::certificates::{Certificates, Shared};
use crate::registration::{RegisterError, Registered, Registration, Target, probes};
use crate::server::metrics::Metrics;
use crate::server::{Certificate, ServeError, Server};
use crate::webhook::Webhook;

/// How often a replica reads the Secret, and the leader looks after the configurations.
const EVERY: Duration = Duration::from_secs(10);

/// The default port. Private clusters of some clouds admit connections from their API servers
/// to 443 and 10250 alone.
pub const PORT: u16 = 10250;

/// All webhooks of a program.
///
/// ```no_run
/// # async fn run(webhook: kooper_webhooks::Webhook) -> kooper_runtime::Result<()> {
/// use kooper_access::Operator;
/// use kooper_webhooks::Webhooks;
/// use kube::Client;
///
/// let client = Client::try_default().await?;
/// let webhooks = Webhooks::new("shop", "shops").service("shop-webhooks", 443).webhook(webhook);
/// let (running, controllers) = webhooks.start(&client)?;
/// let operator = controllers.into_iter().fold(Operator::builder().client(client), |operator, one| operator.controller(one));
/// operator.build()?.run(tokio_util::sync::CancellationToken::new()).await?;
/// running.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is served until `start` is called"]
pub struct Webhooks {
    installation: Installation,
    namespace: String,
    address: SocketAddr,
    target: Option<Target>,
    webhooks: Vec<Webhook>,
    namespaces: Vec<String>,
    is_local: bool,
    ignores: bool,
    deployment: Option<String>,
    owner: Option<String>,
    registry: Option<Registry>,
    mode: Mode,
}

/// Where the certificate comes from.
#[derive(Debug, Default)]
enum Mode {
    /// The program has an authority of its own.
    #[default]
    Own,
    Files {
        certificate: PathBuf,
        key: PathBuf,
        ca: PathBuf,
    },
    CertManager {
        certificate: PathBuf,
        key: PathBuf,
        from: String,
    },
}

/// Why the webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address at which API servers reach the webhooks is not set.
    #[error("the webhooks have no address: set a Service with `service`, or a URL with `url`")]
    NoTarget,
    /// Two webhooks have the same name.
    #[error("two webhooks have the name `{0}`: give one of them another name")]
    Twice(String),
    /// The certificate cannot be loaded.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The server does not start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The metrics cannot be registered.
    #[error("the metrics of webhooks cannot be registered: {0}")]
    Metrics(prometheus::Error),
    /// The controller of the registration cannot be built.
    #[error(transparent)]
    Registration(#[from] ControllerError),
}

/// The names of a program's objects. Two hyphens are in no name of a controller's Lease.
struct Names {
    secret: String,
    lease: String,
    /// Without the instance.
    lease_of_all: String,
}

fn names(installation: &Installation) -> Names {
    let Installation { program, instance } = installation;
    let suffix = instance.as_ref().map_or_else(String::new, |instance| format!(".{instance}"));
    let lease_of_all = format!("{program}--webhooks");
    Names { secret: format!("{program}--webhook-ca{suffix}"), lease: format!("{lease_of_all}{suffix}"), lease_of_all }
}

impl Webhooks {
    /// Creates the webhooks of a program that runs in this namespace.
    pub fn new(program: &str, namespace: impl Into<String>) -> Self {
        Self {
            installation: Installation::new(program, None),
            namespace: namespace.into(),
            address: SocketAddr::from(([0; 16], PORT)),
            target: None,
            webhooks: Vec::new(),
            namespaces: Vec::new(),
            is_local: false,
            ignores: false,
            deployment: None,
            owner: None,
            registry: None,
            mode: Mode::Own,
        }
    }

    /// Sets the instance name of this installation: that of the operator that runs the
    /// registration.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.installation.instance = Some(instance.into());
        self
    }

    /// Sets the address to listen on. The default is port 10250 of all addresses. Without a Service
    /// or a URL, API servers use this address if it is a loopback address.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets the Service through which API servers reach the webhooks, in the program's namespace.
    pub fn service(mut self, name: impl Into<String>, port: u16) -> Self {
        self.target = Some(Target::Service { name: name.into(), port });
        self
    }

    /// Sets the URL at which API servers reach webhooks outside the cluster, such as
    /// `https://192.0.2.1:10250`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.target = Some(Target::Url(url.into()));
        self
    }

    /// Serves the webhooks from a developer's machine, which the API servers of a cluster reach at this
    /// URL, such as `https://192.0.2.1:10250`. They are registered separately from those of an
    /// installation in the cluster, with another certificate authority and other configurations. Their
    /// failure policy is `Ignore`, and they are called only in their [`namespaces`](Self::namespaces),
    /// even for Kubernetes' own kinds.
    pub fn development(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        // The same developer takes over what a program that was killed has left.
        let hash = url.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        self.installation.program = format!("{}-run-{hash:08x}", self.installation.program);
        self.ignores = true;
        self.url(url).local()
    }

    /// Calls the webhooks of Kubernetes' own kinds also in the namespace of the program, and the webhooks of
    /// all kinds only in the [`namespaces`](Self::namespaces), if there are some. Use it in `dev` and in
    /// tests, where no other part of the cluster depends on the webhooks.
    pub fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    /// Adds a webhook.
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Limits the webhooks to these namespaces, except for Kubernetes' own kinds.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the Deployment of the program. A new function is registered when all replicas are
    /// updated, because an older replica does not have it.
    pub fn deployment(mut self, name: impl Into<String>) -> Self {
        self.deployment = Some(name.into());
        self
    }

    /// Sets the ClusterRole of the program as the owner of the configurations. They are deleted
    /// together with it, so the API servers do not call a program that no longer exists.
    pub fn owner(mut self, cluster_role: impl Into<String>) -> Self {
        self.owner = Some(cluster_role.into());
        self
    }

    /// Sets the registry of the metrics.
    pub fn metrics(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Reads the certificate from PEM files, and its authority from the file `ca`. The files are read
    /// again when they change. The program then creates no authority.
    pub fn files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>, ca: impl Into<PathBuf>) -> Self {
        self.mode = Mode::Files { certificate: certificate.into(), key: key.into(), ca: ca.into() };
        self
    }

    /// Reads the certificate from PEM files, and lets cert-manager write its authority into the
    /// configurations: the authority of the `Certificate` named `from`, such as `shops/shop-webhooks`.
    pub fn cert_manager(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        from: impl Into<String>,
    ) -> Self {
        self.mode = Mode::CertManager { certificate: certificate.into(), key: key.into(), from: from.into() };
        self
    }

    /// Like [`serve`](Self::serve), and also reads the certificate authority from its Secret.
    ///
    /// Call this method within a tokio runtime, on which the Secret is read.
    ///
    /// # Errors
    /// If a setting is missing, a name is not unique, a certificate cannot be used, or the port
    /// is in use.
    pub fn start(self, client: &Client) -> Result<(Running, Vec<Controller>), StartError> {
        let (mut running, controllers) = self.serve()?;
        running.connect(client);
        Ok((running, controllers))
    }

    /// Starts the server, on separate threads. Until [`connect`](Running::connect) has read the program's
    /// certificate authority, the server accepts no connections. Add the controllers to the operator: one of
    /// them registers the webhooks, in the replica that is the leader. The others provide the arguments of the
    /// functions, such as caches; a webhook fails until its controller is synced.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn serve(mut self) -> Result<(Running, Vec<Controller>), StartError> {
        let local = |address: SocketAddr| address.ip().is_loopback().then(|| Target::Url(format!("https://{address}")));
        let target = self.target.clone().or_else(|| local(self.address)).ok_or(StartError::NoTarget)?;
        let mut unique = BTreeSet::new();
        for webhook in &self.webhooks {
            let name = webhook.name().replace('_', "-");
            if name == "probe" || !unique.insert((webhook.rules.mutates, name)) {
                return Err(StartError::Twice(webhook.name().to_owned()));
            }
        }
        let shared = Arc::new(Shared { certificates: self.certificates(&target)? });
        let acceptor: Certificate = Arc::new({
            let shared = Arc::clone(&shared);
            move || match &shared.certificates {
                Certificates::Own { leaf, .. } => leaf.acceptor(),
                Certificates::Files { certificate, .. } | Certificates::Injected { certificate, .. } => {
                    Some(certificate.acceptor())
                }
            }
        });
        let mut controllers: Vec<_> = self.webhooks.iter_mut().filter_map(|webhook| webhook.inputs.take()).collect();
        let webhooks: Vec<_> = self.webhooks.into_iter().map(Arc::new).collect();
        let served = webhooks.iter().cloned().chain(probes().map(Arc::new));
        let metrics = Metrics::new().map_err(StartError::Metrics)?;
        if let Some(registry) = &self.registry {
            metrics.register(registry).map_err(StartError::Metrics)?;
        }
        let server = Server::start(self.address, served, acceptor, metrics)?;
        // The system may have chosen the port.
        let target = self.target.or_else(|| local(server.local_addr())).unwrap_or(target);
        let names = names(&self.installation);
        let (done, registered) = watch::channel(false);
        // The operator adds the instance.
        let election = LeaderElection::new().lease(names.lease_of_all).namespace(&self.namespace);
        let registration = Registration {
            lease: names.lease,
            installation: self.installation,
            namespace: self.namespace,
            target,
            webhooks,
            namespaces: self.namespaces,
            deployment: self.deployment,
            owner: self.owner,
            is_local: self.is_local,
            ignores: self.ignores,
            shared: Arc::clone(&shared),
            done,
        };
        let names = registration.names();
        controllers.push(controller(registration, election)?);
        Ok((Running { server, renewal: None, shared, names, registered }, controllers))
    }

    fn certificates(&self, target: &Target) -> Result<Certificates, CertificateError> {
        let load = |certificate: &PathBuf, key: &PathBuf| {
            FileCertificate::load("the webhooks", certificate.clone(), key.clone())
        };
        Ok(match &self.mode {
            Mode::Own => {
                let secret = names(&self.installation).secret;
                let leaf = Leaf::new(target.names(&self.namespace));
                Certificates::Own { secret, leaf, known: Mutex::new(None) }
            }
            Mode::Files { certificate, key, ca } => {
                Certificates::Files { certificate: load(certificate, key)?, ca: ca.clone() }
            }
            Mode::CertManager { certificate, key, from } => {
                Certificates::Injected { certificate: load(certificate, key)?, from: from.clone() }
            }
        })
    }
}

/// The running server of a program's webhooks. It stops at once when it is dropped.
#[derive(Debug)]
#[must_use = "the server stops when it is dropped"]
pub struct Running {
    server: Server,
    renewal: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    names: Registered,
    registered: watch::Receiver<bool>,
}

impl Running {
    /// How long requests are served after the program was asked to stop, while API servers
    /// learn that it goes.
    const LINGER: Duration = Duration::from_secs(10);

    /// The address in use: with port 0, the port that the system chose.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Reads the certificate authority from its Secret, and renews the certificate of this replica
    /// when the authority changes.
    ///
    /// Call this method within a tokio runtime.
    pub fn connect(&mut self, client: &Client) {
        let renewed = renewal(client.clone(), &self.names.namespace, Arc::clone(&self.shared));
        if let Some(earlier) = self.renewal.replace(renewed) {
            earlier.abort();
        }
    }

    /// Waits until this replica has registered the webhooks and the API server has reached them.
    pub async fn registered(&self) {
        // An error is the end of the operator, which the caller learns from it.
        drop(self.registered.clone().wait_for(|registered| *registered).await);
    }

    /// Stops at once, and deletes the configurations, the Lease and the Secret, so that the API
    /// servers no longer call the webhooks.
    ///
    /// # Errors
    /// If an object cannot be deleted.
    pub async fn remove(self, client: &Client) -> Result<(), kube::Error> {
        let Registered { namespace, configuration, lease, secret } = &self.names;
        let client = || client.clone();
        delete::<ValidatingWebhookConfiguration>(&Api::all(client()), configuration).await?;
        delete::<MutatingWebhookConfiguration>(&Api::all(client()), configuration).await?;
        delete::<Lease>(&Api::namespaced(client(), namespace), lease).await?;
        if secret.is_empty() {
            return Ok(());
        }
        delete::<Secret>(&Api::namespaced(client(), namespace), secret).await
    }

    /// Stops without failing a call: serves for ten more seconds, and waits for the requests in
    /// progress. Let the readiness probe of the program fail before.
    pub async fn shutdown(self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
        self.server.shutdown(Self::LINGER).await;
    }
}

/// Deletes an object, if it exists.
async fn delete<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str) -> Result<(), kube::Error> {
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Keeps the certificate of this replica that of the authority in the Secret.
fn renewal(client: Client, namespace: &str, shared: Arc<Shared>) -> JoinHandle<()> {
    let namespace = namespace.to_owned();
    tokio::spawn(async move {
        let Certificates::Own { secret, leaf, .. } = &shared.certificates else { return };
        let secret = CaSecret::new(client, &namespace, secret.clone());
        loop {
            let renewed = async {
                let read = secret.read(shared.known().as_ref()).await?;
                leaf.renew(&read.authorities.current, clock::wall())?;
                shared.know(&read.authorities);
                Ok::<_, SecretError>(())
            };
            if let Err(error) = renewed.await {
                tracing::warn!(
                    "the certificate of the webhooks cannot be renewed, and stays in use: {}",
                    chain(&error)
                );
            }
            sleep(EVERY).await;
        }
    })
}

/// The controller that registers the webhooks, in the replica that leads. Its only object
/// stands for the Secret, and is called again and again.
fn controller(registration: Registration, election: LeaderElection) -> Result<Controller, ControllerError> {
    async fn register(registration: State<Registration>, client: Client, events: Recorder) -> Result<Action> {
        // A controller with a retriever of its own reports no failures by itself.
        let report = |error: &RegisterError| events.warning("WebhooksNotRegistered", error.to_string());
        Ok(registration.reconcile(&client).await.inspect_err(report)?)
    }
    let needs = registration.needs();
    let name = Some(names(&registration.installation).secret);
    let metadata = ObjectMeta { name, namespace: Some(registration.namespace.clone()), ..ObjectMeta::default() };
    #[expect(clippy::expect_used, reason = "it has a name")]
    let retriever = fixed([Secret { metadata, ..Secret::default() }]).expect("an object");
    Controller::builder::<Secret>("kooper-webhooks")
        .retriever(retriever)
        .state(registration)
        .resync(EVERY)
        .leader_election(election)
        // What the client is for is known by the names of the objects.
        .rbac([""; 0])
        .planned(|plan| needs.into_iter().for_each(|need| plan.require_permission(need)))
        .handler(register)
        .build()
}
