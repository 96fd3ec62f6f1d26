//! Takes keys off the queue and calls the handler, one key at a time each.

mod busy;
mod tombstones;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::action::Action;
use crate::call::{Call, Tasks};
use crate::error::{self, BoxError, Wish};
use crate::extract::{Backing, Gone};
use crate::finalizer::{Left, Unselected};
use crate::handler::{CallError, Erased, Farewell, Wants};
use crate::key::ObjectKey;
use crate::leader::Leadership;
use crate::lookup::Lookup;
use crate::metrics::{Counter, MetricsRecorder};
use crate::object::{DecodeError, Object};
use crate::queue::{Item, Outcome, WorkQueue};
use crate::reason::Reason;
use crate::store::Cache;
use crate::writes::{Echo, Write};

pub(crate) use busy::Busy;
pub(crate) use tombstones::Tombstones;

/// How long a call may tidy up between its cancellation and its end by force.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// The workers of one controller.
pub(crate) struct Workers {
    pub(crate) name: Arc<str>,
    pub(crate) queue: Arc<WorkQueue>,
    /// The controller's own objects.
    pub(crate) cache: Cache,
    pub(crate) backing: Arc<Backing>,
    pub(crate) handler: Arc<dyn Erased>,
    /// The filter before the queue, which resync and a new term pass too.
    pub(crate) wants: Wants,
    /// Told of what vanished.
    pub(crate) deleted: Option<(Arc<Tombstones>, Farewell)>,
    /// Objects with our finalizer outside of the selector.
    pub(crate) unselected: Option<Unselected>,
    /// Tells whether what vanished has left the selector, where there is one.
    pub(crate) lookup: Option<Lookup>,
    /// Whether handlers may run.
    pub(crate) leadership: Leadership,
    pub(crate) metrics: Arc<dyn MetricsRecorder>,
    pub(crate) limit: usize,
    pub(crate) timeout: Option<Duration>,
    /// A call that outlives its cancellation by so long is stuck.
    pub(crate) stuck_after: Duration,
    /// A failure that is retried counts as success in Kooper's own series, as
    /// in Kooper for Go.
    pub(crate) retried_is_success: bool,
    /// Asks running calls and the tasks that they left to end, and ends them.
    pub(crate) tasks: Tasks,
    /// What runs now, in this term and what an earlier one left behind.
    pub(crate) busy: Arc<Busy>,
}

/// Why a call failed.
#[derive(Debug)]
enum Failure {
    Handler(BoxError),
    Decode(DecodeError),
    Panic(String),
    Timeout(Duration),
    /// The drain time is over.
    Stopped,
}

type Ended = Result<Action, Failure>;

impl Workers {
    /// One worker: until it is asked to end.
    pub(crate) async fn work(self: Arc<Self>) {
        while let Some(Some(item)) = self.tasks.stopping.run_until_cancelled(self.queue.get()).await {
            let key = item.key.clone();
            // A handler's panic is caught with its call; this is one of a
            // filter or of the runtime, and no reason to lose a worker.
            if AssertUnwindSafe(self.process(item)).catch_unwind().await.is_err() {
                tracing::error!(controller = %self.name, %key, "a worker panicked outside the handler: the key is retried");
                self.queue.finish(&key, Outcome::Failure);
            }
        }
    }

    async fn process(self: &Arc<Self>, item: Item) {
        self.metrics.observe_in_queue_duration(&self.name, item.waited);
        self.metrics.count(&self.name, Counter::Add);
        if [Reason::Resync, Reason::Requeue].iter().any(|reason| item.reasons.contains(reason)) {
            self.metrics.inc_event_queued(&self.name, false);
        }
        // The token may expire for a moment before a late renewal counts. When
        // it is lost, whoever leads next, this replica too, begins with every key.
        if !self.leadership.is_held() && self.tasks.stopping.run_until_cancelled(self.leadership.held()).await.is_none()
        {
            self.queue.done(&item.key);
            return;
        }
        let started = Instant::now();
        if !self.say_farewell(&item).await {
            return;
        }
        self.backing.writes.settled(&item.key, |write| self.find_write(write)).await;
        let found = match self.cache.get(&item.key) {
            Some(object) => Ok(Some((object, self.handler.clone()))),
            None => self.find_unselected(&item.key).await,
        };
        let (object, handler) = match found {
            Ok(Some(found)) => found,
            Ok(None) => {
                // The object is gone: counted as Kooper for Go does, though
                // there is nothing to hand to a handler.
                self.queue.finish(&item.key, Outcome::Gone);
                self.metrics.observe_processing_duration(&self.name, true, started.elapsed());
                return;
            }
            Err(error) => return self.finish(&self.job(&item), &Err(Failure::Handler(error))),
        };
        if item.reasons.only_rounds() && !(self.wants)(&object) {
            self.queue.done(&item.key);
            return;
        }
        self.backing.writes.begin(&item.key);
        let job = self.job(&item);
        let (call, token) = self.call(&item);
        let future = handler.call(object, call);
        if let Some(ended) = self.attend(&job, token, future).await {
            self.finish(&job, &ended);
        }
    }

