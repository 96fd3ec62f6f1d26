//! Runs the user's code and the workers that call it: on threads of its own, apart from the
//! watches, the Leases and the listener.
//!
//! A future that blocks its thread costs that thread, and another one is started for
//! what waits. With tokio's own scheduler it would cost more: tasks that were woken on
//! the blocked thread may wait there.

mod pool;

use std::any::Any;
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::panic_text;

use pool::Pool;

/// Where the user's code runs. Clones share their threads, which end with the last one.
///
/// It has threads of its own if the runtime of its first task has several. A runtime of
/// the current thread has none beside it: a test that pauses the time has one clock.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "other crates of Kooper only pass it on")]
pub struct Executor {
    /// `None` inside if it runs as tasks of the current runtime.
    pool: Arc<OnceLock<Option<Pool>>>,
}

/// Why a task has no result.
#[derive(Debug)]
pub enum TaskError {
    /// It was aborted, or its runtime has ended.
    Aborted,
    Panicked(Box<dyn Any + Send>),
}

/// A task of the user's code. It resolves when the future has been dropped. Dropping it
/// aborts the task, which takes effect at the future's next `.await`.
#[must_use = "dropping it aborts the task"]
#[expect(missing_debug_implementations, reason = "other crates of Kooper only await it")]
pub struct Task<T> {
    ended: oneshot::Receiver<Result<T, TaskError>>,
    abort: DropGuard,
    polls: Arc<PollTime>,
}

impl Executor {
    /// Returns `true` if the executor has its own threads. It must be called within a runtime.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        self.pool().is_some()
    }

    fn pool(&self) -> Option<&Pool> {
        let begin = || {
            let runtime = Handle::current();
            if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
                return None;
            }
            let pool = Pool::new(runtime);
            pool.inspect_err(|error| {
                tracing::error!(
                    "handlers share the threads of the runtime, because no more threads can be started: {error}"
                );
            })
            .ok()
        };
        self.pool.get_or_init(begin).as_ref()
    }

    /// Starts a task that the caller awaits at once. If the caller is a task, too, no other thread is woken for this one.
    pub fn spawn_next<T, F>(&self, future: F) -> Task<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        pool::at_the_end(|| self.spawn(future))
    }

    /// Starts a task. It must be called within a runtime.
    pub fn spawn<T, F>(&self, future: F) -> Task<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (sender, ended) = oneshot::channel();
        let (abort, polls) = (CancellationToken::new(), Arc::<PollTime>::default());
        let aborted = abort.clone();
        let future = async move {
            let ended = tokio::select! {
                // First: an aborted future is not polled again.
                biased;
                () = aborted.cancelled() => Err(TaskError::Aborted),
                ended = AssertUnwindSafe(future).catch_unwind() => ended.map_err(TaskError::Panicked),
            };
            // The caller may have given up.
            let _ = pool::at_the_end(|| sender.send(ended));
        };
        let timed = timed(future, polls.clone());
        match self.pool() {
            Some(pool) => pool.spawn(timed),
            None => drop(tokio::spawn(timed)),
        }
        Task { ended, abort: abort.drop_guard(), polls }
    }
}

impl TaskError {
    /// The reason, for logs.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Aborted => "it was aborted".to_owned(),
            Self::Panicked(panic) => format!("it panicked: {}", panic_text(&**panic)),
        }
    }
}

impl<T> Task<T> {
    /// Aborts it as dropping does. It can still be awaited.
    pub fn abort(&self) {
        self.abort.token().cancel();
    }

    /// For how long it has been running without an `.await`.
    #[must_use]
    pub fn poll_time(&self) -> Arc<PollTime> {
        self.polls.clone()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Without a result its runtime has ended.
        self.ended.poll_unpin(context).map(|ended| ended.unwrap_or(Err(TaskError::Aborted)))
    }
}

/// When the current poll of a task began: one that lasts blocks its thread.
#[derive(Debug, Default)]
pub struct PollTime {
    /// Nanoseconds since [`ORIGIN`]; zero between two polls.
    since: AtomicU64,
}

/// The real time, also where a test has paused tokio's: a thread is blocked in it.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl PollTime {
    /// The duration of the current poll; zero between two polls.
    #[must_use]
    pub fn current(&self) -> Duration {
        match self.since.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            since => Duration::from_nanos(nanos().saturating_sub(since)),
        }
    }
}

thread_local! {
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` if this thread polls a task. The caller catches and reports its panics.
#[must_use]
pub fn is_in_task() -> bool {
    IN_TASK.get()
}

/// The current poll of a task. It ends when this is dropped, also if a destructor panics.
struct CurrentPoll<'a> {
    time: &'a PollTime,
    /// `true` if the thread polled another task before.
    outer: bool,
}

impl<'a> CurrentPoll<'a> {
    fn begin(time: &'a PollTime) -> Self {
        time.since.store(nanos(), Ordering::Release);
        Self { time, outer: IN_TASK.replace(true) }
    }
}

impl Drop for CurrentPoll<'_> {
    fn drop(&mut self) {
        IN_TASK.set(self.outer);
        self.time.since.store(0, Ordering::Release);
    }
}

fn nanos() -> u64 {
    u64::try_from(ORIGIN.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Notes when the polls of a future begin and end.
fn timed(future: impl Future<Output = ()> + Send + 'static, polls: Arc<PollTime>) -> BoxFuture<'static, ()> {
    let mut future = Box::pin(future);
    let poll = move |context: &mut Context<'_>| {
        // The first that is captured is dropped first: while its destructor runs, the task is known.
        let future = future.as_mut();
        let _current = CurrentPoll::begin(&polls);
        future.poll(context)
    };
    poll_fn(poll).boxed()
}

#[cfg(test)]
mod tests;
