//! The watches of a controller: of its own kind, its relations and its readers.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Resource};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Process;
use super::event_handler::{
    Enqueuer, EventHandler, Keys, OptionalKindHandler, Progress, RelatedHandler, UnselectedHandler,
};
use super::handled::HandledObjects;
use super::routes::Routes;
use crate::call::context::Caches;
use crate::call::worker::{Daemons, Tombstones, Undecodable};
use crate::client::on_current_runtime;
use crate::controller::namespaces::{Namespaces, RequiredWatch};
use crate::controller::partition::Partition;
use crate::controller::parts::Mapping;
use crate::controller::pass::Pass;
use crate::controller::review::may_get_namespace;
use crate::controller::{Config, ControllerSpec};
use crate::error::BoxError;
use crate::executor::Task;
use crate::metrics::{Gauge, MetricsRecorder, ReadGauge};
use crate::queue::CacheRef;
use crate::watch::cache_id::{CacheId, CacheRequest, CacheUse};
use crate::watch::informer::{Sink, WatchStatus, Watched};
use crate::watch::namespaces::NamespaceSelection;
use crate::watch::retriever::{ErasedRetriever, Scope, snapshot};
use crate::watch::store::{Cache, Store};

/// A daemon that runs for so long has recovered, at the latest.
const STEADY: Duration = Duration::from_secs(60);

/// The watches of one controller. Equal watches of several controllers are shared.
pub(super) struct Watching {
    primary: Watches,
    /// The cache of all objects of the kind, see [`ControllerSpec::unselected`].
    unselected: Option<CacheId>,
    others: HashMap<CacheId, Watches>,
    /// The cache of the namespaces whose objects are handled, and their selection.
    selected_namespaces: Option<(CacheId, Arc<NamespaceSelection>)>,
    namespaces: Arc<Namespaces>,
    /// The daemons that changes cancel.
    pub(super) daemons: Option<Arc<Daemons>>,
    tasks: JoinSet<()>,
    /// Pass the changes for which functions of the user are called.
    feeds: Vec<Task<()>>,
}

/// The watches of one kind, one for all namespaces or one for each.
struct Watches {
    request: CacheRequest,
    scopes: Vec<Scope>,
    watched: Vec<Arc<Watched>>,
}

impl Watching {
    pub(super) fn new(controller: &ControllerSpec, process: &Process, partition: Option<&dyn Partition>) -> Self {
        let config = &controller.config;
        let scopes = if controller.own_retriever { vec![Scope::default()] } else { config.scopes() };
        let watches = |request: &CacheRequest, scopes: Vec<Scope>, own, selection: Option<&Arc<NamespaceSelection>>| {
            let watched = |scope| watched(controller, process, partition, request, scope, own, selection);
            Watches { watched: scopes.iter().map(watched).collect(), request: request.clone(), scopes }
        };
        let others = controller.caches.iter().chain(&controller.namespaces).map(|request| {
            let scopes = request.scopes(&config.namespaces, config.json_only);
            (request.id, watches(request, scopes, false, None))
        });
        let others: HashMap<CacheId, Watches> = others.collect();
        let selected_namespaces = controller.namespaces.as_ref().and_then(|request| {
            let namespaces = others.get(&request.id)?.cache();
            Some((request.id, Arc::new(NamespaceSelection::new(controller.name(), namespaces))))
        });
        let selection = selected_namespaces.as_ref().map(|(_, selection)| selection);
        let primary = watches(&controller.primary, scopes, true, selection);
        let unselected = controller.unselected.as_ref().filter(|_| config.may_leave()).map(|request| request.id);
        let statuses = others.values().chain([&primary]).flat_map(|watches| {
            let is_fixed = watches.request.id.selected.is_some_and(|selected| !selected.namespaces.is_empty());
            let optional = watches.request.optional;
            watches.watched.iter().map(move |watched| RequiredWatch {
                watch: watched.status.clone(),
                is_fixed,
                optional,
            })
        });
        let namespaces = Arc::new(Namespaces::new(controller.name(), primary.scopes.len() > 1, statuses));
        process.health.add(namespaces.clone());
        let daemons = config.daemon.then(|| Arc::new(Daemons::new(config.queue.backoff.max.min(STEADY))));
        let (tasks, feeds) = (JoinSet::new(), Vec::new());
        let watching = Self { others, daemons, primary, unselected, selected_namespaces, namespaces, tasks, feeds };
        watching.measure(controller.name(), &*process.metrics);
        watching
    }

