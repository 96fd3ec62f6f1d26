//! One call of a handler: its arguments, what they allow, and the worker that makes it.

pub(crate) mod action;
pub(crate) mod annotations;
pub(crate) mod attempt;
pub(crate) mod children;
pub(crate) mod context;
pub(crate) mod events;
pub(crate) mod extensions;
pub(crate) mod finalizer;
pub(crate) mod handler;
pub(crate) mod lookup;
pub(crate) mod observer;
pub(crate) mod worker;

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;

use futures_util::FutureExt;
use k8s_openapi::jiff::Timestamp;
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use self::extensions::Extensions;
use crate::leader::shard::{SentIn, Shard, ShardTerm, Work};
use crate::object::key::ObjectKey;
use crate::queue::reason::Reasons;

/// The current call of a handler: its key, attempt and reasons. An argument of
/// handlers.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::prelude::*;
///
/// #[kooper::controller(resource = Pod, main = false)]
/// async fn trace(call: Call) {
///     tracing::info!(key = %call.key(), attempt = call.attempt(), reasons = %call.reasons(), "called");
/// }
/// ```
#[derive(Clone)]
pub struct Call {
    controller: Arc<str>,
    key: ObjectKey,
    attempt: u32,
    reasons: Reasons,
    cancelled: CancellationToken,
    tasks: Tasks,
    dry_run: bool,
    /// It writes only in this term.
    shard: Option<Arc<dyn ShardTerm>>,
    /// Values that arguments keep for this call.
    #[doc(hidden)]
    pub extensions: Arc<Extensions>,
}

/// The cause of an object's removal, if known. An argument of functions for `deleted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gone {
    /// It was deleted.
    Deleted,
    /// It still exists, and no longer matches the controller's selector.
    Left,
    /// It was removed while the watch was interrupted, or the API server did not
    /// respond.
    Unknown,
}

/// The tasks that calls started. They are awaited, and then aborted, when the
/// controller stops or loses its leadership.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    /// Cancels them.
    pub(crate) stopping: CancellationToken,
    /// Aborts them.
    pub(crate) abort: CancellationToken,
}

impl Call {
    #[doc(hidden)]
    #[must_use]
    pub fn new(
        controller: Arc<str>,
        key: ObjectKey,
        attempt: u32,
        reasons: Reasons,
        cancelled: CancellationToken,
        tasks: Tasks,
    ) -> Self {
        Self {
            controller,
            key,
            attempt,
            reasons,
            cancelled,
            tasks,
            dry_run: false,
            shard: None,
            extensions: Arc::default(),
        }
    }

    /// The shard of the object, for a controller with `shards`.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::prelude::*;
    ///
    /// #[kooper::controller(resource = Pod, shards = 32, main = false)]
    /// async fn trace(call: Call) {
    ///     if let Some(shard) = call.shard() {
    ///         tracing::info!(key = %call.key(), %shard, term = shard.term, "called");
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn shard(&self) -> Option<Shard> {
        self.shard.as_ref().map(|term| term.shard())
    }

    /// The term in which it may write, for a controller with `shards`.
    #[doc(hidden)]
    #[must_use]
    pub fn term(&self) -> Option<&Arc<dyn ShardTerm>> {
        self.shard.as_ref()
    }

    /// Notes in a request that it may be sent only while this replica works on the shard.
    #[doc(hidden)]
    pub fn fence(&self, request: &mut http::Extensions) {
        if let Some(term) = &self.shard {
            request.insert(SentIn(term.clone()));
        }
    }

    /// Returns `true` if another replica may work on the shard by now.
    #[doc(hidden)]
    #[must_use]
    pub fn has_lost_shard(&self) -> bool {
        self.shard.as_ref().is_some_and(|term| !term.is_held())
    }

