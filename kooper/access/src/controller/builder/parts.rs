//! The parts of a controller whose types are erased.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kooper_grammar::access::Rule;
use kooper_grammar::field_path;
use kooper_grammar::selector::{FieldSelector, Selector};
use kooper_runtime::internal::call::handler::{DynHandler, Predicate};
use kooper_runtime::internal::controller::parts::{DynController, Handlers, InitContext, Mapping, Priority, Relation};
use kooper_runtime::internal::controller::{Config, ControllerSpec};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::{CacheId, CacheRequest, CacheUse};
use kooper_runtime::internal::watch::retriever::ErasedRetriever;
use kooper_runtime::internal::watch::selected::Selected;
use kooper_runtime::{BoxError, FailureEvents, Kind};
use kube::Client;
use kube::core::metadata::PartialObjectMeta;
use serde::de::DeserializeOwned;

use super::daemon;
use super::namespaces::{DELETED, NAMESPACE_SELECTOR, UNSELECTED};
use super::{Builder, Common, MakeCrd, MakeRetriever, MakeService, MakeState, Wrap};
use crate::calls::MetricsCompat;
use crate::controller::check::{check, check_replicas, check_shards};
use crate::controller::error::{ConfigError, ConfigErrorKind};
use crate::controller::{Controller, Description, Task};
use crate::crd::has_field;
use crate::extract::Removed;
use crate::handler::{self, Filter, PriorityOf, Typed};
use crate::plan::{Need, Plan, Reach};
use crate::schema::may_have_field;

struct TypedParts<O, S> {
    state: MakeState<S>,
    handler: MakeService<O, S>,
    paused: Option<MakeService<O, S>>,
    cleanup: Option<MakeService<O, S>>,
    deleted: Option<MakeService<Removed<O>, S>>,
    retriever: Option<MakeRetriever>,
    layers: Vec<Wrap<O>>,
    when: Option<Filter<O>>,
    priority: Option<PriorityOf<O>>,
}

/// The function that adds the needs of a daemon to a plan, and its parts.
type ErasedDaemon = (fn(&mut Plan), Arc<dyn DynController>);

/// The kind of a controller without its type: the caches of its objects.
struct ErasedKind {
    whole: CacheRequest,
    metadata: CacheRequest,
}

impl ErasedKind {
    fn of<K: Kind>() -> Self {
        Self { whole: CacheRequest::of::<K>(), metadata: CacheRequest::of::<PartialObjectMeta<K>>() }
    }

    fn info(&self) -> &KindInfo {
        &self.whole.kind
    }

    /// A task reads the objects of its namespaces, but is in none of them.
    fn is_task(&self) -> bool {
        self.whole.id == CacheId::of::<Task>()
    }

    /// The cache of the controller's own objects.
    fn primary(&self, config: &Config) -> CacheRequest {
        let metadata_only = config.metadata_only && !self.whole.id.metadata_only;
        if metadata_only { self.metadata.clone() } else { self.whole.clone() }
    }
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Builds the controller.
    ///
    /// # Errors
    /// When the name or the handler is missing, or a setting is invalid. Name,
    /// handler and retriever are checked in this order.
    pub fn build(self) -> Result<Controller, ConfigError> {
        let Self { mut common, state, handler, paused, cleanup, daemon, deleted, layers, when, priority, kind: _ } =
            self;
        let daemon = daemon.map(|daemon| {
            let parts = TypedParts {
                state: state.clone(),
                handler: daemon.make,
                paused: None,
                cleanup: None,
                deleted: None,
                retriever: None,
                layers: Vec::new(),
                when: when.clone(),
                priority: None,
            };
            (daemon.plan, Arc::new(parts) as Arc<dyn DynController>)
        });
        let paused = paused.filter(|_| common.config.annotations.pause.is_some());
        let retriever = common.retriever.take();
        let own_retriever = retriever.is_some();
        let parts = handler.map(|handler| {
            let parts = TypedParts { state, handler, paused, cleanup, deleted, retriever, layers, when, priority };
            Arc::new(parts) as Arc<dyn DynController>
        });
        common.build(&ErasedKind::of::<K>(), own_retriever, parts, daemon)
    }
}