    /// Registers the sizes of all caches of the controller, shared ones included. The
    /// size of secret objects is not published.
    fn measure(&self, name: &str, metrics: &dyn MetricsRecorder) {
        let stores: Vec<Arc<Store>> = self.all().into_iter().map(|watched| watched.store.clone()).collect();
        let again: Vec<_> = stores.iter().filter(|store| !store.is_secret()).cloned().collect();
        let objects = move || stores.iter().map(|store| store.size().0).sum::<usize>() as f64;
        gauge(metrics, name, Gauge::StoreObjects, Box::new(objects));
        let bytes = move || again.iter().map(|store| store.size().1).sum::<usize>() as f64;
        gauge(metrics, name, Gauge::StoreBytes, Box::new(bytes));
    }

    /// Every watch once, the controller's own first: a reader of its kind shares its watch.
    pub(super) fn all(&self) -> Vec<Arc<Watched>> {
        let mut all: Vec<Arc<Watched>> = Vec::new();
        for watched in iter::once(&self.primary).chain(self.others.values()).flat_map(|watches| &watches.watched) {
            if !all.iter().any(|known| Arc::ptr_eq(known, watched)) {
                all.push(watched.clone());
            }
        }
        all
    }

    /// The namespaces, and which of them may be handled.
    pub(super) fn namespaces(&self) -> Arc<Namespaces> {
        self.namespaces.clone()
    }

    /// The controller's own objects.
    pub(super) fn primary(&self) -> Cache {
        self.primary.cache()
    }

    /// The caches of relations and readers.
    pub(super) fn caches(&self) -> Caches {
        self.others.iter().map(|(id, watches)| (*id, watches.request.kind.clone(), watches.cache())).collect()
    }

    /// All objects of the kind, selected or not, if they are watched.
    pub(super) fn unselected(&self) -> Option<Cache> {
        Some(self.others.get(&self.unselected?)?.cache())
    }

    /// The objects to handle.
    pub(super) fn handled(&self, config: &Config) -> HandledObjects {
        HandledObjects { primary: self.primary(), unselected: self.unselected().zip(config.finalizers()) }
    }

