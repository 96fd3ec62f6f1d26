//! The controllers of a history, as a process that is killed and started again.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::recorder::{self, HistoryRecorder, StopTokens};
use crate::Cluster;
use crate::cluster::pause;
use kooper_access::{ConfigError, Controller, RunError};
use kooper_runtime::internal::error::chain;
use kooper_runtime::metrics::{Counter, MetricsError, MetricsRecorder, ReadGauge};
use kooper_runtime::{Health, ObjectKey, Result};
use kooper_sharding::Shards;

/// Time between the kill of a process and its restart.
const DOWN: Duration = Duration::from_secs(1);

/// Maximum time until the controllers are ready, all restarts included.
const START: Duration = Duration::from_secs(3600);

/// The time for which two processes share the shards before the first one stops.
const SHARED: Duration = Duration::from_secs(100);

/// Makes the controllers of a new process.
pub(super) type Make = Arc<dyn Fn() -> Result<Vec<Controller>, ConfigError> + Send + Sync>;

/// The controllers of a history. Dropping it ends them.
pub(super) struct Process {
    shared: Arc<Shared>,
    running: JoinHandle<()>,
}

/// The state that survives restarts of the process.
struct Shared {
    cluster: Cluster,
    make: Make,
    recorder: Arc<HistoryRecorder>,
    calls: Arc<Calls>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// That of the current life.
    health: Option<Health>,
    /// Senders that queue keys at the controllers, each with the group and the resource of its
    /// kind.
    wakers: Vec<(String, String, UnboundedSender<ObjectKey>)>,
    /// Why there is no further life.
    ended: Option<String>,
}

/// One life of the process.
struct RunningProcess {
    ends: StopTokens,
    /// Stops it in order.
    stop: CancellationToken,
    running: JoinHandle<Result<(), RunError>>,
}

impl Process {
    /// Starts the controllers, and starts them again whenever a crash has ended them. Returns when they are ready.
    pub(super) async fn start(cluster: Cluster, make: Make, recorder: Arc<HistoryRecorder>) -> Result<Self> {
        let mut controllers = make()?;
        if controllers.is_empty() {
            return Err(RunError::NoControllers.into());
        }
        cluster.prepare(&mut controllers).await?;
        let calls = Arc::new(Calls { recorder: recorder.clone(), dead: Mutex::default() });
        let shared = Arc::new(Shared { cluster, make, recorder, calls, state: Mutex::default() });
        let first = shared.begin(controllers)?;
        let lives = shared.clone();
        let running = tokio::spawn(async move {
            let why = lives.live(first).await;
            lives.state.lock().ended = Some(why);
        });
        let process = Self { shared, running };
        process.ready().await?;
        Ok(process)
    }

    async fn ready(&self) -> Result<()> {
        let since = Instant::now();
        loop {
            if let Some(why) = self.ended() {
                return Err(format!("the controllers ended: {why}").into());
            }
            let health = self.shared.state.lock().health.clone();
            let ready = health.map_or_else(|| Err("they were killed".to_owned()), |health| health.ready());
            let Err(problem) = ready else { return Ok(()) };
            if since.elapsed() >= START {
                return Err(format!("the controllers are not ready within {START:?}: {}", problem.trim_end()).into());
            }
            pause(since).await;
        }
    }

    /// Queues these objects, by group, resource and key, at the controllers that handle them.
    pub(super) fn wake(&self, objects: &[(String, String, ObjectKey)]) {
        for (group, resource, waker) in &self.shared.state.lock().wakers {
            let own = objects.iter().filter(|(of, name, _)| of == group && name == resource);
            for (_, _, key) in own {
                // A process that was killed receives nothing.
                let _ = waker.send(key.clone());
            }
        }
    }

    /// Returns whether a controller handles the objects of a resource.
    pub(super) fn handles(&self, group: &str, resource: &str) -> bool {
        self.shared.state.lock().wakers.iter().any(|(of, name, _)| of == group && name == resource)
    }

