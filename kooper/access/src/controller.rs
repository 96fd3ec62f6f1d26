//! Controllers as users describe them: a kind, a handler with arguments by their types, settings.

pub(crate) mod builder;
mod check;
pub(crate) mod error;
mod handler_builder;
mod names;
pub mod operator;
mod overrides;
mod shards;
mod task;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kooper_runtime::internal::call::extensions::Extensions;
use kooper_runtime::internal::call::finalizer::{Finalizers, Retirement};
use kooper_runtime::internal::controller::config::Names;
use kooper_runtime::internal::controller::partition::Partition;
use kooper_runtime::internal::controller::parts::{Trigger, TriggerStream};
use kooper_runtime::internal::controller::prerequisite::Prerequisite;
use kooper_runtime::internal::controller::{ControllerSpec, Hooks};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::CacheId;
use kooper_runtime::metrics::MetricsRecorder;
use kooper_runtime::object::Object;
use kooper_runtime::{Action, Call, Changed, ControllerContext, Kind, ObjectKey, Result as HandlerResult};
use kooper_sharding::Shards;
use parking_lot::Mutex;

use crate::calls::{Additions, observe};
use crate::capability::Children;
use crate::context::fill;
use crate::crd::{Compared, Installed, Installer};
use crate::plan::{Plan, SettingsNeed};
use crate::settings::GivenSettings;
use builder::{MakeCrd, Sample};
use error::{ConfigError, ConfigErrorKind};

pub use crate::calls::MetricsCompat;
pub use builder::{All, Builder, CustomKind, KindExt, MakeSource, MapFn, ReconcileAll, Source};
pub use handler_builder::{HandlerBuilder, TypedHandler};
#[doc(inline)]
pub use kooper_runtime::FailureEvents;
#[doc(hidden)]
pub use shards::ShardLeases;
pub use task::Task;

/// Calls a handler for each object of a kind. An [`Operator`](crate::Operator)
/// runs it.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::{KindExt, Result};
///
/// async fn echo(pod: Arc<Pod>) -> Result<()> {
///     println!("{:?}", pod.metadata.name);
///     Ok(())
/// }
///
/// let controller = Pod::controller("echo")
///     .resync(Duration::from_secs(60))
///     .workers(4)
///     .handler(echo)
///     .build()?;
/// # let _ = controller;
/// # Ok::<_, kooper::ConfigError>(())
/// ```
#[doc(alias = "reconciler")]
pub struct Controller {
    /// It without its types.
    spec: ControllerSpec,
    description: Description,
    plan: Plan,
    /// The controller of its daemon.
    daemon: Option<Box<Self>>,
}

/// The settings that the builder passes on to the controller unchanged.
#[derive(Default)]
struct Description {
    shards: Option<Shards>,
    /// The task may run in each replica at the same time.
    everywhere: bool,
    /// The controller in one of whose shards the task runs.
    shard_of: Option<String>,
    crd: Option<MakeCrd>,
    installs_crd: bool,
    has_init: bool,
    samples: Vec<Sample>,
    additions: Additions,
}

impl Controller {
    /// Starts the description of a controller of the kind `K`, like
    /// [`KindExt::controller`]. Name and handler are required; everything else has
    /// a default.
    pub fn builder<K: Kind>(name: impl Into<String>) -> Builder<K> {
        Builder::new(name.into())
    }