    /// Subscribes the controller to its watches, and starts those that are not running yet.
    pub(super) async fn open(
        &mut self,
        controller: &ControllerSpec,
        process: &Process,
        enqueuer: &Arc<Enqueuer>,
        tombstones: &Arc<Tombstones>,
        undecodable: &Arc<Undecodable>,
    ) -> Result<(), BoxError> {
        let custom = custom_retriever(controller, process).await?;
        if custom.is_none() && process.client.is_none() {
            return Err("the operator has no client".into());
        }
        let handled = self.handled(&controller.config);
        let event_handler: Arc<dyn Sink> = Arc::new(EventHandler {
            enqueuer: enqueuer.clone(),
            wants: controller.wants(),
            has_filter: controller.parts.has_filter(),
            paused: controller.paused(),
            while_deleting: controller.config.while_deleting,
            changed: controller.config.changed.clone(),
            metadata_only: controller.config.metadata_only,
            tombstones: controller.parts.has_deleted().then(|| tombstones.clone()),
            undecodable: undecodable.clone(),
            daemons: self.daemons.clone(),
            namespaces: self.selected_namespaces.as_ref().map(|(_, selection)| selection.clone()),
            unselected: handled.unselected.clone(),
        });
        let once = process.pass.is_some();
        let mapped = controller.relations.iter().filter(|relation| matches!(relation.mapping, Mapping::Function(_)));
        let mapped = mapped.filter_map(|relation| self.others.get(&relation.cache));
        let filtered = controller.parts.has_filter().then_some(&self.primary);
        // A pass waits until all keys are queued.
        let with_functions = mapped.chain(filtered).filter(|_| !once).flat_map(|watches| &watches.watched);
        let (routes, feeds) = Routes::new(with_functions, &process.executor);
        self.feeds = feeds;
        subscribe(&mut self.tasks, &self.namespaces, &self.primary, &event_handler, once, &routes).await;
        for watched in &self.all() {
            let shows = |watches: &Watches| watches.watched.iter().any(|one| Arc::ptr_eq(one, watched));
            let primary = shows(&self.primary).then_some(CacheRef::Primary);
            let others = self.others.iter().filter(|(_, watches)| shows(watches)).map(|(id, _)| CacheRef::Other(*id));
            let caches = primary.into_iter().chain(others).collect();
            let progress: Arc<dyn Sink> = Arc::new(Progress { caches, enqueuer: enqueuer.clone() });
            routes.subscribe(watched, &progress).await;
        }
        if let (Some(id), Some(finalizers)) = (self.unselected, controller.config.finalizers()) {
            let sink: Arc<dyn Sink> =
                Arc::new(UnselectedHandler { enqueuer: enqueuer.clone(), id, ours: self.primary(), finalizers });
            if let Some(watches) = self.others.get(&id) {
                subscribe(&mut self.tasks, &self.namespaces, watches, &sink, once, &routes).await;
            }
        }
        for relation in controller.relations.iter() {
            let Some(watches) = self.others.get(&relation.cache) else { continue };
            let keys = match &relation.mapping {
                Mapping::Owner => Keys::Owner(controller.kind.clone()),
                Mapping::Function(make) => Keys::Map(make(&enqueuer.controller)),
                Mapping::Index(make) => Keys::Map(make(&enqueuer.controller)),
            };
            let sink: Arc<dyn Sink> = Arc::new(RelatedHandler {
                enqueuer: enqueuer.clone(),
                id: relation.cache,
                name: relation.kind.kind.as_str().into(),
                kind: relation.kind.clone(),
                handled: handled.clone(),
                keys,
            });
            watches.subscribe(&sink, &routes).await;
        }
        for watches in self.others.values().filter(|watches| watches.request.optional) {
            let sink: Arc<dyn Sink> =
                Arc::new(OptionalKindHandler { enqueuer: enqueuer.clone(), handled: handled.clone() });
            watches.subscribe(&sink, &routes).await;
        }
        if let Some(pass) = &process.pass {
            self.opened(controller, &**pass);
        }
        if let Some((id, selection)) = &self.selected_namespaces
            && let Some(watches) = self.others.get(id)
        {
            let sink: Arc<dyn Sink> = selection.clone();
            for watched in &watches.watched {
                // Not by a route: the first list of the controller's own objects follows.
                watched.subscribe(&sink).await;
            }
        }
        self.start(custom, process);
        Ok(())
    }

    /// Starts the watches that are not running yet. That of the controller's own objects has the `custom` retriever, if
    /// there is one.
    fn start(&mut self, custom: Option<Arc<dyn ErasedRetriever>>, process: &Process) {
        let once = process.pass.is_some();
        let opened = move |retriever| if once { snapshot(retriever) } else { retriever };
        let own = custom.is_none().then_some(&self.primary);
        for (watched, retriever) in self.primary.watched.iter().zip(custom) {
            process.watches.start(watched, Some(&process.executor), || opened(retriever));
        }
        let Some(client) = &process.client else { return };
        let namespaces = self.selected_namespaces.as_ref().and_then(|(id, _)| self.others.get(id));
        for watches in own.into_iter().chain(self.others.values()) {
            for (watched, scope) in watches.watched.iter().zip(&watches.scopes) {
                let (open, client) = (watches.request.open, client.clone());
                let open = move |scope| open(client.clone(), scope);
                let (all, watched, scope) = (process.watches.clone(), watched.clone(), scope.clone());
                let start = move || all.start(&watched, None, || opened(watched.narrowed(&scope, open)));
                match namespaces.filter(|_| std::ptr::eq(watches, &self.primary)) {
                    Some(namespaces) => {
                        let listed: Vec<_> = namespaces.watched.iter().map(|one| one.status.clone()).collect();
                        let listed = async move {
                            join_all(listed.iter().map(|status| status.wait_tried())).await;
                            start();
                        };
                        self.tasks.spawn(listed.boxed());
                    }
                    None => start(),
                }
            }
        }
    }