    /// Returns `true` if this is a dry run, as with `run --dry-run` and `diff`: the API server stores
    /// nothing. Check it before a side effect elsewhere, such as an email.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::prelude::*;
    ///
    /// # async fn send_email(_: &str) -> Result<()> { Ok(()) }
    /// #[kooper::controller(resource = Pod, main = false)]
    /// async fn report(pod: Arc<Pod>, call: Call) -> Result<()> {
    ///     if call.is_dry_run() {
    ///         tracing::info!("an email would be sent");
    ///     } else {
    ///         send_email(&pod.name_any()).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// The controller's name.
    #[must_use]
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// The object's key: its namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The number of this attempt, from 1. It counts from the last success, or
    /// from the last change of the desired state, which resets the back-off.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The time now. In a test whose clock is paused it is that clock's, see
    /// `Clock`.
    ///
    /// ```
    /// use k8s_openapi::api::batch::v1::Job;
    /// use k8s_openapi::jiff::ToSpan as _;
    /// use kooper::prelude::*;
    ///
    /// /// Deletes each Job an hour after it was created.
    /// #[kooper::controller(resource = Job, main = false)]
    /// async fn expire(job: Arc<Job>, call: Call, jobs: Deleter<Job>) -> Result<Action> {
    ///     let created = job.creation_timestamp().ok_or("the object has no creation timestamp")?.0;
    ///     let left = call.now().duration_until(created + 1.hour());
    ///     if left.is_positive() {
    ///         return Ok(Action::requeue_after(left.unsigned_abs()));
    ///     }
    ///     jobs.delete_object(&job).await?;
    ///     Ok(Action::done())
    /// }
    /// ```
    #[must_use]
    pub fn now(&self) -> Timestamp {
        crate::clock::wall()
    }

    /// Why the handler is called.
    #[must_use]
    pub fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    /// Returns `true` if the call was cancelled: the process stops, leadership was lost, or the call
    /// has exceeded its timeout.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Waits until the call is cancelled. A handler that waits for a long time
    /// should select on this.
    ///
    /// ```
    /// use kooper::prelude::*;
    ///
    /// async fn wait(call: Call) -> Action {
    ///     tokio::select! {
    ///         () = call.cancelled() => Action::done(),
    ///         () = tokio::time::sleep(Duration::from_secs(60)) => Action::requeue_after(Duration::from_secs(600)),
    ///     }
    /// }
    /// ```
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.cancelled.cancelled()
    }

    /// Spawns a task that outlives this call. Use it instead of
    /// `tokio::spawn`, so that no task writes while another replica leads.
    ///
    /// The task's token is cancelled when the controller stops or loses its
    /// leadership, or when the shard of the object is given to another replica. Then
    /// the task is awaited like a running call, and aborted when the drain time is over
    /// or the shard is lost. Its log lines have the controller and key of this call.
    pub fn spawn<F, Fut>(&self, task: F) -> AbortHandle
    where
        F: FnOnce(CancellationToken) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let stopping = self.tasks.stopping.child_token();
        let task = task(stopping.clone());
        let abort = self.tasks.abort.clone();
        // From now on: the call may end before the task is polled.
        let working = self.shard.clone().map(Work::begin);
        let running = async move {
            let Some(work) = working else {
                abort.run_until_cancelled(task).await;
                return;
            };
            let shard = work.term();
            let leaves = async {
                shard.leaving().cancelled().await;
                stopping.cancel();
                pending::<()>().await;
            };
            tokio::select! {
                // First: another replica may own the shard by now, so that the task is not polled again.
                biased;
                () = shard.ended().cancelled() => stopping.cancel(),
                _ = abort.run_until_cancelled(task) => {}
                () = leaves => {}
            }
        };
        self.tasks.tracker.spawn(running.in_current_span().boxed()).abort_handle()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, key, attempt, reasons, .. } = self;
        let mut call = f.debug_struct("Call");
        call.field("controller", controller).field("key", key).field("attempt", attempt).field("reasons", reasons);
        call.field("shard", &self.shard()).finish_non_exhaustive()
    }
}

impl Tasks {
    /// Waits until every task has ended. No task may be spawned any more.
    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
        // A call that was left behind because it blocks its thread may go on, and spawn one nevertheless.
        self.abort.cancel();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_call_that_goes_on_after_the_end_of_its_term_starts_no_task() {
        let (tasks, key) = (Tasks::default(), ObjectKey::cluster_scoped("a"));
        let call = Call::new("shop".into(), key, 1, Reasons::default(), CancellationToken::new(), tasks.clone());
        let spawned = || {
            let (sender, runs) = oneshot::channel();
            call.spawn(|_| async move { _ = sender.send(()) });
            runs
        };
        let mut before = spawned();
        tasks.ended().await;
        assert_eq!(before.try_recv(), Ok(()));
        let mut after = spawned();
        tasks.ended().await;
        assert!(after.try_recv().is_err());
    }
}
