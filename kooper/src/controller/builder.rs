//! A controller in plain Rust: what the attribute writes.

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

use super::config::{Config, ConfigError, MetricsCompat};
use super::kind::{Kind, KindInfo, Namespaced};
use super::run::Context;
use super::{Controller, Parts};
use crate::action::Action;
use crate::error::BoxError;
use crate::extract::{Input, State};
use crate::handler::{Filter, Function, Handler, HandlerService, Init, Job, Middleware, Typed};
use crate::object::Changed;
use crate::plan::Plan;
use crate::retriever::{self, Api, Retriever, Scope};

type MakeState<S> = Arc<dyn Fn(Context) -> BoxFuture<'static, Result<State<S>, BoxError>> + Send + Sync>;
type MakeHandler<O, S> = Box<dyn Fn(State<S>, Option<Client>) -> HandlerService<O> + Send + Sync>;
type MakeRetriever = Box<dyn Fn(Option<Client>) -> Result<Arc<dyn retriever::Erased>, BoxError> + Send + Sync>;
type Wrap<O> = Box<dyn Middleware<O>>;

/// Builds a [`Controller`] of the kind `K`, whose handler gets objects of the
/// type `O` and the state `S`.
#[must_use = "a builder builds nothing until `build` is called"]
pub struct Builder<K, O = K, S = ()> {
    config: Config,
    plan: Plan,
    /// The first mistake of a setter that takes a grammar.
    mistake: Option<ConfigError>,
    state: MakeState<S>,
    handler: Option<MakeHandler<O, S>>,
    retriever: Option<MakeRetriever>,
    layers: Vec<Wrap<O>>,
    when: Option<Filter<O>>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Builder<K> {
    pub(super) fn new(name: String) -> Self {
        Self {
            config: Config::new(name),
            plan: Plan::default(),
            mistake: None,
            state: Arc::new(|_| Box::pin(std::future::ready(Ok(State::new(()))))),
            handler: None,
            retriever: None,
            layers: Vec::new(),
            when: None,
            kind: PhantomData,
        }
    }

    /// Fetches only the metadata of objects: the handler takes
    /// `Arc<PartialObjectMeta<K>>`. Goes before `init`, `when` and the handler.
    pub fn metadata_only(self) -> Builder<K, PartialObjectMeta<K>> {
        let mut config = self.config;
        config.metadata_only = true;
        Builder {
            config,
            plan: self.plan,
            mistake: self.mistake,
            state: self.state,
            handler: None,
            retriever: self.retriever,
            layers: Vec::new(),
            when: None,
            kind: PhantomData,
        }
    }
}

impl<K: Kind, O: Send + Sync + 'static> Builder<K, O> {
    /// Builds the state that handlers take as [`State<S>`]: once in a process
    /// for each distinct fn; a closure that captures something is built for
    /// each controller. An error is logged and tried again. Goes before
    /// the handler.
    pub fn init<I: Init<Args> + Clone, Args: 'static>(mut self, init: I) -> Builder<K, O, I::State> {
        if I::NEEDS_CLIENT {
            self.plan.needs_client();
        }
        // Two values of one type may differ, unless the type has no room for a
        // difference, as a fn's has none.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let own = if size_of::<I>() == 0 { 0 } else { NEXT.fetch_add(1, Ordering::Relaxed) };
        let id = (TypeId::of::<I>(), own);
        let state: MakeState<I::State> = Arc::new(move |context: Context| {
            let init = init.clone();
            Box::pin(async move {
                let client = context.client.clone();
                context.states.get_or_build(id, || init.build(client)).await.map(State::shared)
            })
        });
        Builder {
            config: self.config,
            plan: self.plan,
            mistake: self.mistake,
            state,
            handler: None,
            retriever: self.retriever,
            layers: self.layers,
            when: self.when,
            kind: PhantomData,
        }
    }
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Every object goes to the handler again after this long without a call;
    /// `None` is off. Default: 3 minutes.
    pub fn resync(mut self, every: impl Into<Option<Duration>>) -> Self {
        self.config.resync = every.into();
        self
    }

    /// The number of parallel handlers. Default: 3.
    pub fn workers(mut self, workers: usize) -> Self {
        self.config.workers = workers;
        self
    }

    /// How often a failed key is tried again; `None` is for ever. Default:
    /// for ever.
    pub fn retries(mut self, retries: impl Into<Option<u32>>) -> Self {
        self.config.retries = retries.into();
        self
    }

    /// The first and the longest delay of a failing key. Default: 5 ms and
    /// 1 000 s.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.config.backoff = crate::backoff::Backoff { first, longest };
        self
    }

    /// Retries of all keys together: so many a second, after a burst. Default:
    /// 10 and 100.
    pub fn retry_rate(mut self, per_second: u32, burst: u32) -> Self {
        self.config.retry_rate = (per_second, burst);
        self
    }

    /// The longest time for one handler call; `None` is off. Default: 5
    /// minutes.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.config.timeout = timeout.into();
        self
    }

    /// The namespaces to look into. Default: all.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self
    where
        K: Namespaced,
    {
        self.config.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// A label selector that the server applies.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.config.labels = Some(selector.into());
        self
    }

    /// A field selector that the server applies.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.config.fields = Some(selector.into());
        self
    }

    /// Which changes wake the handler. The first sight of an object, its
    /// deletion mark and resync always do. Default: any change.
    pub fn changed(mut self, changes: impl IntoIterator<Item = Changed>) -> Self {
        self.config.changed = changes.into_iter().collect();
        self
    }

    /// A filter before the queue, asked of the new version of an object on
    /// arrival, first list and resync.
    pub fn when(mut self, filter: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(filter));
        self
    }

    /// A retriever of one's own, in place of the API server's.
    pub fn retriever<R: Retriever<K>>(mut self, retriever: R) -> Self {
        let retriever = retriever::erase(retriever);
        self.retriever = Some(Box::new(move |_| Ok(retriever.clone())));
        self
    }

    /// A retriever of one's own that needs a client.
    pub fn retriever_from<F, R>(mut self, make: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Retriever<K>,
    {
        self.plan.needs_client();
        self.retriever = Some(Box::new(move |client| {
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
            Ok(rules) => self.plan.grant(rules),
            Err(error) => self.mistake = self.mistake.or_else(|| Some(self.config.error("access", error))),
        }
        self
    }

    /// How a failure that will be retried counts in Kooper's own series.
    /// Default: as in Kooper for Go with limited retries, as a failure
    /// without a limit.
    pub fn metrics_compat(mut self, compat: MetricsCompat) -> Self {
        self.config.metrics_compat = Some(compat);
        self
    }

    /// After how long a call that has not ended although it was cancelled is
    /// taken for stuck. Default: 30 seconds.
    pub fn stuck_after(mut self, stuck_after: Duration) -> Self {
        self.config.stuck_after = stuck_after;
        self
    }

    /// The handler: an async fn, see [`Handler`].
    pub fn handler<H: Handler<O, S, Args>, Args: 'static>(mut self, handler: H) -> Self {
        H::plan(&mut self.plan);
        self.function(move |input| handler.handle(input))
    }

    /// The handler as a `tower::Service`: for a handler that is a struct, or
    /// one that several controllers share.
    pub fn service<T>(mut self, service: T) -> Self
    where
        T: Service<Job<O>, Response = Action, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    {
        let service = HandlerService::new(service);
        self.handler = Some(Box::new(move |_, _| service.clone()));
        self
    }

    pub(super) fn plan(&mut self) -> &mut Plan {
        &mut self.plan
    }

    pub(super) fn function<F>(mut self, function: F) -> Self
    where
        F: Fn(Input<O, S>) -> BoxFuture<'static, Result<Action, BoxError>> + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        self.handler = Some(Box::new(move |state, client| {
            HandlerService::new(Function { function: function.clone(), state, client })
        }));
        self
    }

    /// The controller.
    ///
    /// # Errors
    /// When a name or handler is missing, or a setting makes no sense; name,
    /// handler and retriever are checked in this order.
    pub fn build(self) -> Result<Controller, ConfigError> {
        let Self { config, plan, mistake, state, handler, retriever, layers, when, .. } = self;
        config.check()?;
        let handler = handler
            .ok_or_else(|| config.error("handler", "it is missing: give the controller one with `.handler(…)`"))?;
        if let Some(mistake) = mistake {
            return Err(mistake);
        }
        let own_retriever = retriever.is_some();
        let narrowed = !config.namespaces.is_empty() || config.labels.is_some() || config.fields.is_some();
        if own_retriever && narrowed {
            let problem =
                "a retriever of one's own decides what it retrieves: remove `namespaces`, `labels` and `fields`";
            return Err(config.error("retriever", problem));
        }
        let kind = KindInfo::of::<K>();
        let parts = Arc::new(Sources { state, handler, retriever, layers, when, kind: PhantomData::<fn() -> K> });
        Ok(Controller {
            config,
            kind,
            plan,
            own_retriever,
            parts: Arc::new(move |context| {
                let parts = parts.clone();
                Box::pin(async move { parts.make(context).await })
            }),
        })
    }
}

