//! Several controllers in one process, isolated from each other's failures.

mod names;
mod sharding;
mod supervised;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kooper_runtime::internal::client::{ClientStack, RequestLayer};
use kooper_runtime::internal::controller::partition::Partition;
use kooper_runtime::internal::controller::pass::Pass;
use kooper_runtime::internal::controller::{Process, Runner};
use kooper_runtime::internal::executor::Executor;
use kooper_runtime::internal::leader;
use kooper_runtime::internal::leader::Elected;
use kooper_runtime::internal::metrics::PanicSafe;
use kooper_runtime::internal::watch::informer::SharedWatches;
use kooper_runtime::metrics::{MetricsRecorder, NoMetrics};
use kooper_runtime::{ControllerError, Health};
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controller::Controller;
use crate::controller::error::{BuildError, ConfigError, ConfigErrorKind, RunError};
use crate::crd::{Advice, Installer};
use crate::events::EventSink;
use crate::installation::Installation;
use crate::settings::GivenSettings;
#[doc(hidden)]
pub use names::check_names;
use sharding::{Shardings, check_tasks};
use supervised::supervised;

/// The default time that running handler calls get on shutdown.
#[doc(hidden)]
pub const DRAIN: Duration = Duration::from_secs(20);

/// Runs several controllers in one process. They share the client, the metrics
/// and the shutdown; the failure of one does not affect the others.
///
/// ```no_run
/// # async fn example() -> Result<(), kooper::BoxError> {
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::{KindExt, Operator};
///
/// async fn echo(pod: Arc<Pod>) {
///     println!("{:?}", pod.metadata.name);
/// }
///
/// let shutdown = kooper::CancellationToken::new();
/// Operator::builder()
///     .client(kooper::kube::Client::try_default().await?)
///     .controller(Pod::controller("echo").handler(echo).build()?)
///     .build()?
///     .run(shutdown)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "manager")]
pub struct Operator {
    runners: Vec<Runner>,
    watches: Arc<SharedWatches>,
    health: Health,
}

/// Builds an [`Operator`].
#[must_use = "a builder builds nothing until `build` is called"]
pub struct Builder {
    controllers: Vec<Controller>,
    program: String,
    instance: Option<String>,
    /// The file name of a program with commands, for advice in messages.
    command: Option<String>,
    version: String,
    allowed_crd_changes: Vec<String>,
    client: Option<Client>,
    client_layers: Vec<RequestLayer>,
    lease_client: Option<Client>,
    lease_namespace: Option<String>,
    identity: Option<String>,
    rejoins_election: bool,
    metrics: Arc<dyn MetricsRecorder>,
    health: Health,
    drain: Duration,
    settings: GivenSettings,
    pass: Option<Arc<dyn Pass>>,
    partition: Option<Arc<dyn Partition>>,
}

impl Operator {
    /// Starts the description of an operator.
    pub fn builder() -> Builder {
        Builder {
            controllers: Vec::new(),
            program: program_name(),
            instance: None,
            command: None,
            version: "0.0.0".to_owned(),
            allowed_crd_changes: Vec::new(),
            client: None,
            client_layers: Vec::new(),
            lease_client: None,
            lease_namespace: None,
            identity: None,
            rejoins_election: true,
            metrics: Arc::new(NoMetrics),
            health: Health::default(),
            drain: DRAIN,
            settings: GivenSettings::default(),
            pass: None,
            partition: None,
        }
    }

    /// The controllers with leader election, for a watchdog.
    #[doc(hidden)]
    pub fn elected(&self) -> Vec<Elected> {
        self.runners.iter().filter_map(Runner::elected).collect()
    }