    /// Why the controllers run no more, if so.
    pub(super) fn ended(&self) -> Option<String> {
        self.shared.state.lock().ended.clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Shared {
    /// Begins another life of the process, with nothing that the last one knew.
    fn begin(&self, mut controllers: Vec<Controller>) -> Result<RunningProcess> {
        let (health, ends, stop) = (Health::default(), StopTokens::default(), CancellationToken::new());
        let mut wakers = Vec::new();
        for controller in &mut controllers {
            // There is one process, and the next one does not have to wait for the Lease of the last one. The
            // renewals of so many minutes would take most of a history's time.
            controller.set_leader_election(None)?;
            if self.recorder.has_shards() {
                controller.edit_shards(renewed_rarely);
            } else {
                controller.remove_shards();
            }
            // In one process, protobuf is only a detour from JSON to JSON.
            controller.set_json_only(true);
            if controller.is_daemon() {
                continue;
            }
            let (waker, mut keys) = unbounded_channel();
            let kind = controller.kind_info();
            wakers.push((kind.group.clone(), kind.plural.clone(), waker));
            controller.add_source(stream::poll_fn(move |context| keys.poll_recv(context)).boxed());
        }
        self.calls.begin(&ends.dead);
        let (cluster, recorder) = (self.cluster.clone(), self.recorder.clone());
        let operator = cluster.operator(cluster.controllers_client()?, controllers).health(health.clone());
        let operator = operator.client_layer(recorder::layer(cluster, ends.clone(), recorder));
        let operator = operator.metrics(self.calls.clone()).build()?;
        self.cluster.note_controllers(&health);
        let mut state = self.state.lock();
        (state.health, state.wakers) = (Some(health), wakers);
        Ok(RunningProcess { ends, running: tokio::spawn(operator.run(stop.clone())), stop })
    }

    /// Begins another life, and ends this one when both have shared the shards, as in a roll-out.
    async fn replace(&self, life: &mut RunningProcess) -> Result<RunningProcess> {
        let next = self.begin((self.make)()?)?;
        sleep(SHARED).await;
        life.stop.cancel();
        (&mut life.running).await??;
        Ok(next)
    }

    /// Lives until a life ends by itself, or never should have been so long. Returns why there is no further life.
    async fn live(&self, mut life: RunningProcess) -> String {
        loop {
            let mut replaced = None;
            tokio::select! {
                biased;
                () = life.ends.dead.cancelled() => {
                    life.running.abort();
                    drop((&mut life.running).await);
                }
                () = life.ends.replaced.cancelled() => replaced = Some(self.replace(&mut life).await),
                ended = &mut life.running => return match ended {
                    Ok(Ok(())) => "none of them runs".to_owned(),
                    Ok(Err(error)) => chain(&error),
                    Err(error) => error.to_string(),
                },
            }
            if self.recorder.has_endless_writes() {
                return "they never stop writing".to_owned();
            }
            if self.recorder.has_endless_calls() {
                return "handler calls never stop".to_owned();
            }
            let next = match replaced {
                Some(next) => next,
                None => {
                    {
                        let mut state = self.state.lock();
                        state.health = None;
                        state.wakers.clear();
                    }
                    sleep(DOWN).await;
                    (self.make)().map_err(Into::into).and_then(|controllers| self.begin(controllers))
                }
            };
            match next {
                Ok(next) => life = next,
                Err(error) => return chain(&*error),
            }
        }
    }
}

/// The renewals of the default timings would take most of a history's time.
fn renewed_rarely(shards: Shards) -> Shards {
    let [lease, deadline, retry] = [150, 100, 20].map(Duration::from_secs);
    shards.lease_duration(lease).renew_deadline(deadline).retry_period(retry)
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Counts the calls of all controllers, and ends a life that has too many.
struct Calls {
    recorder: Arc<HistoryRecorder>,
    dead: Mutex<CancellationToken>,
}

impl Calls {
    fn begin(&self, dead: &CancellationToken) {
        *self.dead.lock() = dead.clone();
    }
}

impl MetricsRecorder for Calls {
    fn inc_event_queued(&self, _: &str, _: bool) {}

    fn observe_in_queue_duration(&self, _: &str, _: Duration) {}

    fn observe_processing_duration(&self, _: &str, success: bool, _: Duration) {
        if !success {
            self.recorder.calls.lock().failed += 1;
        }
    }

    fn count(&self, _: &str, counter: Counter) {
        if counter == Counter::Panic {
            self.recorder.calls.lock().panicked += 1;
        }
    }

    fn register_queue_length(&self, _: &str, _: ReadGauge) -> Result<(), MetricsError> {
        Ok(())
    }

    fn observe_work_duration(&self, _: &str, _: Duration) {
        self.recorder.calls.lock().all += 1;
        if self.recorder.has_endless_calls() {
            self.dead.lock().cancel();
        }
    }
}
