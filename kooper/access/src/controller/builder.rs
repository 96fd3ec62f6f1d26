//! The builder of controllers. The attribute generates calls of it.

mod by_reference;
pub(crate) mod daemon;
mod filter;
mod map;
pub(crate) mod namespaces;
mod parts;
mod queue;
mod related;
mod reliable;
mod sample;

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use kooper_grammar::access::Rule;
use kooper_runtime::internal::controller::Config;
use kooper_runtime::internal::controller::parts::{InitContext, Relation, TriggerStream};
use kooper_runtime::internal::watch::retriever::{ErasedRetriever, erase};
use kooper_runtime::{Action, BoxError, Changed, ControllerContext, FailureEvents, Kind, Retriever};
use kube::Client;
use kube::core::metadata::PartialObjectMeta;
use serde::de::DeserializeOwned;
use tower::Service;

use self::daemon::Daemon;
use self::filter::FilterFn;
use crate::calls::MetricsCompat;
use crate::controller::Description;
use crate::controller::error::{ConfigError, ConfigErrorKind};
use crate::extract::{Context, Removed, State};
use crate::handler::{Filter, Function, Handler, HandlerService, Init, Input, Middleware, PriorityOf};
use crate::plan::Plan;
use crate::states::States;

pub use crate::subset::All;
pub use map::MapFn;
pub use related::{MakeSource, ReconcileAll, Source};
pub use reliable::CustomKind;
pub(crate) use reliable::MakeCrd;
pub use sample::Sample;

type MakeState<S> = Arc<dyn Fn(InitContext) -> BoxFuture<'static, Result<State<S>, BoxError>> + Send + Sync>;
type MakeService<O, S> = Box<dyn Fn(State<S>, Arc<ControllerContext>) -> HandlerService<O> + Send + Sync>;
type MakeRetriever = Box<dyn Fn(Option<Client>) -> Result<Arc<dyn ErasedRetriever>, BoxError> + Send + Sync>;
type Wrap<O> = Box<dyn Middleware<O>>;

/// The start of a controller's description, as methods of the kind. Implemented
/// for every [`Kind`].
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::KindExt;
///
/// let controller = Pod::controller("idle").handler(async || {}).build()?;
/// assert_eq!((controller.name(), controller.kind()), ("idle", "Pod"));
/// # Ok::<_, kooper::ConfigError>(())
/// ```
pub trait KindExt: Kind {
    /// Starts the description of a controller of this kind. Name and handler are
    /// required; everything else has a default.
    fn controller(name: impl Into<String>) -> Builder<Self>
    where
        Self: Sized,
    {
        Builder::new(name.into())
    }

    /// All objects of this kind, for [`Builder::owns`]. The methods of [`All`]
    /// select some of them.
    fn all() -> All<Self>
    where
        Self: Sized,
    {
        All::new()
    }
}

impl<K: Kind> KindExt for K {}

/// Builds a [`Controller`](super::Controller) for objects of the kind `K`. Its
/// handlers receive objects of the type `O`, and the state `S`.
#[doc(alias = "reconciler")]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct Builder<K, O = K, S = ()> {
    common: Common,
    state: MakeState<S>,
    handler: Option<MakeService<O, S>>,
    /// The handler's function for paused objects.
    paused: Option<MakeService<O, S>>,
    cleanup: Option<MakeService<O, S>>,
    daemon: Option<Daemon<O, S>>,
    deleted: Option<MakeService<Removed<O>, S>>,
    layers: Vec<Wrap<O>>,
    when: Option<Filter<O>>,
    priority: Option<PriorityOf<O>>,
    kind: PhantomData<fn() -> K>,
}

/// Settings that do not depend on the types of object and state.
struct Common {
    config: Config,
    description: Description,
    plan: Plan,
    /// The first error of a setter that parses its argument.
    mistake: Option<ConfigError>,
    retriever: Option<MakeRetriever>,
    relations: Vec<Relation>,
    sources: Vec<TriggerStream>,
}

impl<K: Kind> Builder<K> {
    pub(super) fn new(name: String) -> Self {
        let common = Common {
            config: Config::new(name),
            description: Description::default(),
            plan: Plan::default(),
            mistake: None,
            retriever: None,
            relations: Vec::new(),
            sources: Vec::new(),
        };
        Self::with(common, Arc::new(|_| Box::pin(std::future::ready(Ok(State::new(()))))))
    }

