//! Workers: each takes a key from the queue, calls the handler, and gives the key back.

mod call_tracker;
mod daemons;
mod finish;
mod functions;
mod grants;
mod tombstones;
mod undecodable;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::context::TokioContext;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::call::Gone;
use crate::call::attempt::{Attempt, CallOutcome, CallResult, Failure, Part};
use crate::call::context::ControllerContext;
use crate::call::observer::Observers;
use crate::call::{Call, Tasks};
use crate::error::panicking::{Panic, caught};
use crate::executor::{Executor, Task};
use crate::leader::Leadership;
use crate::leader::shard::{ShardTerm, Work};
use crate::object::key::ObjectKey;
use crate::queue::reason::Reason;
use crate::queue::{Completion, Item, Lane, NextRun, Ticket};

pub(crate) use call_tracker::CallTracker;
pub use call_tracker::Running;
pub(crate) use daemons::Daemons;
pub(crate) use functions::{Deletions, Functions};
pub(crate) use grants::{Grants, is_in_one_of};
pub(crate) use tombstones::{Tombstone, Tombstones};
pub(crate) use undecodable::Undecodable;

use finish::{TaskResult, ended_as};
use grants::GrantDenial;

/// Maximum time for a cancelled call to clean up before it is aborted.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// The workers of one controller.
pub(crate) struct Workers {
    /// The controller: its name, queue, caches and Events.
    pub(crate) controller: Arc<ControllerContext>,
    pub(crate) functions: Functions,
    pub(crate) limits: CallLimits,
    /// Set if each call runs until its object changes.
    pub(crate) daemons: Option<Arc<Daemons>>,
    /// The calls that run now, those of an earlier term included.
    pub(crate) call_tracker: Arc<CallTracker>,
    /// Observes the calls.
    pub(crate) observer: Arc<Observers>,
    /// Where the calls run.
    pub(crate) executor: Executor,
    /// Handlers run only while leadership is held.
    pub(crate) leadership: Leadership,
    /// Cancels running calls and the tasks that they started, and aborts them.
    pub(crate) tasks: Tasks,
    /// Which objects are handled, and how often.
    pub(crate) grants: Arc<Grants>,
}

/// Limits on the number of concurrent calls and on their duration.
pub(crate) struct CallLimits {
    pub(crate) workers: usize,
    pub(crate) timeout: Option<Duration>,
    /// A call that has not ended so long after it was aborted is stuck.
    pub(crate) stuck_after: Duration,
}

impl Workers {
    /// Starts the workers on the threads of their calls: a change wakes one thread. Their timers, and what they spawn, are
    /// those of the operator, which no user's code can block.
    pub(crate) fn start(self: &Arc<Self>) -> Vec<Task<()>> {
        let work = || TokioContext::new(self.clone().work(), Handle::current());
        (0..self.limits.workers).map(|_| self.executor.spawn(work())).collect()
    }

    /// Runs one worker until it is asked to stop.
    async fn work(self: Arc<Self>) {
        while let Some(Some(item)) = self.tasks.stopping.run_until_cancelled(self.controller.queue.get()).await {
            let (key, ticket) = (item.key.clone(), item.ticket);
            self.contain(&key, ticket, self.process(item)).await;
        }
    }

    /// Does the work around the call of a key. If that panics, the key is given back, unless it was before. A handler's
    /// panic is caught with its call. This one is a filter's, an error's text or the runtime's, and must not cost a
    /// worker or a key.
    async fn contain(&self, key: &ObjectKey, ticket: Ticket, work: impl Future<Output = ()>) {
        if let Err(Panic { message: text, .. }) = caught(work).await {
            tracing::error!(controller = %self.name(), %key, "a worker panicked outside the handler: {text}; the key is retried");
            self.give_back(key, ticket, Completion::Failure);
        }
    }

