//! One call of a handler: its arguments, what it may do, and the worker that makes it.

pub(crate) mod action;
pub mod capability;
pub mod events;
pub mod extract;
pub(crate) mod finalizer;
pub mod handler;
pub(crate) mod lookup;
pub mod plan;
pub(crate) mod statuses;
pub(crate) mod worker;

use std::future::Future;
use std::sync::Arc;

use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use self::statuses::Statuses;
use crate::object::key::ObjectKey;
use crate::queue::reason::Reasons;

/// What a handler can know of the call that it is in: take it as an argument.
#[derive(Debug, Clone)]
pub struct Call {
    controller: Arc<str>,
    key: ObjectKey,
    attempt: u32,
    reasons: Reasons,
    cancelled: CancellationToken,
    tasks: Tasks,
    /// The statuses that the call has sent.
    pub(crate) statuses: Arc<Statuses>,
}

/// The tasks that calls leave behind: awaited, then ended, when the controller
/// stops or steps down.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    /// Asks them to end.
    pub(crate) stopping: CancellationToken,
    /// Ends them.
    pub(crate) abort: CancellationToken,
}

impl Call {
    pub(crate) fn new(
        controller: Arc<str>,
        key: ObjectKey,
        attempt: u32,
        reasons: Reasons,
        cancelled: CancellationToken,
        tasks: Tasks,
    ) -> Self {
        Self { controller, key, attempt, reasons, cancelled, tasks, statuses: Arc::default() }
    }

    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// The object's namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Which try this is since the last success, or since a change of the
    /// desired state has reset the back-off, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Why the handler is called.
    pub fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    /// Whether the call should come to its end: the process stops, another
    /// replica leads, or the call has passed its timeout.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Waits until the call should come to its end. A handler that waits for
    /// something long selects on this too.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.cancelled.cancelled()
    }

    /// Starts a task that outlives this call. Its token is cancelled when the
    /// controller stops or its replica leads no more; then it is awaited as a
    /// running call is, and ended when the drain time is over. What it logs
    /// carries this call's controller and key. Use this in
    /// place of `tokio::spawn`, so that nothing goes on to write while another
    /// replica leads.
    pub fn spawn<F, Fut>(&self, task: F) -> AbortHandle
    where
        F: FnOnce(CancellationToken) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let task = task(self.tasks.stopping.clone());
        let abort = self.tasks.abort.clone();
        self.tasks
            .tracker
            .spawn(
                async move {
                    abort.run_until_cancelled(task).await;
                }
                .in_current_span(),
            )
            .abort_handle()
    }
}

impl Tasks {
    /// Waits until every task has ended; none may be started any more.
    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
