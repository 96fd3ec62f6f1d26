//! A controller at work: from its first list to its drain.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join_all, select_all};
use kube::Client;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Controller, MetricsCompat, Parts};
use crate::backoff::Backoff;
use crate::error::{self, BoxError};
use crate::handler;
use crate::health::{Health, Probe};
use crate::informer::{Informer, Sink, WatchStatus};
use crate::metrics::{Counter, Gauge, MetricsError, MetricsRecorder};
use crate::object::{Changed, differs};
use crate::queue::{Lane, QueueOptions, WorkQueue};
use crate::reason::Reason;
use crate::retriever::Scope;
use crate::store::{Cache, Change};
use crate::worker::{Running, Workers};

/// The waits of an `init` that fails.
const INIT_BACKOFF: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// After an abort, how long a task may take to notice.
const ABORT_GRACE: Duration = Duration::from_secs(2);

/// What the controllers of a process share.
#[derive(Clone, Default)]
pub(crate) struct Context {
    pub(crate) client: Option<Client>,
    pub(crate) states: Arc<States>,
    pub(crate) scopes: Vec<Scope>,
}

/// The states that `init` fns built, each once.
#[derive(Default)]
pub(crate) struct States {
    slots: Mutex<HashMap<(TypeId, u64), Slot>>,
}

/// The state of one `init` fn; locked while it is built, so that one that
/// hangs holds up nobody but those that wait for it.
type Slot = Arc<AsyncMutex<Option<Arc<dyn Any + Send + Sync>>>>;

impl States {
    /// The state of an `init` fn, built if nobody has yet. A failure leaves
    /// nothing behind.
    pub(crate) async fn get_or_build<S, Fut>(
        &self,
        id: (TypeId, u64),
        build: impl FnOnce() -> Fut,
    ) -> Result<Arc<S>, BoxError>
    where
        S: Send + Sync + 'static,
        Fut: Future<Output = Result<S, BoxError>>,
    {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().clone();
        let mut built = slot.lock().await;
        if let Some(state) = built.clone().and_then(|state| state.downcast::<S>().ok()) {
            return Ok(state);
        }
        let state = Arc::new(build().await?);
        *built = Some(state.clone());
        Ok(state)
    }
}

/// A controller that is about to run: its queue is known to the metrics.
pub(crate) struct Runner {
    controller: Controller,
    context: Context,
    queue: Arc<WorkQueue>,
    metrics: Arc<dyn MetricsRecorder>,
    health: Health,
    drain: Duration,
}

