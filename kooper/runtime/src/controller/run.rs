//! A running controller, from its first list to its drain.

mod election;
mod event_handler;
mod handled;
mod part;
mod pass;
mod prerequisite;
mod priorities;
mod routes;
mod sources;
mod watching;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube::Client;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::parts::{Handlers, InitContext};
use super::{ControllerSpec, Hooks};
use crate::backoff::Backoff;
use crate::call::Tasks;
use crate::call::context::ControllerContext;
use crate::call::events::StartEvents;
use crate::call::extensions::Extensions;
use crate::call::finalizer::{ForgottenFinalizers, UnselectedObjects};
use crate::call::handler::DynHandler;
use crate::call::observer::{CallObserver, Observers};
use crate::call::worker::{CallLimits, CallTracker, Deletions, Functions, Grants, Tombstones, Undecodable, Workers};
use crate::client::{ClientStack, on_current_runtime, retry_after};
use crate::controller::config::Names;
use crate::controller::error::ControllerError;
use crate::controller::health::Health;
use crate::controller::partition::Partition;
use crate::controller::pass::{ControllerPass, Pass};
use crate::controller::prerequisite::Prerequisite;
use crate::controller::starting::Starting;
use crate::controller::view::ControllerView;
use crate::error;
use crate::executor::{Executor, Task};
use crate::leader::{Elected, Leadership};
use crate::metrics::{Counter, Gauge, MetricsError, MetricsRecorder};
use crate::queue::{Admission, AdmitAll, WorkQueue};
use crate::watch::informer::SharedWatches;

use event_handler::{CloseOnDrop, Enqueuer};
use watching::Watching;

/// The delays between retries of an `init` that fails.
const INIT_BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// Maximum time for a task to end after it was aborted.
const ABORT_GRACE: Duration = Duration::from_secs(2);

/// Maximum time for running calls when leadership is lost: another replica may lead soon.
const STEP_DOWN_GRACE: Duration = Duration::from_secs(1);

/// Maximum time for writing the last Kubernetes Events.
const EVENTS_GRACE: Duration = Duration::from_secs(2);

/// The parts that all controllers of a process share.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "other crates of Kooper only pass it on")]
pub struct Process {
    /// The client of all controllers.
    pub client: Option<Client>,
    /// The layers in it.
    pub stack: Option<ClientStack>,
    /// The client for Leases, which does not wait for other requests.
    pub lease_client: Option<Client>,
    /// The identity of this process.
    pub identity: String,
    /// The values that controllers share, such as their states.
    pub shared: Arc<Extensions>,
    /// The watches that controllers share.
    pub watches: Arc<SharedWatches>,
    /// Begins to record Kubernetes Events.
    pub start_events: StartEvents,
    /// The metrics.
    pub metrics: Arc<dyn MetricsRecorder>,
    /// The probes.
    pub health: Health,
    /// Where the functions of controllers run.
    pub executor: Executor,
    /// The limit for running calls at the end.
    pub drain: Duration,
    /// `true` if a controller that lost leadership becomes a standby again.
    pub rejoins_election: bool,
    /// One pass over all objects, instead of a run for as long as the process runs.
    pub pass: Option<Arc<dyn Pass>>,
}

/// A controller that is about to run: its queue is known to the metrics.
#[expect(missing_debug_implementations, reason = "other crates of Kooper only pass it on")]
pub struct Runner {
    controller: ControllerSpec,
    names: Names,
    prerequisite: Option<Arc<dyn Prerequisite>>,
    partition: Option<Arc<dyn Partition>>,
    /// The time between the end of a term and the earliest beginning of another one.
    margin: Duration,
    process: Process,
    context: Arc<ControllerContext>,
    enqueuer: Arc<Enqueuer>,
    leadership: Leadership,
    watching: Watching,
    tombstones: Arc<Tombstones>,
    /// The values that it shares with others, such as its state.
    shared: Arc<Extensions>,
    call_tracker: Arc<CallTracker>,
    undecodable: Arc<Undecodable>,
    observer: Arc<Observers>,
    starting: Arc<Starting>,
    view: Arc<ControllerView>,
    grants: Arc<Grants>,
    /// Its part of a pass.
    pass: Option<Arc<dyn ControllerPass>>,
    /// Background tasks, until the controller ends.
    background: JoinSet<()>,
}