    /// Fetches only the metadata of objects: the handler receives
    /// `Arc<PartialObjectMeta<K>>`. Call it before `init`, `state`, `handler` and
    /// other functions: [`build`](Self::build) returns an error for one that was set before.
    pub fn metadata_only(mut self) -> Builder<K, PartialObjectMeta<K>> {
        let objects =
            [("when", self.when.is_some()), ("priority", self.priority.is_some()), ("layer", !self.layers.is_empty())];
        self.comes_first("metadata_only", objects);
        self.common.config.metadata_only = true;
        Builder::with(self.common, self.state)
    }
}

impl<K: Kind, O: Send + Sync + 'static> Builder<K, O> {
    /// Sets the function that builds the state that handlers receive as
    /// [`State<S>`]. Each distinct function is called once per process, for all
    /// controllers that name it. A closure that captures something, and a
    /// controller with leader election, get a state of their own. With leader
    /// election the state is built when this replica acquires leadership for
    /// the first time.
    ///
    /// If the function fails, the error is logged and it is called again after
    /// a back-off. Call it before `handler`, `cleanup`, `daemon` and `deleted`:
    /// [`build`](Self::build) returns an error for one that was set before. To use
    /// a value that exists already, see [`state`](Self::state).
    pub fn init<I, S, Args>(mut self, init: I) -> Builder<K, O, S>
    where
        I: Init<S, Args> + Clone,
        S: Send + Sync + 'static,
        Args: 'static,
    {
        self.comes_first("init", []);
        I::plan(&mut self.common.plan);
        self.common.description.has_init = true;
        // Two values of one type may differ unless the type has size zero, like
        // the type of a function.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let own = if size_of::<I>() == 0 { 0 } else { NEXT.fetch_add(1, Ordering::Relaxed) };
        let id = (TypeId::of::<I>(), own);
        let state: MakeState<S> = Arc::new(move |context: InitContext| {
            let init = init.clone();
            Box::pin(async move {
                let controller = context.controller.clone();
                let states = context.shared.get::<States>();
                states.get_or_build(id, || init.build(&controller)).await.map(State::from)
            })
        });
        Builder { layers: self.layers, when: self.when, priority: self.priority, ..Builder::with(self.common, state) }
    }

    /// Sets the state that handlers receive as [`State<S>`] to a value that
    /// exists already, whereas [`init`](Self::init) builds one. Call it before
    /// `handler`, `cleanup`, `daemon` and `deleted`, like `init`.
    ///
    /// All calls share the value. To share it between controllers, give each a
    /// clone of an `Arc`. A `Client` inside the value keeps sending requests
    /// after leadership is lost; a client that `init` receives as an argument
    /// does not.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::kube::ResourceExt;
    /// use kooper::{KindExt, State};
    ///
    /// struct Settings {
    ///     greeting: String,
    /// }
    ///
    /// async fn greet(pod: Arc<Pod>, settings: State<Settings>) {
    ///     println!("{}, {}", settings.greeting, pod.name_any());
    /// }
    ///
    /// let settings = Settings { greeting: "hello".to_owned() };
    /// let controller = Pod::controller("greeter").state(settings).handler(greet).build()?;
    /// # let _ = controller;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn state<S: Send + Sync + 'static>(mut self, state: S) -> Builder<K, O, S> {
        self.comes_first("state", []);
        let state = State::new(state);
        let state: MakeState<S> = Arc::new(move |_| Box::pin(std::future::ready(Ok(state.clone()))));
        Builder { layers: self.layers, when: self.when, priority: self.priority, ..Builder::with(self.common, state) }
    }
}

impl<K, O, S> Builder<K, O, S> {
    fn with(common: Common, state: MakeState<S>) -> Self {
        Self {
            common,
            state,
            handler: None,
            paused: None,
            cleanup: None,
            daemon: None,
            deleted: None,
            layers: Vec::new(),
            when: None,
            priority: None,
            kind: PhantomData,
        }
    }