impl Common {
    /// The part of [`Builder::build`] that is compiled once. `parts` is `None` without a handler.
    fn build(
        self,
        kind: &ErasedKind,
        own_retriever: bool,
        parts: Option<Arc<dyn DynController>>,
        daemon: Option<ErasedDaemon>,
    ) -> Result<Controller, ConfigError> {
        let Self { mut config, description, mut plan, mistake, retriever: _, mut relations, sources } = self;
        config.metadata_only |= kind.whole.id.metadata_only;
        check(&config)?;
        check_shards(description.shards.as_ref(), &config)?;
        check_replicas(description.everywhere, description.shard_of.is_some(), &config)?;
        check_fields(&config, kind.info(), description.crd)?;
        check_retries(&config, kind)?;
        check_leave(&config)?;
        let parts = parts.ok_or_else(|| {
            let problem = "it is missing: set one with `.handler(…)`, after `init`, `state` and `metadata_only`";
            ConfigError::new(&config, "handler", ConfigErrorKind::Missing, problem)
        })?;
        if let Some(mistake) = mistake {
            return Err(mistake);
        }
        if description.shards.is_some() {
            plan.has_shards = true;
        }
        if daemon.is_some() && own_retriever {
            let problem = "a daemon needs objects of the API server, and a custom retriever may return others: remove \
                           one of the two";
            return Err(ConfigError::new(&config, "daemon", ConfigErrorKind::Conflict, problem));
        }
        let daemon = daemon.map(|(needs, parts)| {
            let mut with_daemon = plan.clone();
            needs(&mut with_daemon);
            plan.leave_reads_to(&with_daemon);
            (parts, with_daemon)
        });
        plan_settings(&config, &mut plan, kind, own_retriever, parts.has_deleted(), description.installs_crd)?;
        if kind.is_task() && config.may_leave() {
            let problem = "a task has no objects to select: write the namespaces as strings, or select what it reads \
                           with `reads`";
            let setting = if config.has_selector() { "labels" } else { "namespaces" };
            return Err(ConfigError::new(&config, setting, ConfigErrorKind::Conflict, problem));
        }
        if own_retriever && !kind.is_task() && (config.may_leave() || !config.namespaces.is_empty()) {
            let problem = "a custom retriever selects its objects itself: remove `namespaces`, `labels` and `fields`";
            return Err(ConfigError::new(&config, "retriever", ConfigErrorKind::Conflict, problem));
        }
        if own_retriever && (config.finalizer.is_some() || description.installs_crd) {
            let problem = "`cleanup` and `install_crd` need objects of the API server, but a custom retriever may \
                           return others: remove them";
            return Err(ConfigError::new(&config, "retriever", ConfigErrorKind::Conflict, problem));
        }
        let daemon = daemon.map(|(parts, plan)| controller_of(parts, &config, plan, kind));
        let daemon = daemon.transpose()?.map(|mut daemon| {
            let own = &mut daemon.description;
            own.shards = description.shards.clone().map(daemon::shards);
            (own.crd, own.installs_crd) = (description.crd, description.installs_crd);
            own.additions.extensions.insert(*description.additions.extensions.get::<MetricsCompat>());
            Box::new(daemon)
        });
        let owned = plan.owned().iter().map(|owned| (owned, Mapping::Owner));
        let indexed = plan.indexed().iter().map(|(indexed, index)| (indexed, Mapping::Index(*index)));
        let related = owned.chain(indexed);
        relations.extend(related.map(|(of, mapping)| Relation { cache: of.id, kind: of.kind.clone(), mapping }));
        let spec = ControllerSpec {
            own_retriever,
            relations: relations.into(),
            sources: sources.into(),
            ..spec_of(parts, config, &plan, kind)
        };
        Ok(Controller { spec, description, plan, daemon })
    }
}