    /// The name, which is part of logs, metrics and the field manager.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.config.name
    }

    /// The kind, such as `Pod`.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.spec.kind.kind
    }

    /// Returns `true` if the kind is namespaced.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.spec.kind.namespaced
    }

    /// The controller, and that of its daemon.
    #[doc(hidden)]
    pub fn with_daemon(mut self) -> impl Iterator<Item = Self> {
        let daemon = self.daemon.take().map(|daemon| *daemon);
        std::iter::once(self).chain(daemon)
    }

    /// Returns `true` if it runs a daemon.
    #[doc(hidden)]
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        self.spec.config.daemon
    }

    /// Returns `true` if it is a task, which has no objects.
    #[doc(hidden)]
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.spec.kind == KindInfo::of::<Task>()
    }

    /// Returns `true` if it is a task that may run in each replica at the same time.
    #[must_use]
    pub fn runs_everywhere(&self) -> bool {
        self.description.everywhere
    }

    /// Returns `true` if only one replica should run it, because each of several would do all of its work.
    #[doc(hidden)]
    #[must_use]
    pub fn limits_replicas(&self) -> bool {
        !self.has_leader_election() && !self.has_shards() && !self.runs_everywhere() && self.shard_of().is_none()
    }

    /// Returns `true` if the handlers run in one replica only.
    #[must_use]
    pub fn has_leader_election(&self) -> bool {
        self.spec.config.leader.is_some()
    }

    /// The namespaces that it watches; empty for all, and while their labels decide.
    #[must_use]
    pub fn namespaces(&self) -> &[String] {
        &self.spec.config.namespaces
    }

    /// The permissions and caches that its handlers and settings need.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The CRD of its kind, if known, and whether the controller installs it.
    #[doc(hidden)]
    #[must_use]
    pub fn crd(&self) -> Option<(CustomResourceDefinition, bool)> {
        self.description.crd.map(|make| (crate::crd::bounded(make()), self.description.installs_crd))
    }

    /// The kinds that it watches on the API server: its own, and those of its
    /// caches.
    #[doc(hidden)]
    pub fn kinds(&self) -> impl Iterator<Item = &KindInfo> {
        let own = (!self.spec.own_retriever).then_some(&self.spec.kind);
        own.into_iter().chain(self.plan.caches().chain(&self.spec.namespaces).map(|request| &request.kind))
    }

    /// Returns `true` if the controller is not ready until the cluster serves this kind.
    #[doc(hidden)]
    #[must_use]
    pub fn needs_kind(&self, kind: &KindInfo) -> bool {
        let of_caches = self.plan.caches().any(|request| request.kind == *kind && !request.optional);
        let is_own = self.spec.kind == *kind;
        !(is_own && self.spec.config.optional) && (of_caches || (is_own && !self.spec.own_retriever))
    }

    /// Returns `true` if the controller holds only the metadata of its own objects.
    #[doc(hidden)]
    #[must_use]
    pub fn is_metadata_only(&self) -> bool {
        self.spec.config.metadata_only
    }

    /// Values that its handlers keep for it.
    #[doc(hidden)]
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.description.additions.extensions
    }

    /// Returns `true` if a selector limits the controller's own objects.
    #[doc(hidden)]
    #[must_use]
    pub fn is_selected(&self) -> bool {
        self.spec.config.may_leave()
    }

    /// Returns `true` if the retriever is a custom one.
    #[doc(hidden)]
    #[must_use]
    pub fn has_own_retriever(&self) -> bool {
        self.spec.own_retriever
    }

    /// Returns `true` if a function builds its state.
    #[doc(hidden)]
    #[must_use]
    pub fn has_init(&self) -> bool {
        self.description.has_init
    }

    /// Returns `true` if keys come from outside.
    #[doc(hidden)]
    #[must_use]
    pub fn has_sources(&self) -> bool {
        !self.spec.sources.is_empty()
    }

    /// The objects that `dev` applies.
    #[doc(hidden)]
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.description.samples
    }

    /// The same controller, which reports no failing calls as Events.
    #[doc(hidden)]
    #[must_use]
    pub fn without_events(mut self) -> Self {
        self.plan.reports = false;
        self.spec.reports_failures = false;
        self.daemon = self.daemon.map(|daemon| Box::new(daemon.without_events()));
        self
    }

    /// Adds keys from outside.
    #[doc(hidden)]
    pub fn add_source(&mut self, keys: BoxStream<'static, ObjectKey>) {
        let sources = std::mem::take(&mut self.spec.sources);
        let before = sources.iter().filter_map(|source| source.lock().take());
        let keys = keys.map(Trigger::Key).boxed();
        self.spec.sources = before.chain([keys]).map(|keys| TriggerStream::new(Some(keys))).collect();
    }

    /// Which objects it retrieves.
    #[doc(hidden)]
    #[must_use]
    pub fn label_selector(&self) -> Option<&str> {
        self.spec.config.labels.as_deref()
    }

    /// Which namespaces it watches.
    #[doc(hidden)]
    #[must_use]
    pub fn namespace_selector(&self) -> Option<&str> {
        self.spec.config.namespace_selector.as_deref()
    }

    /// Its kind.
    #[doc(hidden)]
    #[must_use]
    pub fn kind_info(&self) -> &KindInfo {
        &self.spec.kind
    }

    /// The finalizers that it sets and removes.
    #[doc(hidden)]
    #[must_use]
    pub fn finalizers(&self) -> Option<Finalizers> {
        self.spec.config.finalizers()
    }

    /// Returns `true` if no function is called for objects that are being deleted.
    #[doc(hidden)]
    #[must_use]
    pub fn ignores_deletion(&self) -> bool {
        self.spec.config.ignores_deletion()
    }

    /// From now on it only cleans up, whether or not it selects an object, and
    /// installs no CRD: the program is uninstalled.
    #[doc(hidden)]
    pub fn retire(&mut self, retirement: Retirement) {
        let config = &mut self.spec.config;
        config.retirement = Some(retirement);
        (config.labels, config.fields, config.namespace_selector) = (None, None, None);
        config.changed = vec![Changed::Any];
        self.spec.namespaces = None;
        self.description.installs_crd = false;
        self.daemon = None;
    }

    /// The finalizer that it sets, if it cleans up.
    #[doc(hidden)]
    #[must_use]
    pub fn finalizer(&self) -> Option<&str> {
        self.spec.config.finalizer.as_deref()
    }

    pub(crate) fn previous_names(&self) -> &[String] {
        &self.spec.config.previous_names
    }

    pub(crate) fn previous_finalizers(&self) -> &[String] {
        &self.spec.config.previous_finalizers
    }

    #[doc(hidden)]
    #[must_use]
    pub fn previous_program(&self) -> Option<&str> {
        self.spec.config.previous_program.as_deref()
    }

    /// Returns an error if a function of the controller takes settings that are not
    /// there.
    #[doc(hidden)]
    pub fn check_settings(&self, given: &GivenSettings) -> Result<(), ConfigError> {
        match self.plan.settings().iter().find(|need| !given.has(need.type_id)) {
            Some(need) => Err(self.lacks_settings(need, "set them with `settings`")),
            None => Ok(()),
        }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn lacks_settings(&self, need: &SettingsNeed, advice: &str) -> ConfigError {
        let problem = format!(
            "it takes `Settings<{name}>`, but the program has no settings of this type: {advice}",
            name = need.name
        );
        self.error("settings", ConfigErrorKind::Missing, problem)
    }

    pub(crate) fn error(&self, field: &'static str, kind: ConfigErrorKind, problem: impl Display) -> ConfigError {
        ConfigError::new(&self.spec.config, field, kind, problem)
    }

    /// Returns `true` if the controller cannot run without a connection to an API server.
    #[doc(hidden)]
    #[must_use]
    pub fn needs_client(&self) -> bool {
        self.check_client().is_err()
    }

    /// Returns an error if the controller needs a client, and names what needs
    /// it.
    pub(crate) fn check_client(&self) -> Result<(), ConfigError> {
        let give = "the operator has no client: set one with `client`";
        if !self.spec.own_retriever {
            let problem = format!("its objects are read from the API server, but {give}, or set a custom retriever");
            return Err(self.error("retriever", ConfigErrorKind::NoClient, problem));
        }
        if self.spec.config.leader.is_some() {
            let problem = format!("its Lease is stored on the API server, but {give}, or remove the leader election");
            return Err(self.error("leader_election", ConfigErrorKind::NoClient, problem));
        }
        if self.description.shards.is_some() {
            let problem = format!("its Leases are stored on the API server, but {give}, or remove the shards");
            return Err(self.error("shards", ConfigErrorKind::NoClient, problem));
        }
        let (needs, clients) = (self.plan.needs().iter().map(|need| &*need.because), self.plan.unruled_clients());
        let what: BTreeSet<&str> = needs.chain(clients.iter().copied()).collect();
        if what.is_empty() && !self.plan.takes_client() {
            return Ok(());
        }
        let what = Vec::from_iter(what).join(", ");
        let problem = format!("its arguments and settings need the API server ({what}), and {give}");
        Err(self.error("handler", ConfigErrorKind::NoClient, problem))
    }

    /// Runs one call, with everything around the handler.
    ///
    /// # Errors
    /// The error of the handler.
    #[doc(hidden)]
    pub async fn call_once(
        &self,
        controller: ControllerContext,
        shared: Arc<Extensions>,
        object: Arc<Object>,
        call: Call,
    ) -> HandlerResult<Action> {
        self.spec.call_once(controller, shared, object, call).await
    }

    /// The cache of the controller's own objects.
    #[doc(hidden)]
    #[must_use]
    pub fn primary(&self) -> CacheId {
        self.spec.primary.id
    }

    /// The functions that run, and the state that their arguments keep.
    fn into_run(
        self,
        crds: &Arc<Installer>,
        settings: GivenSettings,
        names: Names,
        partition: Option<Arc<dyn Partition>>,
        metrics: Arc<dyn MetricsRecorder>,
    ) -> (ControllerSpec, Hooks) {
        let prerequisite = self.prerequisite(crds);
        let Additions { extensions, observers } = self.description.additions;
        let observe = observe(&self.spec.config, metrics, observers);
        fill(&extensions, &self.plan, settings);
        let child_observer = extensions.get::<Children>();
        (self.spec, Hooks { names, prerequisite, extensions, child_observer, observe, partition })
    }

    /// The CRD of the kind, which is installed or compared before the controller starts.
    fn prerequisite(&self, crds: &Arc<Installer>) -> Option<Arc<dyn Prerequisite>> {
        let (crd, installs) = self.crd()?;
        let crds = crds.clone();
        if installs {
            return Some(Arc::new(Installed { crds, crd }));
        }
        let (controller, kind) = (self.name().to_owned(), self.spec.kind.clone());
        let compared = Compared { crds, crd, controller, kind, comparing: Mutex::default() };
        (!self.spec.own_retriever).then(|| Arc::new(compared) as _)
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller")
            .field("config", &self.spec.config)
            .field("kind", &self.spec.kind)
            .finish_non_exhaustive()
    }
}