    /// Notes a mistake in a setting that changes types if a function was set before it: the next builder has no place for
    /// a function of other types. A handler that is lost is missing.
    fn comes_first<const N: usize>(&mut self, setting: &'static str, others: [(&str, bool); N]) {
        let functions = [
            ("cleanup", self.cleanup.is_some()),
            ("daemon", self.daemon.is_some()),
            ("deleted", self.deleted.is_some()),
        ];
        if let Some((lost, _)) = functions.into_iter().chain(others).find(|(_, is_set)| *is_set) {
            let problem = format!("it changes the types of the functions and is called after `{lost}`: call it before");
            self.common.note(setting, ConfigErrorKind::Conflict, problem);
        }
    }
}

impl Common {
    /// Notes a mistake in a setting, which `build` returns if it is the first one.
    fn note(&mut self, setting: &'static str, kind: ConfigErrorKind, problem: impl std::fmt::Display) {
        if self.mistake.is_none() {
            self.mistake = Some(ConfigError::new(&self.config, setting, kind, problem));
        }
    }
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// The maximum time for which an object may go without a call before its handler is
    /// called again; `None` disables resyncs. Default: 3 minutes.
    #[doc(alias = "sync period")]
    pub fn resync(mut self, every: impl Into<Option<Duration>>) -> Self {
        self.common.config.queue.resync = every.into();
        self
    }

    /// The maximum number of objects that are handled at the same time. Default: 3.
    #[doc(alias = "MaxConcurrentReconciles")]
    pub fn workers(mut self, workers: usize) -> Self {
        self.common.config.workers = workers;
        self
    }

    /// The maximum number of retries of a failed key; `None` sets no limit. Default: no
    /// limit.
    pub fn retries(mut self, retries: impl Into<Option<u32>>) -> Self {
        self.common.config.queue.retries = retries.into();
        self
    }

    /// The initial and the maximum delay between the retries of a key. Default:
    /// 5 ms and 1000 s.
    #[doc(alias = "rate limiter")]
    pub fn backoff(mut self, initial: Duration, max: Duration) -> Self {
        self.common.config.queue.backoff = kooper_runtime::backoff::Backoff { initial, max };
        self
    }

    /// Limits the retries of all keys together, in retries per second after a
    /// burst. Default: 10 per second and a burst of 100.
    #[doc(alias = "rate limiter")]
    pub fn retry_rate(mut self, per_second: u32, burst: u32) -> Self {
        self.common.config.queue.retry_rate = (per_second, burst);
        self
    }

