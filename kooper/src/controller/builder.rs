//! A controller in plain Rust: what the attribute writes.

mod filter;
mod lent;
mod map;
mod parts;
mod related;
mod reliable;

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use kooper_grammar::access::Rule;
use kube::Client;
use kube::core::metadata::PartialObjectMeta;
use serde::de::DeserializeOwned;
use tower::Service;

use self::filter::FilterFn;
use super::config::{Config, MetricsCompat};
use super::error::ConfigError;
use super::states::InitContext;
use crate::call::action::Action;
use crate::call::extract::{Backing, Context, Removed, State};
use crate::call::handler::{Filter, Function, Handler, HandlerService, Init, Input, Middleware};
use crate::call::plan::Plan;
use crate::error::BoxError;
use crate::object::kind::{Kind, Namespaced};
use crate::object::sections::Changed;
use crate::watch::retriever::{self, Retriever};

pub use map::MapFn;
pub(crate) use parts::{Handlers, Parts};
pub(crate) use related::{KeyStream, MapKeys, Relation};
pub use related::{MakeSource, Source};
pub use reliable::CustomKind;
pub(crate) use reliable::MakeCrd;

type MakeState<S> = Arc<dyn Fn(InitContext) -> BoxFuture<'static, Result<State<S>, BoxError>> + Send + Sync>;
type MakeService<O, S> = Box<dyn Fn(State<S>, Arc<Backing>) -> HandlerService<O> + Send + Sync>;
type MakeRetriever = Box<dyn Fn(Option<Client>) -> Result<Arc<dyn retriever::Erased>, BoxError> + Send + Sync>;
type Wrap<O> = Box<dyn Middleware<O>>;

/// Builds a [`Controller`](super::Controller) of the kind `K`, whose handler gets objects of the
/// type `O` and the state `S`.
#[must_use = "a builder builds nothing until `build` is called"]
pub struct Builder<K, O = K, S = ()> {
    common: Common,
    state: MakeState<S>,
    handler: Option<MakeService<O, S>>,
    cleanup: Option<MakeService<O, S>>,
    deleted: Option<MakeService<Removed<O>, S>>,
    layers: Vec<Wrap<O>>,
    when: Option<Filter<O>>,
    kind: PhantomData<fn() -> K>,
}

/// What is set whatever the types of object and state are.
struct Common {
    config: Config,
    plan: Plan,
    /// The first mistake of a setter that takes a grammar.
    mistake: Option<ConfigError>,
    retriever: Option<MakeRetriever>,
    relations: Vec<Relation>,
    sources: Vec<KeyStream>,
    crd: Option<MakeCrd>,
}

impl<K: Kind> Builder<K> {
    pub(super) fn new(name: String) -> Self {
        let common = Common {
            config: Config::new(name),
            plan: Plan::default(),
            mistake: None,
            retriever: None,
            relations: Vec::new(),
            sources: Vec::new(),
            crd: None,
        };
        Self::with(common, Arc::new(|_| Box::pin(std::future::ready(Ok(State::new(()))))))
    }

    /// Fetches only the metadata of objects: the handler takes
    /// `Arc<PartialObjectMeta<K>>`. Goes before `init`, `when` and the handler.
    pub fn metadata_only(mut self) -> Builder<K, PartialObjectMeta<K>> {
        self.common.config.metadata_only = true;
        Builder::with(self.common, self.state)
    }
}

impl<K: Kind, O: Send + Sync + 'static> Builder<K, O> {
    /// Builds the state that handlers take as [`State<S>`]: once in a process
    /// for each distinct fn; a closure that captures something, and a
    /// controller with leader election, have one of their own. With leader
    /// election it is built when this replica leads for the first time. An
    /// error is logged and tried again. Goes before the handler.
    pub fn init<I, S, Args>(mut self, init: I) -> Builder<K, O, S>
    where
        I: Init<S, Args> + Clone,
        S: Send + Sync + 'static,
        Args: 'static,
    {
        I::plan(&mut self.common.plan);
        // Two values of one type may differ, unless the type has no room for a
        // difference, as a fn's has none.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let own = if size_of::<I>() == 0 { 0 } else { NEXT.fetch_add(1, Ordering::Relaxed) };
        let id = (TypeId::of::<I>(), own);
        let state: MakeState<S> = Arc::new(move |context: InitContext| {
            let init = init.clone();
            Box::pin(async move {
                let backing = context.backing.clone();
                context.states.get_or_build(id, || init.build(&backing)).await.map(State::shared)
            })
        });
        Builder { layers: self.layers, when: self.when, ..Builder::with(self.common, state) }
    }

    /// The state that handlers take as [`State<S>`]: a value that exists
    /// already, where [`init`](Self::init) builds one. Must be set before the
    /// handler.
    ///
    /// All calls share the value. To share it between controllers, give each
    /// a clone of an `Arc`. Leader election does not stop the requests of a
    /// client inside it; the client that `init` receives as an argument is
    /// stopped.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::kube::ResourceExt;
    /// use kooper::{Controller, State};
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
    /// let controller = Controller::builder::<Pod>("greeter").state(settings).handler(greet).build()?;
    /// # let _ = controller;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> Builder<K, O, S> {
        let state = State::new(state);
        let state: MakeState<S> = Arc::new(move |_| Box::pin(std::future::ready(Ok(state.clone()))));
        Builder { layers: self.layers, when: self.when, ..Builder::with(self.common, state) }
    }
}

impl<K, O, S> Builder<K, O, S> {
    fn with(common: Common, state: MakeState<S>) -> Self {
        Self {
            common,
            state,
            handler: None,
            cleanup: None,
            deleted: None,
            layers: Vec::new(),
            when: None,
            kind: PhantomData,
        }
    }
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Every object goes to the handler again after this long without a call;
    /// `None` is off. Default: 3 minutes.
    pub fn resync(mut self, every: impl Into<Option<Duration>>) -> Self {
        self.common.config.resync = every.into();
        self
    }