/// The controller of a daemon.
fn controller_of(
    parts: Arc<dyn DynController>,
    config: &Config,
    mut plan: Plan,
    kind: &ErasedKind,
) -> Result<Controller, ConfigError> {
    let config = daemon::config(config);
    check(&config)?;
    plan_settings(&config, &mut plan, kind, false, false, false)?;
    let spec = spec_of(parts, config, &plan, kind);
    Ok(Controller { spec, description: Description::default(), plan, daemon: None })
}

/// The spec of a controller without related kinds, whose objects are those of the API server.
fn spec_of(parts: Arc<dyn DynController>, config: Config, plan: &Plan, kind: &ErasedKind) -> ControllerSpec {
    ControllerSpec {
        kind: kind.info().clone(),
        primary: kind.primary(&config),
        unselected: (config.finalizer.is_some() && config.may_leave()).then(|| kind.metadata.clone()),
        namespaces: namespaces(&config),
        config,
        own_retriever: false,
        caches: plan.caches().cloned().collect(),
        relations: [].into(),
        sources: [].into(),
        reports_failures: plan.reports,
        parts,
    }
}

/// The cache of the namespaces whose objects the controller handles, if a selector is set for them.
fn namespaces(config: &Config) -> Option<CacheRequest> {
    let labels = Selector::parse(config.namespace_selector.as_deref()?).ok()?;
    let selected = Selected { labels, ..Selected::default() }.interned();
    Some(CacheRequest::of::<PartialObjectMeta<Namespace>>().selecting(selected))
}

impl<O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> DynController for TypedParts<O, S> {
    fn retriever(&self, client: Option<Client>) -> Option<Result<Arc<dyn ErasedRetriever>, BoxError>> {
        self.retriever.as_ref().map(|make| make(client))
    }

    fn wants(&self) -> Predicate {
        handler::wants(self.when.clone())
    }

    fn has_filter(&self) -> bool {
        self.when.is_some()
    }

    fn priority(&self) -> Option<Priority> {
        self.priority.clone().map(handler::priority)
    }

    fn has_deleted(&self) -> bool {
        self.deleted.is_some()
    }

    fn has_paused(&self) -> bool {
        self.paused.is_some()
    }

    fn handlers(&self, context: InitContext) -> BoxFuture<'_, Result<Handlers, BoxError>> {
        Box::pin(async move {
            let controller = context.controller.clone();
            let state = (self.state)(context).await?;
            let inner = |make: &MakeService<O, S>| make(state.clone(), controller.clone());
            let wrapped = |make: &MakeService<O, S>| -> Arc<dyn DynHandler> {
                Arc::new(Typed(self.layers.iter().rev().fold(inner(make), |service, layer| layer.wrap(service))))
            };
            Ok(Handlers {
                handler: wrapped(&self.handler),
                cleanup: self.cleanup.as_ref().map(wrapped),
                deleted: self
                    .deleted
                    .as_ref()
                    .map(|make| handler::deleted_function(make(state.clone(), controller.clone()))),
                paused: self.paused.as_ref().map(|make| Arc::new(Typed(inner(make))) as Arc<dyn DynHandler>),
            })
        })
    }
}