    /// Runs all controllers until `shutdown` is cancelled, then drains them:
    /// no further keys are handled, running handlers are cancelled, and aborted
    /// when the drain timeout is over.
    ///
    /// On a runtime with several threads, handlers and other functions of the
    /// controllers run on threads of their own, in another runtime: one that blocks
    /// its thread delays neither the watches nor the renewal of a Lease.
    ///
    /// An operator runs once:
    ///
    /// ```compile_fail,E0382
    /// # async fn twice(operator: kooper::Operator) {
    /// let stop = kooper::CancellationToken::new();
    /// operator.run(stop.clone()).await;
    /// operator.run(stop).await;
    /// # }
    /// ```
    ///
    /// # Errors
    /// When every controller has ended without a request to stop. Also when a
    /// handler keeps running after its controller lost leadership and it was
    /// aborted: only the end of the process stops that handler, and another
    /// replica may be the leader already.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), RunError> {
        let mut tasks = JoinSet::new();
        for runner in self.runners {
            let name = runner.name().to_owned();
            let running = supervised(self.health.clone(), name.clone(), runner.run(shutdown.clone()));
            tasks.spawn(async move { (name, running.await) });
        }
        let mut last = None;
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok((_, Ok(()))) => {}
                Ok((controller, Err(reason @ ControllerError::Panicked { .. }))) => last = Some((controller, reason)),
                // The process has to end, and the other controllers with it.
                Ok((controller, Err(reason))) => return Err(RunError::Controller { controller, reason }),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // Only the end of the runtime cancels it, which ends this task, too: it may still be polled.
                    Err(_) => std::future::pending::<()>().await,
                },
            }
        }
        self.watches.stop().await;
        match last {
            _ if shutdown.is_cancelled() => Ok(()),
            Some((controller, reason)) => Err(RunError::AllEnded { controller, reason }),
            None => Err(RunError::NoControllers),
        }
    }
}

impl Controller {
    /// Runs a single controller, without an operator. When it loses leadership
    /// it returns an error; in an operator it becomes a standby instead.
    ///
    /// # Errors
    /// [`ControllerError::LeadershipLost`] when another replica acquired
    /// leadership; [`RunError::Build`] when the controller needs a client and
    /// there is none; otherwise as [`Operator::run`].
    pub async fn run(self, client: Option<Client>, shutdown: CancellationToken) -> Result<(), RunError> {
        let mut operator = Operator::builder().controller(self);
        operator.client = client;
        operator.rejoins_election = false;
        operator.build()?.run(shutdown).await
    }
}

/// The name of the executable.
fn program_name() -> String {
    let file = std::env::args_os().next().map(std::path::PathBuf::from);
    let stem = file.as_deref().and_then(std::path::Path::file_stem).and_then(std::ffi::OsStr::to_str);
    stem.unwrap_or_default().to_owned()
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("controllers", &self.runners.len()).finish()
    }
}