impl Runner {
    /// A controller in a process. It does nothing before [`run`](Self::run).
    pub fn new(controller: ControllerSpec, hooks: Hooks, process: &Process) -> Result<Self, MetricsError> {
        let config = &controller.config;
        let name: Arc<str> = config.name.as_str().into();
        let pass = process.pass.as_ref().map(|pass| pass.clone().join(&name));
        let admission: Arc<dyn Admission> = match (&pass, &hooks.partition) {
            (Some(pass), _) => pass.clone(),
            (None, Some(partition)) => partition.admission(),
            (None, None) => Arc::new(AdmitAll),
        };
        let mut options = config.queue.clone();
        if !admission.repeats() {
            // Each key runs once, and at once.
            (options.resync, options.debounce) = (None, None);
        }
        let (metrics, controller_name) = (process.metrics.clone(), name.clone());
        let count = move || metrics.count(&controller_name, Counter::Add);
        let queue = Arc::new(WorkQueue::new(options).on_add(count));
        let read = queue.clone();
        process.metrics.register_queue_length(&config.name, Box::new(move || read.len() as f64))?;
        let (leadership, margin) = match (&config.leader, &hooks.partition) {
            (Some(election), _) => (Leadership::none(), election.margin()),
            (None, Some(partition)) => partition.leadership(),
            (None, None) => (Leadership::always(), Duration::ZERO),
        };
        let watching = Watching::new(&controller, process, hooks.partition.as_deref());
        // Outside of a runtime no client can be made around another one.
        let pauses = Handle::try_current().is_ok().then(retry_after);
        // The fence, too, belongs to the runtime that no handler blocks.
        let layered = |stack: ClientStack| stack.with(pauses).with(leadership.fence()).with(on_current_runtime());
        let client = process.stack.clone().map(|stack| layered(stack).client());
        let context = Arc::new(ControllerContext {
            installation: hooks.names.installation.as_str().into(),
            controller: name.clone(),
            kind: controller.kind.clone(),
            client: client.clone(),
            caches: watching.caches(),
            queue,
            own: watching.primary(),
            own_id: controller.primary.id,
            previous: hooks.names.previous_managers.clone(),
            child_observer: hooks.child_observer,
            annotations: config.annotations.clone(),
            extensions: hooks.extensions,
            events: (process.start_events)(client, &name),
            metrics: process.metrics.clone(),
            reports: controller.reports_failures,
        });
        // Daemons need no workers, so those that are stuck do not hold up others.
        let workers = if config.daemon { usize::MAX } else { config.workers };
        let call_tracker = Arc::new(CallTracker::new(name.clone(), workers));
        process.health.add(call_tracker.clone());
        let undecodable = Arc::new(Undecodable::new(name.clone()));
        process.health.add(undecodable.clone());
        let mut observers: Vec<Arc<dyn CallObserver>> = vec![undecodable.clone()];
        observers.extend((hooks.observe)(&context, watching.unselected()));
        let observer = Arc::new(Observers(observers));
        let grants = Arc::new(Grants::new(admission.clone()));
        let enqueuer = Enqueuer {
            controller: context.clone(),
            namespaces: watching.namespaces(),
            open: AtomicBool::new(config.leader.is_none()),
            grants: grants.clone(),
            observer: observer.clone(),
        };
        // Added here, so that the process is not ready before the controller runs.
        let starting = Arc::new(Starting::new(&context));
        process.health.add(starting.clone());
        // A state whose client is fenced by one Lease is not shared.
        let shared = if leadership.expires() { Arc::default() } else { process.shared.clone() };
        let view = Arc::new(ControllerView {
            context: context.clone(),
            namespaces: watching.namespaces(),
            leadership: leadership.clone(),
            identity: leadership.expires().then(|| process.identity.clone()),
            election: OnceLock::new(),
            admission,
            workers: config.workers,
            ignores_deletion: config.ignores_deletion(),
            watches: watching.all(),
            call_tracker: call_tracker.clone(),
            starting: starting.clone(),
        });
        process.health.add_controller(&view);
        let runner = Self {
            enqueuer: enqueuer.into(),
            process: process.clone(),
            context,
            leadership,
            watching,
            controller,
            names: hooks.names,
            prerequisite: hooks.prerequisite,
            partition: hooks.partition,
            margin,
            tombstones: Arc::default(),
            shared,
            call_tracker,
            undecodable,
            observer,
            starting,
            view,
            grants,
            pass,
            background: JoinSet::new(),
        };
        runner.worker_gauges();
        Ok(runner)
    }