    /// An object with our finalizer that is not among the selected ones, and
    /// who handles it.
    async fn find_unselected(&self, key: &ObjectKey) -> Result<Option<(Arc<Object>, Arc<dyn Erased>)>, BoxError> {
        let Some(unselected) = &self.unselected else { return Ok(None) };
        match unselected.find(key).await? {
            Left::Nothing => Ok(None),
            Left::CleanUp(object, handler) => Ok(Some((object, handler))),
            Left::Abandoned(object) => {
                self.metrics.count(&self.name, Counter::Abandoned);
                unselected.tell(&object);
                Ok(None)
            }
        }
    }

    /// Hands what vanished to `deleted`, one try each. `false` when a call
    /// hangs, and the key with it.
    async fn say_farewell(self: &Arc<Self>, item: &Item) -> bool {
        let Some((tombstones, farewell)) = &self.deleted else { return true };
        for (object, gone) in tombstones.take(&item.key) {
            let gone = match &self.lookup {
                Some(lookup) if gone == Gone::Deleted => lookup.how_gone(&object).await,
                _ => gone,
            };
            let job = self.job(item);
            let (call, token) = self.call(item);
            let Some(ended) = self.attend(&job, token, farewell(object, gone, call)).await else { return false };
            if let Err(failure) = ended {
                job.span.in_scope(|| {
                    tracing::error!(key = %item.key, "`deleted`: {failure}; it is not called again for this object");
                });
            }
        }
        true
    }

    fn job(&self, item: &Item) -> Job {
        let span = tracing::info_span!("call", controller = %self.name, key = %item.key, attempt = item.attempt, reasons = %item.reasons);
        Job { key: item.key.clone(), attempt: item.attempt, started: Instant::now(), span }
    }

    fn call(&self, item: &Item) -> (Call, CancellationToken) {
        let token = self.tasks.stopping.child_token();
        let (key, reasons) = (item.key.clone(), item.reasons.clone());
        (Call::new(self.name.clone(), key, item.attempt, reasons, token.clone(), self.tasks.clone()), token)
    }

    /// Where the cache has an object that a call wrote.
    fn find_write(&self, write: &Write) -> Option<Arc<Object>> {
        if write.cache == self.backing.primary {
            return self.cache.get(&write.object);
        }
        self.backing.cache(write.cache).get(&write.object)
    }