impl Runner {
    pub(crate) fn new(
        controller: Controller,
        mut context: Context,
        metrics: Arc<dyn MetricsRecorder>,
        health: Health,
        drain: Duration,
    ) -> Result<Self, MetricsError> {
        let config = &controller.config;
        context.scopes = config.scopes();
        let queue = Arc::new(WorkQueue::new(QueueOptions {
            backoff: config.backoff,
            retries: config.retries,
            retry_rate: config.retry_rate,
            resync: config.resync,
        }));
        let read = queue.clone();
        metrics.register_queue_length(&config.name, Box::new(move || read.len() as f64))?;
        Ok(Self { controller, context, queue, metrics, health, drain })
    }

    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let starting = Arc::new(Starting::new(self.controller.name()));
        self.health.add(starting.clone());
        let Some(parts) = shutdown.run_until_cancelled(self.parts(&starting)).await else { return };
        let mut watching = self.watch(parts.retrievers, parts.handler.clone());
        starting.over();
        if shutdown.run_until_cancelled(watching.synced(self.context.client.clone())).await.is_some() {
            self.work(&watching.cache, parts.handler, &shutdown).await;
        }
        watching.stop().await;
    }

    /// Builds state, handler and retrievers; tries again for as long as
    /// `init` fails.
    async fn parts(&self, starting: &Starting) -> Parts {
        let mut failures = 0;
        loop {
            let parts = AssertUnwindSafe((self.controller.parts)(self.context.clone())).catch_unwind();
            let error = match parts.await {
                Ok(Ok(parts)) => return parts,
                Ok(Err(error)) => error::chain(&*error),
                Err(panic) => format!("it panicked: {}", error::panic_text(&*panic)),
            };
            failures += 1;
            let wait = INIT_BACKOFF.delay(failures);
            tracing::error!(controller = self.controller.name(), retry_in = ?wait, "`init` failed: {error}");
            starting.failed(&error);
            tokio::time::sleep(wait).await;
        }
    }

    fn watch(
        &self,
        retrievers: Vec<(Option<String>, Arc<dyn crate::retriever::Erased>)>,
        handler: Arc<dyn handler::Erased>,
    ) -> Watching {
        let (config, kind) = (&self.controller.config, &self.controller.kind);
        let name: Arc<str> = config.name.as_str().into();
        let cache = Cache::new(retrievers.iter().map(|(namespace, _)| namespace.clone()));
        let sink: Arc<dyn Sink> = Arc::new(Dispatch {
            name: name.clone(),
            queue: self.queue.clone(),
            handler,
            changed: config.changed.clone(),
            metrics: self.metrics.clone(),
        });
        let selected = config.labels.is_some() || config.fields.is_some();
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let mut statuses = Vec::new();
        for ((namespace, store), (_, retriever)) in cache.stores().zip(retrievers) {
            let from_server = !self.controller.own_retriever;
            let status = Arc::new(WatchStatus::new(&name, &kind.resource, namespace, selected, from_server));
            self.health.add(status.clone());
            let age = status.clone();
            let watch =
                namespace.map_or_else(|| kind.resource.clone(), |namespace| format!("{}/{namespace}", kind.resource));
            self.gauge(Gauge::WatchAge { watch }, move || age.age().as_secs_f64());
            let informer = Informer::new(retriever, store.clone(), status.clone(), sink.clone());
            tasks.spawn(informer.run(stop.clone()));
            statuses.push(status);
        }
        for gauge in [Gauge::StoreObjects, Gauge::StoreBytes] {
            let (cache, objects) = (cache.clone(), gauge == Gauge::StoreObjects);
            self.gauge(gauge, move || {
                let size = cache.size();
                (if objects { size.0 } else { size.1 }) as f64
            });
        }
        Watching { cache, statuses, stop, tasks }
    }

    async fn work(&self, cache: &Cache, handler: Arc<dyn handler::Erased>, shutdown: &CancellationToken) {
        let config = &self.controller.config;
        let compat = config.metrics_compat.unwrap_or(if config.retries.is_some() {
            MetricsCompat::Go
        } else {
            MetricsCompat::Truth
        });
        let workers = Arc::new(Workers {
            name: config.name.as_str().into(),
            queue: self.queue.clone(),
            cache: cache.clone(),
            handler,
            metrics: self.metrics.clone(),
            limit: config.workers,
            timeout: config.timeout,
            stuck_after: config.stuck_after,
            retried_is_success: compat == MetricsCompat::Go,
            stopping: CancellationToken::new(),
            abort: CancellationToken::new(),
            running: Running::default(),
            stuck: AtomicUsize::new(0),
        });
        self.health.add(workers.clone());
        self.worker_gauges(&workers);
        let mut tasks: JoinSet<()> = (0..config.workers).map(|_| workers.clone().work()).collect();

        shutdown.cancelled().await;
        self.queue.shut_down();
        workers.stopping.cancel();
        let drained = async { while tasks.join_next().await.is_some() {} };
        if timeout(self.drain, drained).await.is_err() {
            tracing::warn!(controller = %workers.name, calls = workers.running.count(), "the drain time of {:?} is over: the running handler calls are ended", self.drain);
            workers.abort.cancel();
            let _ = timeout(ABORT_GRACE, async { while tasks.join_next().await.is_some() {} }).await;
        }
    }

    fn worker_gauges(&self, workers: &Arc<Workers>) {
        let max = workers.limit as f64;
        self.gauge(Gauge::MaxWorkers, move || max);
        let running = workers.running.clone();
        self.gauge(Gauge::ActiveWorkers, move || running.count());
        let running = workers.running.clone();
        self.gauge(Gauge::UnfinishedWork, move || running.unfinished());
        let running = workers.running.clone();
        self.gauge(Gauge::LongestRunning, move || running.longest());
        let stuck = workers.clone();
        self.gauge(Gauge::StuckCalls, move || stuck.stuck.load(std::sync::atomic::Ordering::SeqCst) as f64);
    }

    fn gauge(&self, gauge: Gauge, read: impl Fn() -> f64 + Send + Sync + 'static) {
        if let Err(error) = self.metrics.register_gauge(self.controller.name(), gauge, Box::new(read)) {
            tracing::warn!(controller = self.controller.name(), "a metric is missing: {error}");
        }
    }
}

