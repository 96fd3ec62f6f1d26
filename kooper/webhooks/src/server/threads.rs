//! The threads that call functions: the one that reads requests for quick functions, otherwise one for each call.
//!
//! Handing a call to another thread, and its result back, costs more CPU time than a small function,
//! and so does waking a second thread to read. Both are saved for a function that has been quick for
//! some time. If it blocks its thread nevertheless, its own request is late, and the thread that
//! stands by reads all others.
//!
//! Functions are in the context of another runtime: a task that one spawns and waits for
//! would wait for the thread that it blocks.

use std::any::Any;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::webhook::Webhook;

/// The threads that read: one reads, and one stands by.
pub(super) const READING: usize = 2;

/// Number of quick calls after which a function is quick, and that make up for one that is not. A single slow call
/// may be one that waited for a core, so it does not count against a function that has been quick for twice as long.
const QUICK_CALLS: u32 = 20;

/// Maximum time of a quick call. Quick calls run one after another, so that a thread has time for at least 500
/// in a second; those of a slower function run in parallel, for which another thread is a small cost.
const QUICK: Duration = Duration::from_millis(2);

/// The largest body, in bytes, that is decoded on the thread that reads.
const SMALL: usize = 64 * 1024;

/// A call that is on the thread that reads for one to two of these periods blocks it.
const TICK: Duration = Duration::from_millis(50);

/// Where calls run.
#[derive(Debug, Default)]
pub(super) struct Threads {
    reading: OnceLock<Handle>,
    calls: OnceLock<Handle>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The function that is on the thread that reads.
    inline: Option<Arc<Webhook>>,
    /// The number of calls on that thread so far.
    begun: u64,
    stands_by: bool,
    stopped: bool,
}

/// The quick calls of a function, less [`QUICK_CALLS`] for each slow one: at most twice as many.
#[derive(Debug, Default)]
pub(super) struct QuickCalls(AtomicU32);

impl Threads {
    /// Sets the runtimes, one of [`READING`] threads that reads and one for calls, and lets one of those threads stand by.
    ///
    /// It is called by the first task of the runtime that reads. From another thread, one thread could take both tasks at
    /// a time, and the first would never run, because the thread stands by.
    pub(super) fn start(self: &Arc<Self>, reading: &Handle, calls: &Handle) {
        drop(self.calls.set(calls.clone()));
        drop(self.reading.set(reading.clone()));
        self.stand_by(&mut self.state.lock());
    }

    /// Ends the thread that stands by, within a tick.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
    }

    /// Calls a function for a body of `size` bytes. Returns `None` at the deadline, and an error if it panics.
    pub(super) async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        webhook: &Arc<Webhook>,
        quick: &Arc<QuickCalls>,
        size: usize,
        deadline: Instant,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, Box<dyn Any + Send>> {
        let calls = self.calls.get().cloned().unwrap_or_else(Handle::current);
        let mut call = AssertUnwindSafe(call).catch_unwind().boxed();
        if size <= SMALL
            && quick.are_enough()
            && let Some(_inline) = self.enter(webhook)
            && let Poll::Ready(ended) = quick.poll(&mut call, &calls).await
        {
            return ended.map(|ended| (Instant::now() < deadline).then_some(ended));
        }
        let (quick, own) = (Arc::clone(quick), calls.clone());
        let called = async move {
            match quick.poll(&mut call, &own).await {
                Poll::Ready(ended) => ended,
                Poll::Pending => call.await,
            }
        };
        let own = calls.spawn_blocking({
            let calls = calls.clone();
            move || calls.block_on(async { timeout_at(deadline, called).await })
        });
        // A call that waits for a thread until its deadline is not started: its caller already has an error.
        match timeout_at(deadline, AbortOnDropHandle::new(own)).await {
            Ok(Ok(Ok(ended))) => ended.map(Some),
            Err(_) | Ok(Ok(Err(_))) => Ok(None),
            // The server was dropped, and closes the connection: the function has not used up its time.
            Ok(Err(_)) => {
                sleep_until(deadline).await;
                Ok(None)
            }
        }
    }

    fn enter(self: &Arc<Self>, webhook: &Arc<Webhook>) -> Option<Inline<'_>> {
        let mut state = self.state.lock();
        // While the thread that reads is blocked, the other one only reads.
        if state.inline.is_some() {
            return None;
        }
        state.inline = Some(Arc::clone(webhook));
        state.begun += 1;
        Some(Inline(self))
    }

    /// Returns `true` while a function is on the thread that reads.
    #[cfg(test)]
    pub(super) fn is_inline(&self) -> bool {
        self.state.lock().inline.is_some()
    }

    /// Blocks one of the threads that read, so that the runtime does not wake it for requests.
    fn stand_by(self: &Arc<Self>, state: &mut State) {
        let Some(reading) = self.reading.get() else { return };
        state.stands_by = true;
        let threads = Arc::clone(self);
        drop(reading.spawn(async move { threads.wait_until_one_blocks() }));
    }

    fn wait_until_one_blocks(&self) {
        let mut begun = 0;
        loop {
            std::thread::sleep(TICK);
            let mut state = self.state.lock();
            match &state.inline {
                _ if state.stopped => return,
                Some(webhook) if state.begun == begun => {
                    tracing::warn!(
                        webhook = webhook.name(),
                        "the function blocks its thread: another one reads requests"
                    );
                    state.stands_by = false;
                    return;
                }
                _ => begun = state.begun,
            }
        }
    }
}

