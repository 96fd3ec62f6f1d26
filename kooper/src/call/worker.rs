//! Takes keys off the queue and calls the handler, one key at a time each.

mod busy;
mod failing;
mod failure;
mod report;
mod tombstones;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::call::action::Action;
use crate::call::extract::{Backing, Gone};
use crate::call::finalizer::{Finalizers, Left, Unselected};
use crate::call::handler::{CallError, Erased, Farewell, Wants};
use crate::call::lookup::Lookup;
use crate::call::{Call, Tasks};
use crate::leader::Leadership;
use crate::metrics::{Counter, MetricsRecorder};
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::queue::reason::Reason;
use crate::queue::{Item, Outcome, Returned, Ticket, WorkQueue};
use crate::watch::store::Cache;

pub(crate) use busy::Busy;
pub(crate) use failing::Failing;
pub(crate) use tombstones::Tombstones;

use failure::{Ended, Failure, Part, ended_as};

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
    /// The filter, asked before the queue and again before each call.
    pub(crate) wants: Wants,
    /// Told of what vanished.
    pub(crate) deleted: Option<(Arc<Tombstones>, Farewell)>,
    /// Objects with our finalizer outside of the selector.
    pub(crate) unselected: Option<Arc<Unselected>>,
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
    /// The keys whose last call failed.
    pub(crate) failing: Arc<Failing>,
    /// The finalizers of the controller, if it cleans up.
    pub(crate) finalizers: Option<Finalizers>,
    /// Whether the controller may write Kubernetes Events.
    pub(crate) records_events: bool,
}

/// What a call came to: `None` where there was no object to call a handler with.
type Called = Result<Option<Action>, CallError>;

impl Workers {
    /// One worker: until it is asked to end.
    pub(crate) async fn work(self: Arc<Self>) {
        while let Some(Some(item)) = self.tasks.stopping.run_until_cancelled(self.queue.get()).await {
            let (key, ticket) = (item.key.clone(), item.ticket);
            // A handler's panic is caught with its call; this is one of a
            // filter or of the runtime, and no reason to lose a worker.
            if AssertUnwindSafe(self.process(item)).catch_unwind().await.is_err() {
                tracing::error!(controller = %self.name, %key, "a worker panicked outside the handler: the key is retried");
                self.give_back(ticket, Outcome::Failure);
            }
        }
    }