    /// Runs a call to its end, or to the end of the time that it has. `None`
    /// when it is left behind: then its key is given back when it ends.
    async fn attend(
        self: &Arc<Self>,
        job: &Job,
        token: CancellationToken,
        future: BoxFuture<'static, Result<Action, CallError>>,
    ) -> Option<Ended> {
        // Whoever drops the operator ends its calls.
        let _cancel = token.clone().drop_guard();
        let mut handle = AbortOnDropHandle::new(tokio::spawn(future.instrument(job.span.clone())));
        let running = self.busy.start(job.started);
        let limit = async {
            match self.timeout {
                Some(limit) => sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let failure = tokio::select! {
            biased;
            ended = &mut handle => return Some(ended_as(ended, Failure::Stopped)),
            () = limit => Failure::Timeout(self.timeout.unwrap_or_default()),
            () = self.tasks.abort.cancelled() => Failure::Stopped,
        };
        token.cancel();
        if matches!(failure, Failure::Timeout(_))
            && let Ok(ended) = timeout(CANCEL_GRACE, &mut handle).await
        {
            return Some(ended_as(ended, failure));
        }
        handle.abort();
        match timeout(self.stuck_after, &mut handle).await {
            Ok(ended) => Some(ended_as(ended, failure)),
            Err(_elapsed) => {
                self.leave(job.clone(), handle, failure, running).await;
                None
            }
        }
    }

    /// Deals with a call that does not end: its key stays locked until it
    /// does, and this worker takes the next key in its place, as long as
    /// fewer calls than there are workers are left behind so.
    async fn leave(
        self: &Arc<Self>,
        job: Job,
        handle: AbortOnDropHandle<Result<Action, CallError>>,
        failure: Failure,
        running: busy::Guard,
    ) {
        let stuck = self.busy.left_behind();
        job.span.in_scope(|| {
            tracing::error!(
                key = %job.key,
                stuck,
                "the handler has not ended {:?} after it was cancelled ({failure}): it blocks its thread, or never awaits; its key waits for it. Use tokio::task::spawn_blocking for blocking work",
                self.stuck_after
            );
        });
        let workers = self.clone();
        let rest = async move {
            let ended = handle.await;
            drop(running);
            workers.busy.came_back();
            workers.finish(&job, &ended_as(ended, failure));
        };
        if stuck <= self.limit {
            tokio::spawn(rest);
        } else {
            rest.await;
        }
    }

    /// Says what became of a call: to the queue, the metrics and the log.
    fn finish(&self, job: &Job, ended: &Ended) {
        let took = job.started.elapsed();
        let heard = self.backing.writes.end(&job.key);
        let retried = match ended {
            Ok(action) => {
                self.queue.finish_after(&job.key, Outcome::Success(action.delay()), heard != Echo::Silent);
                self.metrics
                    .count(&self.name, if action.delay().is_some() { Counter::RequeueAfter } else { Counter::Success });
                job.span.in_scope(|| tracing::debug!(key = %job.key, ?took, "done"));
                false
            }
            Err(failure) => self.fail(job, failure, heard),
        };
        let success = ended.is_ok() || (retried && self.retried_is_success);
        self.metrics.observe_processing_duration(&self.name, success, took);
        self.metrics.observe_work_duration(&self.name, took);
    }

    fn fail(&self, job: &Job, failure: &Failure, heard: Echo) -> bool {
        let wish = match failure {
            Failure::Handler(error) => error::wish(&**error),
            // The same bytes will not decode next time either.
            Failure::Decode(_) => Wish::Never,
            Failure::Panic(_) | Failure::Timeout(_) | Failure::Stopped => Wish::Retry,
        };
        let outcome = match wish {
            Wish::Retry => Outcome::Failure,
            Wish::After(delay) => Outcome::FailureAfter(delay),
            Wish::Never => Outcome::FailureForGood,
        };
        let retried = self.queue.finish_after(&job.key, outcome, heard == Echo::Foreign);
        self.metrics.count(&self.name, Counter::Error);
        match failure {
            Failure::Decode(_) => self.metrics.count(&self.name, Counter::DecodeError),
            Failure::Panic(_) => self.metrics.count(&self.name, Counter::Panic),
            Failure::Timeout(_) => self.metrics.count(&self.name, Counter::Timeout),
            Failure::Handler(_) | Failure::Stopped => {}
        }
        if wish == Wish::Never {
            self.metrics.count(&self.name, Counter::TerminalError);
        }
        if retried {
            self.metrics.inc_event_queued(&self.name, true);
            self.metrics.count(&self.name, Counter::Retry);
        }
        let next = if retried { "it is retried" } else { "it waits for the object's next change or resync" };
        job.span.in_scope(|| match failure {
            Failure::Decode(_) | Failure::Panic(_) => tracing::error!(key = %job.key, "{failure}; {next}"),
            _ => tracing::warn!(key = %job.key, attempt = job.attempt, "{failure}; {next}"),
        });
        retried
    }
}

/// What is remembered of a call beside its task.
#[derive(Clone)]
struct Job {
    key: ObjectKey,
    attempt: u32,
    started: Instant,
    span: tracing::Span,
}

/// The end of a call's task; one that was ended failed for the reason that it
/// was ended for. What comes after the timeout is too late, success too.
fn ended_as(ended: Result<Result<Action, CallError>, tokio::task::JoinError>, aborted: Failure) -> Ended {
    match ended {
        Ok(_) if matches!(aborted, Failure::Timeout(_)) => Err(aborted),
        Ok(Ok(action)) => Ok(action),
        Ok(Err(CallError::Handler(error))) => Err(Failure::Handler(error)),
        Ok(Err(CallError::Decode(error))) => Err(Failure::Decode(error)),
        Err(error) => Err(match error.try_into_panic() {
            Ok(panic) => Failure::Panic(error::panic_text(&*panic)),
            Err(_cancelled) => aborted,
        }),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(error) => write!(f, "the handler failed: {}", error::chain(&**error)),
            Self::Decode(error) => write!(f, "{error}: the type of the controller does not fit what the cluster holds"),
            Self::Panic(message) => write!(f, "the handler panicked: {message}"),
            Self::Timeout(limit) => {
                write!(f, "the handler took longer than its timeout of {}", kooper_grammar::duration::format(*limit))
            }
            Self::Stopped => f.write_str("the handler was ended: the drain time is over"),
        }
    }
}
