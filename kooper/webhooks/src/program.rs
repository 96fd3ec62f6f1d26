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
use crate::readiness::Gate;
use crate::registration::{RegisterError, Registered, Registration, RollOut, Target, probes};
use crate::server::metrics::Metrics;
use crate::server::{Certificate, ServeError, Server};
use crate::webhook::Webhook;

/// How often a replica reads the Secret, and the leader looks after the configurations.
const EVERY: Duration = Duration::from_secs(10);

/// The pause after an attempt to become ready.
const RETRY: Duration = Duration::from_secs(1);

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
    /// It is not known where API servers reach the server.
    #[error(
        "the API servers do not know where the webhooks are: name a Service with `service`, or an address with `url`"
    )]
    NoTarget,
    /// Two webhooks have the same name.
    #[error(
        "two webhooks have the name `{0}`: a name is unique among those that validate, and among those that mutate"
    )]
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
    /// The webhooks of a program that runs in a namespace.
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

    /// Sets the instance that distinguishes this installation of the program from others: that
    /// of the operator which runs the registration.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.installation.instance = Some(instance.into());
        self
    }

    /// Sets the address to listen on: port 10250 of all addresses unless set. Unless there is a
    /// Service or another address, API servers reach one of loopback there.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets the Service by which API servers reach the server, in the program's namespace.
    pub fn service(mut self, name: impl Into<String>, port: u16) -> Self {
        self.target = Some(Target::Service { name: name.into(), port });
        self
    }

    /// Sets the address by which API servers reach a server that is outside of the cluster,
    /// such as `https://192.0.2.1:10250`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.target = Some(Target::Url(url.into()));
        self
    }

    /// Serves a program on a developer's machine, which the API servers of a cluster reach at this
    /// address, such as `https://192.0.2.1:10250`, beside the installation that the cluster may have:
    /// with a certificate authority and configurations of its own. No request fails without it, and
    /// it is called in its [`namespaces`](Self::namespaces) only, also for kinds of Kubernetes.
    pub fn development(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        // The same developer takes over what a program that was killed has left.
        let hash = url.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        self.installation.program = format!("{}-run-{hash:08x}", self.installation.program);
        self.ignores = true;
        self.url(url).local()
    }

    /// Calls the webhooks of kinds of Kubernetes in the program's own namespace, too, and those of all kinds
    /// only in the [`namespaces`](Self::namespaces), if there are some: nothing that the cluster needs to
    /// start depends on a program in `dev` or in a test.
    pub fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    /// Adds a webhook.
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Limits the webhooks of kinds that are not of Kubernetes to these namespaces.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the Deployment of the program: a function that is new is registered when all
    /// replicas are updated, as an old one would not know it.
    pub fn deployment(mut self, name: impl Into<String>) -> Self {
        self.deployment = Some(name.into());
        self
    }

    /// Sets the ClusterRole of the program as the owner of the configurations: they are deleted
    /// with it, and the API servers no longer call a program that is not there.
    pub fn owner(mut self, cluster_role: impl Into<String>) -> Self {
        self.owner = Some(cluster_role.into());
        self
    }

    /// Sets the registry of the metrics.
    pub fn metrics(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Takes the certificate from files in PEM, which are read again when they change, and its
    /// authority from the file `ca`, instead of an authority of the program's own.
    pub fn files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>, ca: impl Into<PathBuf>) -> Self {
        self.mode = Mode::Files { certificate: certificate.into(), key: key.into(), ca: ca.into() };
        self
    }

    /// Takes the certificate from files in PEM, and lets cert-manager write its authority into
    /// the configurations: that of the `Certificate` named `from`, such as `shops/shop-webhooks`.
    pub fn cert_manager(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        from: impl Into<String>,
    ) -> Self {
        self.mode = Mode::CertManager { certificate: certificate.into(), key: key.into(), from: from.into() };
        self
    }

    /// Does what [`serve`](Self::serve) does, with the certificate of the authority.
    ///
    /// Call it within a tokio runtime, which reads the Secret of the certificate authority.
    ///
    /// # Errors
    /// When something is missing, a name is not unique, a certificate cannot be used, or the
    /// port is taken.
    pub fn start(self, client: &Client) -> Result<(Running, Vec<Controller>), StartError> {
        let (mut running, controllers) = self.serve()?;
        running.connect(client);
        Ok((running, controllers))
    }

    /// Starts to serve, on threads of its own, still without the certificate of an authority of the
    /// program's own, which [`connect`](Running::connect) reads. Add the controllers to the operator: one registers
    /// the webhooks, in the replica that is elected, and each of the others has what the function of
    /// a webhook takes beside the request. Such a webhook fails until its controller is synced.
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
        let registration = Arc::new(Registration {
            lease: names.lease,
            installation: self.installation,
            namespace: self.namespace,
            target,
            webhooks,
            namespaces: self.namespaces,
            deployment: self.deployment,
            roll_out: RollOut::default(),
            owner: self.owner,
            is_local: self.is_local,
            ignores: self.ignores,
            shared,
            done,
        });
        let names = registration.names();
        let (ready, is_ready) = watch::channel(false);
        controllers.push(controller(Arc::clone(&registration), is_ready, election)?);
        Ok((Running { server, renewal: None, registration, ready, names, registered }, controllers))
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