    async fn process(self: &Arc<Self>, item: Item) {
        self.metrics.observe_in_queue_duration(&self.name, item.waited);
        self.metrics.count(&self.name, Counter::Add);
        if [Reason::Resync, Reason::Requeue].iter().any(|reason| item.reasons.contains(reason)) {
            self.metrics.inc_event_queued(&self.name, false);
        }
        let started = Instant::now();
        if !self.say_farewell(&item).await {
            return;
        }
        if !self.may_run().await {
            self.give_back(item.ticket, Outcome::Skipped);
            return;
        }
        let (call, token) = self.call(&item);
        let future: BoxFuture<'static, Called> = match (self.cache.get(&item.key), &self.unselected) {
            (Some(object), _) if !(self.wants)(&object) => {
                self.failing.forget(&item.key);
                self.give_back(item.ticket, Outcome::Skipped);
                return;
            }
            (Some(object), _) => Box::pin(self.handler.call(object, call).map_ok(Some)),
            (None, Some(unselected)) if unselected.may_have(&item.key) => {
                Box::pin(find(unselected.clone(), self.metrics.clone(), call))
            }
            (None, _) => return self.gone(&item.key, item.ticket, started),
        };
        let job = self.job(&item, self.part(&item.key));
        if let Some(ended) = self.attend(&job, token, future).await {
            self.finish(&job, &ended);
        }
    }

    /// Whether a call may begin. The token may expire for a moment before a
    /// late renewal counts; when it is lost, whoever leads next, this replica
    /// too, begins with every key.
    async fn may_run(&self) -> bool {
        let held = self.leadership.is_held()
            || self.tasks.stopping.run_until_cancelled(self.leadership.held()).await.is_some();
        held && !self.tasks.stopping.is_cancelled()
    }

    /// Gives a key back to the queue, once; returns when it runs next.
    fn give_back(&self, ticket: Ticket, outcome: Outcome) -> Returned {
        self.queue.finish(ticket, outcome)
    }

    /// Hands what vanished to `deleted`, one try each. `false` when that has to
    /// end, and the key is given back, now or when a call that hangs ends.
    async fn say_farewell(self: &Arc<Self>, item: &Item) -> bool {
        let Some((tombstones, farewell)) = &self.deleted else { return true };
        loop {
            if !self.may_run().await {
                self.give_back(item.ticket, Outcome::Skipped);
                return false;
            }
            let Some((object, gone)) = tombstones.take(&item.key) else { return true };
            let job = self.job(item, Part::Deleted);
            let (call, token) = self.call(item);
            let (lookup, farewell) = (self.lookup.clone(), farewell.clone());
            let told = async move {
                let gone = match lookup {
                    Some(lookup) if gone == Gone::Deleted => lookup.how_gone(&object).await,
                    _ => gone,
                };
                farewell(object, gone, call).await.map(Some)
            };
            let Some(ended) = self.attend(&job, token, Box::pin(told)).await else { return false };
            if let Err(failure) = ended {
                job.span.in_scope(|| {
                    let text = failure.of(job.part);
                    tracing::error!(key = %item.key, "{text}; it is not called again for this object");
                });
            }
        }
    }

    /// The object of a key, selected or not.
    fn object(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.cache.get(key).or_else(|| self.unselected.as_ref()?.all.get(key))
    }

    /// Which fn the next call of a key is for.
    fn part(&self, key: &ObjectKey) -> Part {
        let Some(finalizers) = &self.finalizers else { return Part::Handler };
        let cleans = match self.cache.get(key) {
            Some(object) => finalizers.hold(&object),
            None => self.object(key).is_some_and(|object| finalizers.concern(&object)),
        };
        if cleans { Part::Cleanup } else { Part::Handler }
    }

    fn job(&self, item: &Item, part: Part) -> Job {
        // Signed, as OpenTelemetry knows no other numbers.
        let span = tracing::info_span!(
            "call", controller = %self.name, key = %item.key, attempt = i64::from(item.attempt), reasons = %item.reasons,
            otel.status_code = tracing::field::Empty,
        );
        Job { key: item.key.clone(), ticket: item.ticket, part, attempt: item.attempt, started: Instant::now(), span }
    }

    fn call(&self, item: &Item) -> (Call, CancellationToken) {
        let token = self.tasks.stopping.child_token();
        let (key, reasons) = (item.key.clone(), item.reasons.clone());
        (Call::new(self.name.clone(), key, item.attempt, reasons, token.clone(), self.tasks.clone()), token)
    }

    /// Runs a call to its end, or to the end of the time that it has. `None`
    /// when it is left behind: then its key is given back when it ends.
    async fn attend(
        self: &Arc<Self>,
        job: &Job,
        token: CancellationToken,
        future: BoxFuture<'static, Called>,
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
        handle: AbortOnDropHandle<Called>,
        failure: Failure,
        running: busy::Guard,
    ) {
        let stuck = self.busy.left_behind();
        job.span.in_scope(|| {
            tracing::error!(
                key = %job.key,
                stuck,
                "{} has not ended {:?} after it was cancelled ({}): it blocks its thread, or never awaits; its key waits for it. Use tokio::task::spawn_blocking for blocking work",
                job.part,
                self.stuck_after,
                failure.of(job.part)
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
}

/// Deals with a key that is not among the selected ones.
async fn find(unselected: Arc<Unselected>, metrics: Arc<dyn MetricsRecorder>, call: Call) -> Called {
    match unselected.find(call.key()).await.map_err(CallError::Handler)? {
        Left::Nothing => Ok(None),
        Left::CleanUp(object, handler) => handler.call(object, call).await.map(Some),
        Left::Abandoned(object) => {
            metrics.count(call.controller(), Counter::Abandoned);
            unselected.tell(&object);
            Ok(None)
        }
    }
}

/// What is remembered of a call beside its task.
#[derive(Clone)]
struct Job {
    key: ObjectKey,
    ticket: Ticket,
    part: Part,
    attempt: u32,
    started: Instant,
    span: tracing::Span,
}