    /// The number of parallel handlers. Default: 3.
    pub fn workers(mut self, workers: usize) -> Self {
        self.common.config.workers = workers;
        self
    }

    /// How often a failed key is tried again; `None` is for ever. Default:
    /// for ever.
    pub fn retries(mut self, retries: impl Into<Option<u32>>) -> Self {
        self.common.config.retries = retries.into();
        self
    }

    /// The first and the longest delay of a failing key. Default: 5 ms and
    /// 1 000 s.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.common.config.backoff = crate::backoff::Backoff { first, longest };
        self
    }

    /// Retries of all keys together: so many a second, after a burst. Default:
    /// 10 and 100.
    pub fn retry_rate(mut self, per_second: u32, burst: u32) -> Self {
        self.common.config.retry_rate = (per_second, burst);
        self
    }

    /// The longest time for one handler call; `None` is off. Default: 5
    /// minutes.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.common.config.timeout = timeout.into();
        self
    }

    /// The namespaces to look into. Default: all.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self
    where
        K: Namespaced,
    {
        self.common.config.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// A label selector that the server applies.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.common.config.labels = Some(selector.into());
        self
    }

    /// A field selector that the server applies.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.common.config.fields = Some(selector.into());
        self
    }

    /// Which changes wake the handler. The first sight of an object, its
    /// deletion mark and resync always do. Default: any change.
    pub fn changed(mut self, changes: impl IntoIterator<Item = Changed>) -> Self {
        self.common.config.changed = changes.into_iter().collect();
        self
    }

    /// A filter before the queue, asked of the new version of an object on
    /// arrival, first list and resync.
    pub fn when(mut self, filter: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(filter));
        self
    }

    /// [`when`](Self::when) with a named function: what the attribute writes.
    #[doc(hidden)]
    pub fn when_fn<F: FilterFn<O, Args>, Args>(self, filter: F) -> Self {
        self.when(move |object| filter.wants(object))
    }

    /// A retriever of one's own, in place of the API server's.
    pub fn retriever<R: Retriever<K>>(mut self, retriever: R) -> Self {
        let retriever = retriever::erase(retriever);
        self.common.retriever = Some(Box::new(move |_| Ok(retriever.clone())));
        self
    }

    /// A retriever of one's own that needs a client.
    pub fn retriever_from<F, R>(mut self, make: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Retriever<K>,
    {
        self.common.plan.unruled("`retriever`");
        self.common.retriever = Some(Box::new(move |client| {
            let client = client.ok_or("`retriever` takes a client, and the operator has none")?;
            Ok(retriever::erase(make(client)))
        }));
        self
    }

    /// Middleware around the handler; the first layer is the outermost.
    pub fn layer<L: Middleware<O>>(mut self, layer: L) -> Self {
        self.layers.push(Box::new(layer));
        self
    }

    /// Permissions that the handler needs beyond what its arguments say, such
    /// as `"apps/deployments: get, patch"`.
    pub fn access<R: AsRef<str>>(mut self, rules: impl IntoIterator<Item = R>) -> Self {
        match rules.into_iter().map(|rule| Rule::parse(rule.as_ref())).collect() {
            Ok(rules) => self.common.plan.grant(rules),
            Err(error) => {
                self.common.mistake = self.common.mistake.or_else(|| Some(self.common.config.error("access", error)));
            }
        }
        self
    }

    /// How a failed call that will be retried is counted in Kooper's own
    /// metrics. Default: [`MetricsCompat::Accurate`], as a failure.
    pub fn metrics_compat(mut self, compat: MetricsCompat) -> Self {
        self.common.config.metrics_compat = compat;
        self
    }

    /// After how long a call that has not ended although it was cancelled is
    /// taken for stuck. Default: 30 seconds.
    pub fn stuck_after(mut self, stuck_after: Duration) -> Self {
        self.common.config.stuck_after = stuck_after;
        self
    }

    /// The handler: an async fn, see [`Handler`].
    pub fn handler<H: Handler<O, S, Args>, Args: 'static>(mut self, handler: H) -> Self {
        H::plan(&mut self.common.plan);
        self.function(move |input| handler.handle(input))
    }

    /// The handler as a `tower::Service`: for a handler that is a struct, or
    /// one that several controllers share.
    pub fn service<T>(mut self, service: T) -> Self
    where
        T: Service<Input<O>, Response = Action, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    {
        let service = HandlerService::new(service);
        self.handler = Some(Box::new(move |_, _| service.clone()));
        self
    }

    pub(super) fn plan(&mut self) -> &mut Plan {
        &mut self.common.plan
    }

    pub(super) fn function<F>(mut self, function: F) -> Self
    where
        F: Fn(Context<O, S>) -> BoxFuture<'static, Result<Action, BoxError>> + Send + Sync + 'static,
    {
        self.handler = Some(service_of(function));
        self
    }
}

/// A closure from the input of a call to its outcome, as a service that waits
/// for its state.
fn service_of<O, S, F>(function: F) -> MakeService<O, S>
where
    O: Send + Sync + 'static,
    S: Send + Sync + 'static,
    F: Fn(Context<O, S>) -> BoxFuture<'static, Result<Action, BoxError>> + Send + Sync + 'static,
{
    let function = Arc::new(function);
    Box::new(move |state, backing| HandlerService::new(Function { function: function.clone(), state, backing }))
}

impl<K, O, S> std::fmt::Debug for Builder<K, O, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("config", &self.common.config).finish_non_exhaustive()
    }
}