/// What a controller's parts are made of once it runs.
struct Sources<K, O, S> {
    state: MakeState<S>,
    handler: MakeHandler<O, S>,
    retriever: Option<MakeRetriever>,
    layers: Vec<Wrap<O>>,
    when: Option<Filter<O>>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Sources<K, O, S> {
    async fn make(&self, context: Context) -> Result<Parts, BoxError> {
        let state = (self.state)(context.clone()).await?;
        let inner = (self.handler)(state, context.client.clone());
        let service = self.layers.iter().rev().fold(inner, |service, layer| layer.wrap(service));
        let handler = Arc::new(Typed { service, when: self.when.clone() });
        let retrievers = match &self.retriever {
            Some(make) => vec![(None, make(context.client)?)],
            None => {
                let client = context.client.ok_or("the operator has no client")?;
                let scopes = context.scopes.into_iter();
                scopes
                    .map(|scope| {
                        (scope.namespace.clone(), retriever::erase::<K, _>(Api::<K>::new(client.clone(), scope)))
                    })
                    .collect()
            }
        };
        Ok(Parts { retrievers, handler })
    }
}

impl Config {
    /// Which objects the API server is asked for.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        let scope = |namespace: Option<String>| Scope {
            namespace,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            metadata_only: self.metadata_only,
        };
        if self.namespaces.is_empty() {
            return vec![scope(None)];
        }
        let distinct: std::collections::BTreeSet<_> = self.namespaces.iter().collect();
        distinct.into_iter().map(|namespace| scope(Some(namespace.clone()))).collect()
    }
}

impl<K, O, S> std::fmt::Debug for Builder<K, O, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}