    /// Reports the caches to a pass.
    fn opened(&self, controller: &ControllerSpec, pass: &dyn Pass) {
        let own = (!controller.own_retriever).then_some(&self.primary);
        for watches in self.others.values().chain(own) {
            for (scope, watched) in watches.scopes.iter().zip(&watches.watched) {
                pass.opened(&watches.request.kind, scope, watched);
            }
        }
    }

    /// Waits until every cache is complete, or cannot be, and all keys are queued.
    pub(super) async fn tried(&mut self) -> (bool, Vec<String>) {
        let tried = self.namespaces.wait_tried().await;
        while self.tasks.join_next().await.is_some() {}
        tried
    }

    /// Waits until handlers may be called.
    pub(super) async fn synced(&mut self, namespaces: &[String], client: Option<Client>) {
        self.namespaces.wait_for_first().await;
        // A task has no objects of its own in its namespaces.
        let all = self.all();
        let of = |namespace: &String| all.iter().find(|watched| watched.status.namespace() == Some(namespace));
        let first: Vec<_> = namespaces.iter().filter_map(of).map(|watched| watched.status.clone()).collect();
        if let Some(client) = client {
            let find = async move {
                join_all(first.iter().map(|status| find_namespace(status, &client))).await;
            };
            self.tasks.spawn(find.boxed());
        }
    }
}

impl Watches {
    fn cache(&self) -> Cache {
        let stores = self.scopes.iter().zip(&self.watched);
        Cache::new(stores.map(|(scope, watched)| (scope.namespace.clone(), watched.store.clone())))
    }

    async fn subscribe(&self, sink: &Arc<dyn Sink>, routes: &Routes) {
        for watched in &self.watched {
            routes.subscribe(watched, sink).await;
        }
    }
}

/// The retriever that the user has set. Their functions may block their thread, or panic.
async fn custom_retriever(
    controller: &ControllerSpec,
    process: &Process,
) -> Result<Option<Arc<dyn ErasedRetriever>>, BoxError> {
    if !controller.own_retriever {
        return Ok(None);
    }
    let client = process.stack.clone().map(|stack| stack.with(on_current_runtime()).client());
    let parts = controller.parts.clone();
    let made = process.executor.spawn(async move {
        let made = parts.retriever(client);
        // These functions are the user's, too, and their results are kept. If one panicked later, the watches would be
        // opened in part, and not started again.
        if let Some(Ok(retriever)) = &made {
            let _ = (retriever.streams_lists(), retriever.longest_silence());
        }
        made
    });
    made.await.map_err(|error| error.text())?.transpose()
}

/// Passes the changes of a kind whose keys are queued to `sink`. Each of several
/// namespaces starts when all of its watches have been listed; with `once`, it is
/// left out if they cannot be.
async fn subscribe(
    tasks: &mut JoinSet<()>,
    namespaces: &Arc<Namespaces>,
    watches: &Watches,
    sink: &Arc<dyn Sink>,
    once: bool,
    routes: &Routes,
) {
    if !namespaces.are_several() {
        return watches.subscribe(sink, routes).await;
    }
    for watched in &watches.watched {
        let (namespaces, watched, sink) = (namespaces.clone(), watched.clone(), sink.clone());
        let routes = routes.clone();
        let subscribe = async move {
            let namespace = watched.status.namespace().unwrap_or_default();
            if once && !namespaces.wait_tried_in(namespace).await {
                return;
            }
            namespaces.wait_synced(namespace).await;
            routes.subscribe(&watched, &sink).await;
        };
        tasks.spawn(subscribe.boxed());
    }
}

