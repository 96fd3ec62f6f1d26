//! All webhooks of a program: the server, its certificate, and their registration.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kooper_access::internal::Installation;
use kooper_access::{ConfigError as ControllerError, Controller, Recorder, State};
use kooper_runtime::internal::error::public_chain;
use kooper_runtime::leader::LeaderElection;
use kooper_runtime::{Action, Result};
use kooper_serving::{CertificateError, FileCertificate};
use kube::Client;
use kube::api::ObjectMeta;
use parking_lot::Mutex;
use prometheus::Registry;
use tokio::sync::watch;

use crate::authority::leaf::Leaf;
use crate::certificates::{Certificates, Shared};
use crate::installed::Installed;
use crate::readiness::ReadinessRetriever;
use crate::registration::{Finding, RegisterError, Registration, RollOut, Target, probes};
use crate::server::metrics::Metrics;
use crate::server::{Certificate, ServeError, Server};
use crate::states::Registered;
use crate::webhook::Webhook;

mod running;

pub use running::Running;

/// The interval at which a replica reads the Secret, and the leader looks after the configurations.
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

/// The webhooks that are served and registered.
struct Prepared {
    address: SocketAddr,
    /// Where API servers reach the server was set, and does not follow from its address.
    has_target: bool,
    registration: Registration,
    election: LeaderElection,
    controllers: Vec<Controller>,
    registered: watch::Receiver<bool>,
    registry: Option<Registry>,
}

/// Where an API server on this machine reaches a server on loopback.
fn local(address: SocketAddr) -> Option<Target> {
    address.ip().is_loopback().then(|| Target::Url(format!("https://{address}")))
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
    pub fn serve(self) -> Result<(Running, Vec<Controller>), StartError> {
        let Prepared { address, has_target, mut registration, election, mut controllers, registered, registry } =
            self.prepare()?;
        let acceptor: Certificate = Arc::new({
            let shared = Arc::clone(&registration.shared);
            move || match &shared.certificates {
                Certificates::Own { leaf, .. } => leaf.acceptor(),
                Certificates::Files { certificate, .. } | Certificates::Injected { certificate, .. } => {
                    Some(certificate.acceptor())
                }
            }
        });
        let served = registration.webhooks.iter().cloned().chain(probes().map(Arc::new));
        let metrics = registration.shared.metrics.clone();
        if let Some(registry) = &registry {
            let paths = registration.webhooks.iter().map(|webhook| webhook.path());
            metrics.register(registry, paths).map_err(StartError::Metrics)?;
        }
        let server = Server::start(address, served, acceptor, metrics)?;
        if let Some(target) = local(server.address).filter(|_| !has_target) {
            // The system may have chosen the port.
            registration.target = target;
        }
        let (ready, is_ready) = watch::channel(false);
        let registration = Arc::new(registration);
        controllers.push(controller(Arc::clone(&registration), is_ready, election)?);
        Ok((Running { server, renewal: None, registration, ready, registered }, controllers))
    }

    /// The controllers that [`serve`](Self::serve) returns, without a server: for the permissions that they need.
    #[doc(hidden)]
    pub fn controllers(self) -> Result<Vec<Controller>, StartError> {
        let Prepared { registration, election, mut controllers, .. } = self.prepare()?;
        controllers.push(controller(Arc::new(registration), watch::channel(true).1, election)?);
        Ok(controllers)
    }

    /// The objects that a registration writes.
    #[doc(hidden)]
    pub fn installed(self) -> Result<Installed, StartError> {
        Ok(self.prepare()?.registration.installed())
    }

    /// Compares what a cluster has of them with this program, and changes nothing.
    #[doc(hidden)]
    pub async fn inspect(self, client: &Client) -> Result<Vec<Finding>, StartError> {
        Ok(self.prepare()?.registration.inspect(client).await)
    }

    fn prepare(mut self) -> Result<Prepared, StartError> {
        let target = self.target.clone().or_else(|| local(self.address)).ok_or(StartError::NoTarget)?;
        let (mut unique, mut controllers) = (BTreeSet::new(), BTreeSet::new());
        for webhook in &self.webhooks {
            let name = webhook.name().replace('_', "-");
            // The name of the controller is the same for both types of webhooks.
            let is_shared = webhook.inputs.as_ref().is_some_and(|inputs| !controllers.insert(inputs.name()));
            if name == "probe" || is_shared || !unique.insert((webhook.rules.mutates, name)) {
                return Err(StartError::Twice(webhook.name().to_owned()));
            }
        }
        let metrics = Metrics::new(self.installation.to_string()).map_err(StartError::Metrics)?;
        let shared = Arc::new(Shared::new(self.certificates(&target)?, metrics));
        let controllers = self.webhooks.iter_mut().filter_map(|webhook| webhook.inputs.take()).collect();
        let names = names(&self.installation);
        let (done, registered) = watch::channel(false);
        // The operator adds the instance.
        let election = LeaderElection::new().lease(names.lease_of_all).namespace(&self.namespace);
        let registration = Registration {
            lease: names.lease,
            installation: self.installation,
            namespace: self.namespace,
            target,
            webhooks: self.webhooks.into_iter().map(Arc::new).collect(),
            namespaces: self.namespaces,
            deployment: self.deployment,
            roll_out: RollOut::default(),
            owner: self.owner,
            is_local: self.is_local,
            ignores: self.ignores,
            shared,
            done,
        };
        let (address, has_target, registry) = (self.address, self.target.is_some(), self.registry);
        Ok(Prepared { address, has_target, registration, election, controllers, registered, registry })
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

/// The controller that registers the webhooks, in the replica that leads. Its only object
/// stands for the Secret, and is called again and again.
fn controller(
    registration: Arc<Registration>,
    is_ready: watch::Receiver<bool>,
    election: LeaderElection,
) -> Result<Controller, ControllerError> {
    async fn register(registration: State<Arc<Registration>>, client: Client, events: Recorder) -> Result<Action> {
        // A controller with a retriever of its own reports no failures by itself.
        let report = |error: &RegisterError| events.warning("WebhooksNotRegistered", public_chain(error));
        Ok(registration.reconcile(&client).await.inspect_err(report)?)
    }
    let (needs, states) = (registration.needs(), registration.shared.states.clone());
    let webhooks = registration.webhooks.iter().map(|webhook| webhook.state(Registered::Unknown)).collect();
    states.update(|known| known.webhooks = webhooks);
    let (name, namespace) = (names(&registration.installation).secret, registration.namespace.clone());
    let metadata = ObjectMeta { name: Some(name), namespace: Some(namespace.clone()), ..ObjectMeta::default() };
    let controller = Controller::builder::<Secret>("kooper-webhooks")
        .retriever(ReadinessRetriever { object: Secret { metadata, ..Secret::default() }, is_ready })
        .state(registration)
        .resync(EVERY)
        .leader_election(election)
        // The names of the objects show the purpose of the client.
        .rbac([""; 0])
        .planned(|plan| {
            plan.limit_events(&namespace);
            needs.into_iter().for_each(|need| plan.require_permission(need));
        })
        .handler(register)
        .build()?;
    controller.extensions().insert(states);
    Ok(controller)
}