/// Adds the permissions and caches that the settings need to those of the arguments.
fn plan_settings(
    config: &Config,
    plan: &mut Plan,
    of: &ErasedKind,
    own_retriever: bool,
    deleted: bool,
    installs_crd: bool,
) -> Result<(), ConfigError> {
    let kind = of.info();
    // Each one would be the next object that fails.
    let is_event = kind.plural == "events" && ["", "events.k8s.io"].contains(&&*kind.group);
    if !own_retriever && !is_event && config.events != FailureEvents::Off {
        plan.reports = true;
    }
    if !own_retriever {
        // The finalizers of objects that are not selected are watched, too.
        let fields = config.fields.as_deref().filter(|_| config.finalizer.is_none());
        let fields = fields.and_then(|fields| FieldSelector::parse(fields).ok()).unwrap_or_default();
        let selected = Selected { fields, ..Selected::default() };
        let because = format!("resource = {}", kind.kind);
        plan.require_selected(kind, Some(&selected), &["list", "watch"], &because);
    }
    if let Some(namespaces) = namespaces(config) {
        plan.require_selected(&namespaces.kind, namespaces.id.selected, &["list", "watch"], NAMESPACE_SELECTOR);
    }
    if config.finalizer.is_some() {
        plan.require_selected(kind, None, &["get", "patch"], "cleanup");
        if config.may_leave() {
            plan.request_cache(of.metadata.clone().using(CacheUse::Own), UNSELECTED);
        }
    }
    if deleted && config.may_leave() {
        plan.require_selected(kind, None, &["get"], DELETED);
    }
    if installs_crd {
        // The create is an apply, which is authorised with the name.
        plan.require_permission(Need {
            rule: Rule::new(
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                None,
                &["create", "get", "patch", "watch"],
            ),
            names: vec![kind.resource()],
            reach: Reach::Cluster,
            because: "install_crd".to_owned(),
        });
    }
    plan.settle(kind);
    match &plan.mistake {
        Some((setting, mistake)) => Err(ConfigError::new(config, setting, ConfigErrorKind::Malformed, mistake)),
        None => Ok(()),
    }
}

/// Checks that the fields of `changed` exist, as far as the schema of the kind is known.
fn check_fields(config: &Config, kind: &KindInfo, crd: Option<MakeCrd>) -> Result<(), ConfigError> {
    for path in config.changed_fields() {
        let mut names = field_path::names(path);
        let of_metadata = names.next() == Some("metadata");
        if of_metadata && names.next() == Some("managedFields") {
            let problem = format!("objects are kept without `metadata.managedFields`: remove `{path}`");
            return Err(ConfigError::new(config, "changed", ConfigErrorKind::Malformed, problem));
        }
        let exists = match crd {
            _ if of_metadata => may_have_field(Some(("meta.k8s.io/v1", "PartialObjectMetadata")), path),
            Some(make) => has_field(&make(), &kind.version, field_path::names(path)),
            None => may_have_field(Some((&kind.api_version(), &kind.kind)), path),
        };
        if !exists {
            let problem = format!("`{}` has no field `{path}`: write the names of fields as in JSON", kind.kind);
            return Err(ConfigError::new(config, "changed", ConfigErrorKind::Malformed, problem));
        }
    }
    Ok(())
}

/// Checks that objects can leave the controller, and are cleaned up. The setters of a controller do not: one that watches
/// other namespaces later may have no selector any more.
fn check_leave(config: &Config) -> Result<(), ConfigError> {
    if !config.cleanup_on_leave {
        return Ok(());
    }
    let problem = match (config.finalizer.is_some(), config.may_leave()) {
        (true, true) => return Ok(()),
        (false, _) => "it has no effect without `cleanup`: set that, or remove `cleanup_on_leave`",
        (true, false) => {
            "it has no effect without a selector: set `labels`, `fields` or `namespace_selector`, or remove \
             `cleanup_on_leave`"
        }
    };
    Err(ConfigError::new(config, "cleanup_on_leave", ConfigErrorKind::Conflict, problem))
}

/// Checks that a task has no limit of retries, after which it would never run again.
fn check_retries(config: &Config, kind: &ErasedKind) -> Result<(), ConfigError> {
    if config.queue.retries.is_some() && kind.is_task() {
        let problem = "a task has no changes that would end the wait: remove `retries`";
        return Err(ConfigError::new(config, "retries", ConfigErrorKind::Conflict, problem));
    }
    Ok(())
}