/// A call on the thread that reads.
struct Inline<'a>(&'a Arc<Threads>);

impl Drop for Inline<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inline = None;
        if !state.stands_by {
            self.0.stand_by(&mut state);
        }
    }
}

impl QuickCalls {
    pub(super) fn are_enough(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= QUICK_CALLS
    }

    /// Polls a call once, and counts it if that ends it quickly.
    async fn poll<T>(&self, call: &mut BoxFuture<'static, T>, calls: &Handle) -> Poll<T> {
        let began = std::time::Instant::now();
        let polled = poll_fn(|cx| {
            let _context = calls.enter();
            Poll::Ready(call.poll_unpin(cx))
        });
        let polled = polled.await;
        let is_quick = polled.is_ready() && began.elapsed() <= QUICK;
        let counted = |calls: u32| match is_quick {
            true => Some((calls + 1).min(2 * QUICK_CALLS)),
            false => Some(calls.saturating_sub(QUICK_CALLS)),
        };
        let _: Result<u32, u32> = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::webhook::FailurePolicy;

    async fn check(_: Arc<ConfigMap>) -> kooper_runtime::Result<()> {
        Ok(())
    }

    fn webhook() -> Arc<Webhook> {
        let webhook = Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Fail).function(check);
        Arc::new(webhook.build().expect("a webhook"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_of_a_server_that_was_dropped_has_not_used_up_its_time() {
        let dropped = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let threads = Arc::new(Threads { calls: dropped.handle().clone().into(), ..Threads::default() });
        dropped.shutdown_background();
        let deadline = Instant::now() + Duration::from_secs(27);
        let called = threads.call(&webhook(), &Arc::default(), 1, deadline, async {}).await;
        assert!(matches!(called, Ok(None)));
        assert!(Instant::now() >= deadline, "its connection is closed before");
    }

    #[tokio::test]
    async fn a_call_that_waits_for_a_thread_until_its_deadline_does_not_begin() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let calls = builder.worker_threads(1).max_blocking_threads(1).enable_time().build().expect("a runtime");
        let threads = Arc::new(Threads { calls: calls.handle().clone().into(), ..Threads::default() });
        let (end, ended) = mpsc::channel::<()>();
        drop(calls.spawn_blocking(move || ended.recv()));
        let began = Arc::new(AtomicBool::new(false));
        let called = Arc::clone(&began);
        let late = async move { called.store(true, Ordering::Relaxed) };
        assert!(matches!(threads.call(&webhook(), &Arc::default(), 1, Instant::now(), late).await, Ok(None)));
        drop(end);
        // The only thread takes the calls in their order.
        let deadline = Instant::now() + Duration::from_secs(60);
        assert!(matches!(threads.call(&webhook(), &Arc::default(), 1, deadline, async {}).await, Ok(Some(()))));
        assert!(!began.load(Ordering::Relaxed));
        calls.shutdown_background();
    }
}