/// The watch of a scope. It is shared by all controllers with an equal scope, unless
/// the retriever is a custom one.
fn watched(
    controller: &ControllerSpec,
    process: &Process,
    partition: Option<&dyn Partition>,
    request: &CacheRequest,
    scope: &Scope,
    is_primary: bool,
    namespaces: Option<&Arc<NamespaceSelection>>,
) -> Arc<Watched> {
    let (name, resource) = (controller.name(), request.kind.resource());
    let own = controller.own_retriever && is_primary;
    let selection = partition.and_then(|partition| match request.used {
        _ if is_primary => partition.selection(),
        CacheUse::Own => partition.selection(),
        CacheUse::All => None,
        used => partition.children(&controller.kind, used == CacheUse::AppliedChildren),
    });
    let selection = selection.or_else(|| Some(namespaces?.clone()));
    let selected = scope.labels.is_some() || scope.fields.is_some() || namespaces.is_some();
    let status =
        || WatchStatus::new(name, &resource, scope.namespace.as_deref(), selected, !own).of_name(scope.only_name());
    let (watches, kind) = (&process.watches, &request.kind);
    let (watched, new) = if own || selection.is_some() {
        (Arc::new(Watched::new(status(), watches.is_secret(kind)).selecting(selection)), true)
    } else {
        watches.of(request.id, kind, scope, status)
    };
    if !(request.optional || controller.config.optional && request.id == controller.primary.id) {
        watched.status.require();
    }
    if new {
        process.health.add(watched.status.clone());
        let namespace = scope.namespace.as_deref();
        // Beside a watch of the same kind that has a selector, or a retriever of its own.
        let beside = !is_primary
            && request.kind.is_same(&controller.kind)
            && (controller.own_retriever || controller.config.may_leave() || partition.is_some());
        let form = form(request, scope, beside);
        let watch = namespace.map_or_else(|| resource.clone(), |namespace| format!("{resource}/{namespace}")) + &form;
        let status = watched.status.clone();
        let age = move || status.silence().as_secs_f64();
        gauge(&*process.metrics, name, Gauge::WatchAge { watch }, Box::new(age));
    }
    watched
}

/// A suffix that distinguishes a watch from others of its kind and namespace, for metrics.
fn form(request: &CacheRequest, scope: &Scope, beside: bool) -> String {
    let metadata = request.id.metadata_only.then(|| "metadata".to_owned());
    let narrow = request.id.selected.is_some();
    let selectors = [&scope.labels, &scope.fields].into_iter().flatten().filter(|_| narrow).cloned();
    let all = (beside && !narrow).then(|| "all".to_owned());
    let parts: Vec<String> = metadata.into_iter().chain(selectors).chain(all).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

pub(super) fn gauge(metrics: &dyn MetricsRecorder, controller: &str, gauge: Gauge, read: ReadGauge) {
    if let Err(error) = metrics.register_gauge(controller, gauge, read) {
        tracing::warn!(controller, "a metric is missing: {error}");
    }
}

/// Warns about a namespace without objects if it does not exist.
async fn find_namespace(status: &WatchStatus, client: &Client) {
    status.wait_listed(false).await;
    let Some(namespace) = status.empty_namespace() else { return };
    // The least role has no permission for it; the request would be forbidden.
    if !may_get_namespace(client, namespace).await {
        return;
    }
    let Ok(request) = Request::new(Namespace::url_path(&(), None)).get(namespace, &GetParams::default()) else {
        return;
    };
    let found = timeout(Duration::from_secs(5), client.request::<Value>(request)).await;
    if let Ok(Err(kube::Error::Api(status))) = found
        && status.is_not_found()
    {
        tracing::warn!(watch = %status, "namespace `{namespace}` does not exist: no objects are found until it is created");
    }
}