    /// The name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        self.controller.name()
    }

    /// The controller for a watchdog; `None` without leader election.
    #[must_use]
    pub fn elected(&self) -> Option<Elected> {
        self.leadership.expires().then(|| Elected {
            controller: self.context.controller.clone(),
            leadership: self.leadership.clone(),
            calls: self.call_tracker.clone(),
            margin: self.margin,
        })
    }

    /// Until `shutdown` is cancelled and everything has ended.
    ///
    /// Boxed in this crate: an async function is otherwise compiled again, and all that it awaits, wherever it is polled.
    #[must_use = "nothing runs until it is polled"]
    pub fn run(self, shutdown: CancellationToken) -> BoxFuture<'static, Result<(), ControllerError>> {
        Box::pin(self.run_until(shutdown))
    }

    async fn run_until(mut self, shutdown: CancellationToken) -> Result<(), ControllerError> {
        self.context.events.run_here();
        let _closing = CloseOnDrop(self.enqueuer.clone());
        if !self.controller.config.namespaces.is_empty()
            && let Some(finalizer) = &self.controller.config.finalizer
        {
            let (controller, namespaces) = (self.controller.name(), self.controller.config.namespaces.join(", "));
            tracing::info!(
                controller,
                namespaces,
                "objects in other namespaces that still have the finalizer {finalizer} are not cleaned up"
            );
        }
        if let Some(pass) = self.pass.clone() {
            self.run_once(pass, &shutdown).await;
            return Ok(());
        }
        // The first lists queue keys already.
        let _deciding = self.decide_priorities();
        let started = shutdown.run_until_cancelled(self.start()).await;
        if started.is_none() {
            return Ok(());
        }
        let sources = self.listen(&shutdown);
        let result = match (&self.controller.config.leader, self.partition.clone()) {
            (None, Some(partition)) => {
                self.run_part(&*partition, &shutdown).await;
                Ok(())
            }
            (None, None) => {
                self.run_term(&shutdown, &CancellationToken::new()).await;
                Ok(())
            }
            (Some(_), _) => self.run_elected(&shutdown).await,
        };
        drop(sources);
        result
    }

    /// Starts the watches, and waits for the first lists.
    async fn start(&mut self) {
        self.meet_prerequisite().await;
        let mut failures = 0;
        while let Err(error) = self.open().await {
            self.pause("retriever", &error, &mut failures).await;
        }
        self.starting.lists(self.watching.namespaces());
        self.watching.synced(&self.controller.config.namespaces, self.process.client.clone()).await;
    }

    /// Opens the caches.
    async fn open(&mut self) -> Result<(), String> {
        let opening =
            self.watching.open(&self.controller, &self.process, &self.enqueuer, &self.tombstones, &self.undecodable);
        match AssertUnwindSafe(opening).catch_unwind().await {
            Ok(opened) => opened.map_err(|error| error::chain(&*error)),
            Err(panic) => Err(format!("it panicked: {}", error::panic_text(&*panic))),
        }
    }

    /// Runs the workers until `stop` is cancelled and all calls have ended, with a
    /// shorter drain time if `lost` is cancelled. Returns `false` if a call or task
    /// is still running after its abort.
    async fn run_term(&self, stop: &CancellationToken, lost: &CancellationToken) -> bool {
        let Some(handlers) = stop.run_until_cancelled(self.handlers()).await else {
            // A standby does not build a state.
            self.starting.over();
            return self.init_ended().await;
        };
        self.partition.iter().for_each(|partition| partition.works());
        self.run_workers(handlers, stop, lost).await
    }

    /// Runs the workers with these functions, see [`run_term`](Self::run_term).
    async fn run_workers(&self, handlers: Handlers, stop: &CancellationToken, lost: &CancellationToken) -> bool {
        let workers = self.workers(handlers);
        let mut running = workers.start();
        stop.cancelled().await;
        let tasks = workers.tasks.clone();
        tasks.stopping.cancel();
        let step_down = self.before_the_next_term(STEP_DOWN_GRACE);
        let drain = async {
            let limit = sleep(self.process.drain);
            let hurry = async {
                lost.cancelled().await;
                sleep(step_down).await;
            };
            tokio::select! {
                () = limit => self.process.drain,
                () = hurry => step_down,
            }
        };
        let drained = tokio::select! {
            () = ended(&mut running, &tasks) => None,
            limit = drain => Some(limit),
        };
        if !lost.is_cancelled() {
            self.context.events.drain(EVENTS_GRACE).await;
        }
        // A call that was stuck before the stop may still run without its worker.
        let Some(limit) = drained else { return self.call_tracker.left_behind() == 0 };
        tracing::warn!(controller = %workers.controller.controller, calls = self.call_tracker.calls(), "the drain time of {limit:?} is over: the running handler calls are aborted");
        tasks.abort.cancel();
        let grace = if lost.is_cancelled() { self.before_the_next_term(ABORT_GRACE) } else { ABORT_GRACE };
        let has_ended = timeout(grace, ended(&mut running, &tasks)).await.is_ok();
        if !has_ended {
            // A call that blocks its thread counts for the watchdog, and for its shard, until it ends.
            tokio::spawn(async move { ended(&mut running, &tasks).await }.boxed());
        }
        has_ended && self.call_tracker.left_behind() == 0
    }

    /// A grace after a lost term, so short that two of them end before another replica
    /// may begin.
    fn before_the_next_term(&self, grace: Duration) -> Duration {
        if self.leadership.expires() { grace.min(self.margin / 3) } else { grace }
    }

    fn workers(&self, handlers: Handlers) -> Arc<Workers> {
        let config = &self.controller.config;
        let lookup = self.controller.lookup(&self.context);
        let (handler, unselected) = match self.controller.finalizing(&handlers, &self.context) {
            Some(finalizing) => {
                let unselected = self.watching.unselected();
                let unselected =
                    unselected.map(|all| Arc::new(UnselectedObjects { finalizing: finalizing.clone(), all }));
                (Arc::new(finalizing) as Arc<dyn DynHandler>, unselected)
            }
            None => (handlers.handler, None),
        };
        let forgotten_finalizers = lookup.clone().filter(|_| config.ignores_deletion());
        let forgotten_finalizers =
            forgotten_finalizers.map(|lookup| ForgottenFinalizers::new(lookup, self.names.managers.clone()));
        let tombstones = &self.tombstones;
        let deletions = |function| Deletions {
            tombstones: tombstones.clone(),
            function,
            lookup: lookup.filter(|_| config.may_leave()),
        };
        Arc::new(Workers {
            controller: self.context.clone(),
            functions: Functions {
                handler,
                wants: self.controller.wants(),
                paused: self.controller.paused().zip(handlers.paused),
                while_deleting: config.while_deleting,
                forgotten_finalizers,
                deleted: handlers.deleted.map(deletions),
                finalizers: config.finalizers(),
                unselected,
            },
            limits: CallLimits { workers: config.workers, timeout: config.timeout, stuck_after: config.stuck_after },
            daemons: self.watching.daemons.clone(),
            call_tracker: self.call_tracker.clone(),
            observer: self.observer.clone(),
            executor: self.process.executor.clone(),
            leadership: self.leadership.clone(),
            tasks: Tasks::default(),
            grants: self.grants.clone(),
        })
    }

    /// Builds the state and the handler, and retries as long as `init` fails.
    async fn handlers(&self) -> Handlers {
        self.starting.begins();
        let mut failures = 0;
        loop {
            match self.build().await {
                Ok(handlers) => {
                    self.starting.over();
                    return handlers;
                }
                Err(error) => self.pause("init", &error, &mut failures).await,
            }
        }
    }

    /// Calls `init`, and builds the functions.
    async fn build(&self) -> Result<Handlers, String> {
        let parts = self.controller.parts.clone();
        let context = InitContext { controller: self.context.clone(), shared: self.shared.clone() };
        let building = self.process.executor.spawn(async move { parts.handlers(context).await });
        self.call_tracker.initializes(&building.poll_time());
        match building.await {
            Ok(built) => built.map_err(|error| error::chain(&*error)),
            Err(error) => Err(error.text()),
        }
    }

    /// Waits for the end of an `init` that was aborted; `false` if it blocks its thread.
    async fn init_ended(&self) -> bool {
        let ended = async {
            while self.call_tracker.is_initializing() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(self.before_the_next_term(ABORT_GRACE), ended).await.is_ok()
    }

    async fn pause(&self, what: &str, error: &str, failures: &mut u32) {
        *failures += 1;
        let wait = INIT_BACKOFF.delay(*failures);
        tracing::error!(controller = self.controller.name(), retry_in = ?wait, "`{what}` failed: {error}");
        self.starting.failed(what, error);
        sleep(wait).await;
    }

    fn worker_gauges(&self) {
        let max = self.controller.config.workers as f64;
        self.gauge(Gauge::MaxWorkers, move || max);
        let call_tracker = || self.call_tracker.clone();
        let (active, unfinished, longest, stuck) = (call_tracker(), call_tracker(), call_tracker(), call_tracker());
        self.gauge(Gauge::ActiveWorkers, move || active.calls());
        self.gauge(Gauge::UnfinishedWork, move || unfinished.unfinished());
        self.gauge(Gauge::LongestRunning, move || longest.longest());
        self.gauge(Gauge::StuckCalls, move || stuck.stuck() as f64);
    }

    fn gauge(&self, gauge: Gauge, read: impl Fn() -> f64 + Send + Sync + 'static) {
        watching::gauge(&*self.process.metrics, self.controller.name(), gauge, Box::new(read));
    }
}

/// Waits until workers and the tasks of calls have ended.
async fn ended(workers: &mut Vec<Task<()>>, tasks: &Tasks) {
    while let Some(worker) = workers.last_mut() {
        // A worker catches its panics.
        let _ = worker.await;
        workers.pop();
    }
    tasks.ended().await;
}