/// The running server of a program's webhooks. Dropping it ends it at once.
#[derive(Debug)]
#[must_use = "the server stops when it is dropped"]
pub struct Running {
    server: Server,
    renewal: Option<JoinHandle<()>>,
    registration: Arc<Registration>,
    ready: watch::Sender<bool>,
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

    /// Keeps the certificate of this replica that of the authority in the Secret.
    ///
    /// Call it within a tokio runtime.
    pub fn connect(&mut self, client: &Client) {
        let renewed = tokio::spawn(renew(client.clone(), Arc::clone(&self.registration), self.ready.clone()));
        if let Some(earlier) = self.renewal.replace(renewed) {
            earlier.abort();
        }
    }

    /// Waits until the webhooks are registered, by this replica, and the API server has reached them.
    pub async fn registered(&self) {
        // An error is the end of the operator, which the caller learns from it.
        drop(self.registered.clone().wait_for(|registered| *registered).await);
    }

    /// Stops at once, and removes the configurations, the Lease and the Secret: the API servers
    /// call the webhooks no longer.
    ///
    /// # Errors
    /// When an object cannot be deleted.
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

    /// Stops without a failed call: serves for ten seconds more, and waits for the requests in
    /// progress. The program is not ready by then.
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

/// Prepares the replica for its calls: then it is ready. Keeps its certificate that of the authority in the
/// Secret.
async fn renew(client: Client, registration: Arc<Registration>, ready: watch::Sender<bool>) {
    while let Err(error) = registration.withdraw(&client).await {
        tracing::warn!("the webhooks are not ready: {}", chain(&error));
        sleep(RETRY).await;
    }
    let shared = &registration.shared;
    let Certificates::Own { secret, leaf, .. } = &shared.certificates else {
        ready.send_replace(true);
        return;
    };
    let secret = CaSecret::new(client, &registration.namespace, secret.clone());
    loop {
        let renewed = async {
            let read = secret.read(shared.known().as_ref()).await?;
            leaf.renew(&read.authorities.current, clock::wall())?;
            shared.know(&read.authorities);
            Ok::<_, SecretError>(())
        };
        match renewed.await {
            Ok(()) => drop(ready.send_replace(true)),
            Err(error) => tracing::warn!("the webhooks' certificate stays as it is: {}", chain(&error)),
        }
        sleep(if *ready.borrow() { EVERY } else { RETRY }).await;
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
        let report = |error: &RegisterError| events.warning("WebhooksNotRegistered", error.to_string());
        Ok(registration.reconcile(&client).await.inspect_err(report)?)
    }
    let needs = registration.needs();
    let name = Some(names(&registration.installation).secret);
    let metadata = ObjectMeta { name, namespace: Some(registration.namespace.clone()), ..ObjectMeta::default() };
    Controller::builder::<Secret>("kooper-webhooks")
        .retriever(Gate::new(Secret { metadata, ..Secret::default() }, is_ready))
        .state(registration)
        .resync(EVERY)
        .leader_election(election)
        // What the client is for is known by the names of the objects.
        .rbac([""; 0])
        .planned(|plan| needs.into_iter().for_each(|need| plan.require_permission(need)))
        .handler(register)
        .build()
}