impl Builder {
    /// Adds a controller.
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.extend(controller.with_daemon());
        self
    }

    /// The program's own settings, which handlers take as
    /// [`Settings<T>`](crate::Settings). A generated program reads them from its
    /// flags and its environment. Settings of several types may be added.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::kube::ResourceExt;
    /// use kooper::{KindExt, Operator, Settings};
    ///
    /// struct ShopSettings {
    ///     greeting: String,
    /// }
    ///
    /// async fn greet(pod: Arc<Pod>, settings: Settings<ShopSettings>) {
    ///     println!("{}, {}", settings.greeting, pod.name_any());
    /// }
    ///
    /// let operator = Operator::builder()
    ///     .settings(ShopSettings { greeting: "hello".to_owned() })
    ///     .controller(Pod::controller("greet").handler(greet).build()?);
    /// # let _ = operator;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn settings<T: Send + Sync + 'static>(mut self, settings: T) -> Self {
        self.settings.give(settings);
        self
    }

    /// Sets the settings that the program has read.
    #[doc(hidden)]
    pub fn given_settings(mut self, settings: GivenSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the client for the API server. It is not needed if every controller
    /// has a custom retriever.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// The name of the program, which is part of field managers and of the
    /// names of Leases. It is converted to a valid Kubernetes name:
    /// `my_program` becomes `my-program`. Default: the name of the executable.
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = program.into();
        self
    }

    /// The name of this installation, if a namespace has several of one
    /// program. It is part of the names of the Leases. Default: none.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// The version of the program, which is recorded on CRDs: a CRD of a newer
    /// version is never replaced. Default: `0.0.0`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// The name of the program's file, which has commands and flags.
    #[doc(hidden)]
    pub fn command(mut self, program: &str) -> Self {
        self.command = Some(program.to_owned());
        self
    }

    /// Allows one change of a CRD that is otherwise rejected because stored
    /// objects might become invalid. The change is written as `NAME@HASH`, as
    /// shown in the log. The hash is that of the new CRD, so a later change is
    /// not allowed.
    pub fn allow_crd_change(mut self, change: impl Into<String>) -> Self {
        self.allowed_crd_changes.push(change.into());
        self
    }

    /// Runs each controller once over its objects. The controllers must have no leader election.
    #[doc(hidden)]
    pub fn pass(mut self, pass: Arc<dyn Pass>) -> Self {
        self.pass = Some(pass);
        self
    }

    /// Handles only a part of the objects.
    #[doc(hidden)]
    pub fn partition(mut self, partition: Arc<dyn Partition>) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Adds a layer around the client, outside of those before.
    #[doc(hidden)]
    pub fn client_layer(mut self, layer: RequestLayer) -> Self {
        self.client_layers.push(layer);
        self
    }

    /// Sets a separate client for the Leases, best with a
    /// `kube::Config::default_retry` of `false` and short timeouts: renewals
    /// then wait neither for other requests nor for retries of their own.
    /// Default: the [`client`](Self::client). Two replicas never lead at the
    /// same time with it either, but a busy replica may lose leadership sooner.
    pub fn lease_client(mut self, client: Client) -> Self {
        self.lease_client = Some(client);
        self
    }

    /// The namespace of the Leases. Default: that of the client.
    pub fn lease_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.lease_namespace = Some(namespace.into());
        self
    }

    /// The identity in Leases. Default: that of this process.
    #[doc(hidden)]
    pub fn identity(mut self, identity: String) -> Self {
        self.identity = Some(identity);
        self
    }

    /// The recorder of the metrics. Default: none.
    pub fn metrics(mut self, metrics: Arc<dyn MetricsRecorder>) -> Self {
        self.metrics = Arc::new(PanicSafe::new(metrics));
        self
    }

    /// The health that `/readyz` and `/healthz` report.
    pub fn health(mut self, health: Health) -> Self {
        self.health = health;
        self
    }

    /// Maximum time for running handler calls to end after a stop. Default: 20 seconds.
    #[doc(alias = "GracefulShutdownTimeout")]
    pub fn drain_timeout(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Builds the operator.
    ///
    /// # Errors
    /// When two controllers have the same name, or a controller needs a client
    /// or settings and there are none.
    pub fn build(mut self) -> Result<Operator, BuildError> {
        let namespace = self.client.as_ref().map_or("default", Client::default_namespace).to_owned();
        self.controllers.iter_mut().for_each(|controller| controller.set_own_namespace(&namespace));
        // A pass ends, and a daemon does not.
        self.controllers.retain(|controller| self.pass.is_none() || !controller.is_daemon());
        check_controllers(&self.controllers)?;
        for controller in &self.controllers {
            if self.client.is_none() {
                controller.check_client()?;
            }
            controller.check_settings(&self.settings)?;
        }
        let installation = Installation::new(&self.program, self.instance);
        let namespace = self.lease_namespace.unwrap_or(namespace);
        check_names(&self.controllers, &installation, &namespace)?;
        let crds = self.controllers.iter().filter_map(Controller::crd);
        let crds = crds.filter(|(_, installs)| *installs).map(|(crd, _)| crd);
        let secret = self.controllers.iter().flat_map(|controller| &controller.plan.secret).cloned().collect();
        let advice = Advice { manager: installation.program.clone(), command: self.command };
        let crds = Installer::new(advice, &self.version, crds, self.allowed_crd_changes);
        let stack = self.client.map(|client| ClientStack::new(client).with(self.client_layers));
        let crds = crds.previous_programs(self.controllers.iter().filter_map(Controller::previous_program));
        let crds = Arc::new(crds);
        let identity = self.identity.unwrap_or_else(leader::identity);
        let (program, instance, metrics) = (installation.program.clone(), identity.clone(), self.metrics.clone());
        let process = Process {
            start_events: Arc::new(move |client, controller| {
                Arc::new(EventSink::start(client, &program, controller, &instance, metrics.clone()))
            }),
            client: stack.as_ref().map(ClientStack::client),
            stack,
            lease_client: self.lease_client,
            identity,
            shared: Arc::default(),
            watches: Arc::new(SharedWatches::new(secret)),
            metrics: self.metrics,
            health: self.health,
            executor: Executor::default(),
            drain: self.drain,
            rejoins_election: self.rejoins_election,
            pass: self.pass,
        };
        let shardings = Shardings::new(&self.controllers, (&installation, &namespace), &process)?;
        let (settings, partition) = (self.settings, self.partition);
        let runners = self.controllers.into_iter().map(|controller| {
            let partition = partition.clone().or_else(|| shardings.part(&controller));
            let names = controller.names(&installation, &namespace);
            let (spec, hooks) = controller.into_run(&crds, settings.clone(), names, partition, process.metrics.clone());
            Ok(Runner::new(spec, hooks, &process)?)
        });
        let runners = runners.collect::<Result<_, BuildError>>()?;
        Ok(Operator { runners, watches: process.watches, health: process.health })
    }
}