    async fn process(self: &Arc<Self>, item: Item) {
        let functions = &self.functions;
        self.observer.each(|one| one.taken(&item));
        let Some(was_deleted) = self.call_deleted(&item).await else { return };
        let started = Instant::now();
        if !self.may_run().await {
            self.give_back(&item.key, item.ticket, Completion::Skipped);
            return;
        }
        let daemon = self.daemons.as_ref().map(|daemons| daemons.begin(&item.key));
        let own = self.controller.own.get(&item.key);
        let unselected = functions.unselected.as_ref().filter(|_| own.is_none());
        let marked = unselected.and_then(|unselected| Some((unselected, unselected.get(&item.key)?)));
        let object = own.as_ref().or(marked.as_ref().map(|(_, object)| object));
        // `deleted` may wait for the shard of another object of the name.
        let waits = functions.deleted.as_ref().is_some_and(|deleted| deleted.tombstones.contains(&item.key));
        let granted = object.map_or(Ok(None), |object| self.grants.granted(&item.key, object, waits));
        let Ok(work) = granted else {
            self.give_back(&item.key, item.ticket, Completion::Refused);
            return;
        };
        let shard = work.as_ref().map(Work::term).cloned();
        let (call, token) = self.call(&item, shard.clone());
        let (part, uid, future): (_, _, BoxFuture<'static, CallResult>) = match own {
            Some(object) if functions.ignores(&object) => {
                self.observer.each(|one| one.ignored(&item.key));
                if let Some(forgotten_finalizers) = &functions.forgotten_finalizers
                    // Boxed: every worker would have room for its request, also while it waits for a key.
                    && let Some(Some(finalizer)) = self
                        .tasks
                        .stopping
                        .run_until_cancelled(forgotten_finalizers.examine(&object, &self.controller.own).boxed())
                        .await
                {
                    self.observer.each(|one| one.forgotten_finalizers(&object, &finalizer));
                }
                self.give_back(&item.key, item.ticket, Completion::Skipped);
                return;
            }
            Some(object) => {
                let (part, uid) = (functions.part_of(&object), object.uid().into());
                let (wants, handler, paused) =
                    (functions.wants.clone(), functions.handler.clone(), functions.paused.clone());
                let calling = async move {
                    if wants(&object) {
                        return handler.call(object, call).await.map(CallOutcome::Done);
                    }
                    if let Some((_, function)) = paused.filter(|(is_paused, _)| is_paused(&object)) {
                        function.call(object, call).await.map(drop)?;
                    }
                    Ok(CallOutcome::Unwanted)
                };
                (part, uid, Box::pin(calling))
            }
            None => {
                let Some((unselected, object)) = marked else {
                    // The call of `deleted` has counted.
                    let took = (!was_deleted).then(|| started.elapsed());
                    return self.gone(&item.key, item.ticket, took);
                };
                let (part, uid) = (functions.part_of_unselected(&object), object.uid().into());
                let unselected = unselected.clone();
                (part, uid, Box::pin(async move { unselected.handle(&object, call).await }))
            }
        };
        let attempt = self.attempt(&item, part, uid, work);
        if let Some(daemon) = daemon {
            self.run_daemon(daemon, attempt, token, shard.as_ref(), future);
            return;
        }
        if let Some(ended) = self.run_call(&attempt, token, shard_ended(shard), future).await {
            self.finish(&attempt, &ended);
        }
    }

    fn name(&self) -> &Arc<str> {
        &self.controller.controller
    }

    /// Waits until leadership is held. Returns `false` if no call may start, because
    /// the workers stop. Leadership may lapse for a moment until a late renewal
    /// arrives. After a loss of leadership, the next leader, which may be this replica
    /// again, starts with every key.
    async fn may_run(&self) -> bool {
        let held = self.leadership.is_held()
            || self.tasks.stopping.run_until_cancelled(self.leadership.held()).await.is_some();
        held && !self.tasks.stopping.is_cancelled()
    }

    /// Gives a key back to the queue, once; returns when it runs next.
    fn give_back(&self, key: &ObjectKey, ticket: Ticket, completion: Completion) -> NextRun {
        let completion = if self.grants.admission.repeats() { completion } else { completion.once() };
        let returned = self.controller.queue.finish(ticket, completion);
        self.grants.admission.returned(key);
        returned
    }

    /// Calls `deleted` for each removed object of the key that may be handled now, once each, and returns
    /// whether there was one. `None` if that must stop: the key is given back now, or when a stuck call ends.
    async fn call_deleted(self: &Arc<Self>, item: &Item) -> Option<bool> {
        let Some(deleted) = &self.functions.deleted else { return Some(false) };
        let (mut called, mut later) = (false, Vec::new());
        let goes_on = loop {
            if !self.may_run().await {
                self.give_back(&item.key, item.ticket, Completion::Skipped);
                break false;
            }
            let Some(tombstone) = deleted.tombstones.take(&item.key) else { break true };
            let work = match self.grants.granted_deleted(&item.key, &tombstone.object) {
                Ok(granted) => granted,
                Err(GrantDenial::Later) => {
                    later.push(tombstone);
                    continue;
                }
                Err(GrantDenial::Never) => continue,
            };
            let Tombstone { object, gone, awaited } = tombstone;
            // From now on the call counts.
            drop(awaited);
            let shard = work.as_ref().map(Work::term).cloned();
            let attempt = self.attempt(item, Part::Deleted, object.uid().into(), work);
            let (call, token) = self.call(item, shard.clone());
            let (lookup, function) = (deleted.lookup.clone(), deleted.function.clone());
            let calling = async move {
                let gone = match lookup {
                    Some(lookup) if gone == Gone::Deleted => lookup.how_gone(&object).await,
                    _ => gone,
                };
                function(object, gone, call).await.map(CallOutcome::Done)
            };
            let Some(ended) = self.run_call(&attempt, token, shard_ended(shard), Box::pin(calling)).await else {
                break false;
            };
            called = true;
            self.end_deleted(&attempt, &ended);
        };
        for tombstone in later {
            let object = Arc::clone(&tombstone.object);
            deleted.tombstones.add(&item.key, tombstone);
            // A shard that was gained in the meantime has queued only the keys of the other tombstones.
            if self.grants.granted_deleted(&item.key, &object).is_ok() {
                self.controller.queue.add(&item.key, Lane::Background, Reason::Shard);
            }
        }
        goes_on.then_some(called)
    }