/// The watches of a controller.
struct Watching {
    cache: Cache,
    statuses: Vec<Arc<WatchStatus>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Watching {
    /// Waits until something is listed: what is not holds up nobody else.
    async fn synced(&mut self, client: Option<Client>) {
        select_all(self.statuses.iter().map(|status| Box::pin(status.wait_synced()))).await;
        if let Some(client) = client {
            let statuses = self.statuses.clone();
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                stop.run_until_cancelled(join_all(statuses.iter().map(|status| find_namespace(status, &client)))).await;
            });
        }
    }

    async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Says so where a namespace looks empty because it is absent.
async fn find_namespace(status: &WatchStatus, client: &Client) {
    status.wait_synced().await;
    let Some(namespace) = status.empty_namespace() else { return };
    let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
    if let Ok(Ok(None)) = timeout(Duration::from_secs(5), namespaces.get_opt(namespace)).await {
        tracing::warn!(watch = %status, "namespace `{namespace}` does not exist: nothing is seen until it is created");
    }
}

/// Takes changes of the store to the queue.
struct Dispatch {
    name: Arc<str>,
    queue: Arc<WorkQueue>,
    handler: Arc<dyn handler::Erased>,
    changed: Vec<Changed>,
    metrics: Arc<dyn MetricsRecorder>,
}

impl Sink for Dispatch {
    fn changed(&self, change: Change, initial: bool) {
        let Some(key) = change.key() else { return };
        let (lane, reason) = match (&change.old, &change.new) {
            (_, None) => (Lane::Event, Reason::Deleted),
            (Some(old), Some(new)) if !differs(old, new, &self.changed) => return,
            (_, Some(new)) if !self.handler.wants(new) => {
                self.queue.remember(key);
                return;
            }
            (None, Some(_)) if initial => (Lane::Background, Reason::Initial),
            (None, Some(_)) => (Lane::Event, Reason::Added),
            (Some(_), Some(_)) => (Lane::Event, Reason::Modified),
        };
        self.queue.add(key, lane, reason);
        self.metrics.inc_event_queued(&self.name, false);
    }

    fn relisted(&self) {
        self.metrics.count(&self.name, Counter::Relist);
    }

    fn restored(&self) {
        self.metrics.count(&self.name, Counter::Restore);
    }

    fn malformed(&self) {
        self.metrics.count(&self.name, Counter::DecodeError);
    }
}

/// A controller between its start and its first watch.
struct Starting {
    name: String,
    /// What holds it up; `None` when it is over.
    state: Mutex<Option<String>>,
}

impl Starting {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), state: Mutex::new(Some("it is starting".to_owned())) }
    }

    fn failed(&self, error: &str) {
        *self.lock() = Some(format!("`init` failed: {error}"));
    }

    fn over(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Probe for Starting {
    fn ready(&self) -> Result<Option<String>, String> {
        self.lock().as_ref().map_or(Ok(None), |reason| Err(format!("{}: {reason}", self.name)))
    }
}