    /// The longest time that one handler call may take; `None` sets no limit.
    /// Default: 5 minutes.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.common.config.timeout = timeout.into();
        self
    }

    /// A label selector, which the API server applies.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.common.config.labels = Some(selector.into());
        self
    }

    /// A field selector, which the API server applies.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.common.config.fields = Some(selector.into());
        self
    }

    /// Which changes of an object enqueue its key. The first list, a change with which
    /// it begins to match [`when`](Self::when), a deletion timestamp and resyncs always
    /// do, although only [`cleanup`](Self::cleanup) and a handler with
    /// [`while_deleting`](Self::while_deleting) are called for an object that is being
    /// deleted. A field that the kind does not have is an error of
    /// [`build`](Self::build), as far as its schema is known. Default: any change.
    #[doc(alias = "predicate")]
    pub fn changed(mut self, changes: impl IntoIterator<Item = Changed>) -> Self {
        self.common.config.changed = changes.into_iter().collect();
        self
    }

    /// A filter: only objects for which it returns `true` are handled. It is
    /// called for each new version of an object before its key is queued, and
    /// again before each call of the handler.
    #[doc(alias = "predicate")]
    pub fn when(mut self, filter: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(filter));
        self
    }

    /// [`when`](Self::when) with a named function: the attribute generates this
    /// call.
    #[doc(hidden)]
    pub fn when_fn<F: FilterFn<O, Args>, Args>(self, filter: F) -> Self {
        self.when(move |object| filter.wants(object))
    }

    /// Sets a custom retriever instead of the API server.
    #[doc(alias = "ListerWatcher")]
    pub fn retriever<R: Retriever<K>>(mut self, retriever: R) -> Self {
        let retriever = erase(retriever);
        self.common.retriever = Some(Box::new(move |_| Ok(retriever.clone())));
        self
    }

    /// Sets a function that makes a custom retriever from a client.
    pub fn retriever_from<F, R>(mut self, make: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Retriever<K>,
    {
        self.common.plan.require_client("`retriever`");
        self.common.retriever = Some(Box::new(move |client| {
            let client = client.ok_or("`retriever` takes a client, and the operator has none")?;
            Ok(erase(make(client)))
        }));
        self
    }

    /// Adds a middleware around the handler. The first layer is the outermost.
    #[doc(alias = "middleware")]
    pub fn layer<L: Middleware<O>>(mut self, layer: L) -> Self {
        self.layers.push(Box::new(layer));
        self
    }

    /// Adds permissions that the handler needs beyond those of its arguments,
    /// such as `"apps/deployments: get, patch"`.
    pub fn rbac<R: AsRef<str>>(mut self, rules: impl IntoIterator<Item = R>) -> Self {
        match rules.into_iter().map(|rule| Rule::parse(rule.as_ref())).collect() {
            Ok(rules) => self.common.plan.grant(rules),
            Err(error) => return self.mistaken("rbac", error),
        }
        self
    }

    /// Notes a mistake in a setting, which `build` returns if it is the first one.
    #[doc(hidden)]
    pub fn mistaken(mut self, setting: &'static str, problem: impl std::fmt::Display) -> Self {
        self.common.note(setting, ConfigErrorKind::Malformed, problem);
        self
    }

    /// The previous name of [`rbac`](Self::rbac).
    #[deprecated = "use `rbac`"]
    pub fn access<R: AsRef<str>>(self, rules: impl IntoIterator<Item = R>) -> Self {
        self.rbac(rules)
    }

    /// The detail of Kubernetes Events about an object whose calls keep failing. Events
    /// also report when its calls succeed again, and why it is not handled or not
    /// deleted. `false` disables these Events; a controller of Events records none. Default:
    /// [`FailureEvents::Outermost`].
    pub fn events(mut self, events: impl Into<FailureEvents>) -> Self {
        self.common.config.events = events.into();
        self
    }

    /// The result under which the metrics of Kooper for Go count a failed call that will
    /// be retried. Default: [`MetricsCompat::Accurate`], as a failure.
    pub fn metrics_compat(self, compat: MetricsCompat) -> Self {
        self.common.description.additions.extensions.insert(compat);
        self
    }

    /// The time for which a call may keep running after it was cancelled before it is
    /// reported as stuck. Default: 30 seconds.
    pub fn stuck_after(mut self, stuck_after: Duration) -> Self {
        self.common.config.stuck_after = stuck_after;
        self
    }

    /// Sets the handler: an async function, see [`Handler`].
    #[doc(alias = "reconcile")]
    pub fn handler<H: Handler<O, S, Args>, Args: 'static>(mut self, handler: H) -> Self {
        H::plan(&mut self.common.plan);
        handler.extend(&mut self.common.description.additions);
        self.paused = handler.paused().map(service_of);
        self.handler = Some(service_of(move |input| handler.handle(input)));
        self
    }

    /// Sets the handler as a `tower::Service`: for handlers that are structs,
    /// or that several controllers share.
    pub fn service<T>(mut self, service: T) -> Self
    where
        T: Service<Input<O>, Response = Action, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    {
        let service = HandlerService::new(service);
        self.handler = Some(Box::new(move |_, _| service.clone()));
        self
    }

    /// Adds what functions need that are not the controller's own.
    #[doc(hidden)]
    pub fn planned(mut self, plan: impl FnOnce(&mut Plan)) -> Self {
        plan(&mut self.common.plan);
        self
    }

    pub(super) fn plan(&mut self) -> &mut Plan {
        &mut self.common.plan
    }
}

/// Wraps a closure from a call's context to its result as a service, once the
/// state is known.
fn service_of<O, S, F>(function: F) -> MakeService<O, S>
where
    O: Send + Sync + 'static,
    S: Send + Sync + 'static,
    F: Fn(Context<O, S>) -> BoxFuture<'static, Result<Action, BoxError>> + Send + Sync + 'static,
{
    let function = Arc::new(function);
    Box::new(move |state, controller| HandlerService::new(Function { function: function.clone(), state, controller }))
}

impl<K, O, S> std::fmt::Debug for Builder<K, O, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("config", &self.common.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