    /// Notifies the observers of the end of a call of `deleted`.
    fn end_deleted(&self, attempt: &Attempt, ended: &CallResult) {
        let (failure, took) = (ended.as_ref().err(), attempt.started.elapsed());
        self.observer.each(|one| one.deleted(attempt, failure, took));
    }

    fn attempt(&self, item: &Item, part: Part, uid: Arc<str>, work: Option<Work>) -> Attempt {
        // Signed, because OpenTelemetry has no other integers.
        let span = tracing::info_span!(
            "call", controller = %self.name(), key = %item.key, attempt = i64::from(item.attempt), reasons = %item.reasons,
            otel.status_code = tracing::field::Empty,
        );
        Attempt {
            key: item.key.clone(),
            ticket: item.ticket,
            part,
            uid,
            number: item.attempt,
            started: Instant::now(),
            span,
            work,
        }
    }

    fn call(&self, item: &Item, shard: Option<Arc<dyn ShardTerm>>) -> (Call, CancellationToken) {
        let token = self.tasks.stopping.child_token();
        let (key, reasons) = (item.key.clone(), item.reasons.clone());
        let call = Call::new(self.name().clone(), key, item.attempt, reasons, token.clone(), self.tasks.clone());
        (Call { dry_run: self.grants.admission.is_dry_run(), shard, ..call }, token)
    }

    /// Runs a call until it ends or its time is over, or until `over`. `None` if it is
    /// stuck: its key is given back when it ends.
    async fn run_call(
        self: &Arc<Self>,
        attempt: &Attempt,
        token: CancellationToken,
        over: impl Future<Output = Failure>,
        future: BoxFuture<'static, CallResult>,
    ) -> Option<CallResult> {
        // Dropping the operator cancels its calls.
        let _cancel = token.clone().drop_guard();
        let mut task = self.executor.spawn_next(caught(future).instrument(attempt.span.clone()));
        let running = self.call_tracker.start(attempt.started, &attempt.key, attempt.number, task.poll_time());
        let limit = async {
            match self.limits.timeout {
                Some(limit) => sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let failure = tokio::select! {
            biased;
            ended = &mut task => return Some(ended_as(ended, Failure::Stopped)),
            failure = over => failure,
            () = limit => Failure::Timeout(self.limits.timeout.unwrap_or_default()),
            () = self.tasks.abort.cancelled() => if self.leadership.is_held() { Failure::Stopped } else { Failure::Ended },
        };
        token.cancel();
        if matches!(failure, Failure::Timeout(_))
            && let Ok(ended) = timeout(CANCEL_GRACE, &mut task).await
        {
            return Some(ended_as(ended, failure));
        }
        task.abort();
        match timeout(self.limits.stuck_after, &mut task).await {
            Ok(ended) => Some(ended_as(ended, failure)),
            Err(_elapsed) => {
                self.detach_stuck(attempt.clone(), task, failure, running).await;
                None
            }
        }
    }

    /// Handles a call that does not end. Its key stays locked until it does.
    /// This worker takes the next key meanwhile, unless more calls are stuck
    /// than there are workers.
    async fn detach_stuck(
        self: &Arc<Self>,
        attempt: Attempt,
        task: Task<TaskResult>,
        failure: Failure,
        running: call_tracker::TrackedCall,
    ) {
        let stuck = running.leave_behind();
        self.observer.each(|one| one.stuck(&attempt, &failure, self.limits.stuck_after, stuck));
        let workers = self.clone();
        let rest = async move {
            let end = async {
                let ended = task.await;
                drop(running);
                // Another object of the name may wait for its handler, and the object of a daemon has changed.
                workers.finish_detached(&attempt, &ended_as(ended, failure), Some(Duration::ZERO));
            };
            workers.contain(&attempt.key, attempt.ticket, end).await;
        };
        if stuck <= self.limits.workers {
            tokio::spawn(rest.boxed());
        } else {
            rest.await;
        }
    }
}

/// Waits until another replica may work on the objects of a shard.
async fn shard_ended(shard: Option<Arc<dyn ShardTerm>>) -> Failure {
    match shard {
        Some(shard) => shard.ended().cancelled().await,
        None => std::future::pending().await,
    }
    Failure::Ended
}

#[cfg(test)]
mod tests;