/// Checks the controllers of a program against each other.
///
/// # Errors
/// If two of them have the same name or claim the same objects, or a task follows the shards of none.
#[doc(hidden)]
pub fn check_controllers(controllers: &[Controller]) -> Result<(), ConfigError> {
    let mut names = HashSet::new();
    if let Some(one) = controllers.iter().find(|one| !names.insert(one.name())) {
        let problem = "two controllers have this name: rename one of them";
        return Err(one.error("name", ConfigErrorKind::Taken, problem));
    }
    check_claims(controllers)?;
    check_tasks(controllers)
}

/// No controller may remove the finalizer of another, or take over the fields
/// that another applies.
fn check_claims(controllers: &[Controller]) -> Result<(), ConfigError> {
    for (index, one) in controllers.iter().enumerate() {
        let is_same_kind = |other: &Controller| one.kind_info().is_same(other.kind_info());
        for other in controllers.iter().take(index).filter(|other| is_same_kind(other)) {
            let is_shared = |previous: &&String| other.previous_finalizers().contains(previous);
            if let Some(previous) = one.previous_finalizers().iter().find(is_shared) {
                let problem = format!(
                    "the controller `{}` of the same kind has `{previous}`, too: the first to finish would remove it for both. Remove it from one of them",
                    other.name()
                );
                return Err(one.error("previous_finalizers", ConfigErrorKind::Taken, problem));
            }
            if one.finalizer().is_some() && one.finalizer() == other.finalizer() {
                let problem = format!(
                    "the controller `{}` of the same kind has this finalizer: the first to finish would remove it for both. Set another finalizer for one of them",
                    other.name()
                );
                return Err(one.error("cleanup", ConfigErrorKind::Taken, problem));
            }
        }
        for other in controllers.iter().filter(|other| other.name() != one.name()) {
            if one.previous_names().iter().any(|previous| previous == other.name()) {
                let problem = format!("`{}` is the current name of another controller of this program", other.name());
                return Err(one.error("previous_names", ConfigErrorKind::Taken, problem));
            }
            let current = |previous: &&String| is_same_kind(other) && Some(previous.as_str()) == other.finalizer();
            if let Some(previous) = one.previous_finalizers().iter().find(current) {
                let problem = format!("`{previous}` is the current finalizer of the controller `{}`", other.name());
                return Err(one.error("previous_finalizers", ConfigErrorKind::Taken, problem));
            }
        }
    }
    Ok(())
}

kooper_runtime::internal::debug_fields! { Builder { controllers } }
