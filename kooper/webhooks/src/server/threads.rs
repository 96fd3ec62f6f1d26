//! The threads that call functions: those that read requests for quick functions, otherwise one for each call.
//!
//! Handing a call to another thread, and its result back, costs more CPU time than a small function.
//! This is saved for a function that has been quick for some time. If it blocks its thread
//! nevertheless, its own request is late, and the other threads serve all others.
//!
//! In both cases it is in the context of another runtime: a task that it spawns and waits for
//! would wait for the thread that it blocks.

use std::any::Any;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

/// Maximum number of functions on threads that read.
const INLINE: usize = 2;

/// The threads that read: one of them is in no function.
pub(super) const READING: usize = INLINE + 1;

/// Number of quick calls in a row after which a function is quick.
const QUICK_CALLS: u32 = 100;

/// Maximum time of a quick call, also on a busy machine. It never waits for anything.
const QUICK: Duration = Duration::from_millis(10);

/// The largest body, in bytes, that is decoded on a thread that reads.
const SMALL: usize = 64 * 1024;

/// Period of [`Threads::tick`].
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Where calls run.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// The calls on threads that read.
    inline: AtomicUsize,
    calls: OnceLock<Handle>,
}

/// The quick calls of a function since the last one that was not.
#[derive(Debug, Default)]
pub(super) struct QuickCalls(AtomicU32);

impl Threads {
    /// Sets the runtime of the calls.
    pub(super) fn start(&self, calls: &Handle) {
        drop(self.calls.set(calls.clone()));
    }

    /// Calls a function for a body of `size` bytes. Returns `None` at the deadline, and an error if it panics.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        quick: &Arc<QuickCalls>,
        size: usize,
        deadline: Instant,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, Box<dyn Any + Send>> {
        let calls = self.calls.get().cloned().unwrap_or_else(Handle::current);
        let mut call = AssertUnwindSafe(call).catch_unwind().boxed();
        if size <= SMALL
            && quick.are_enough()
            && let Some(_inline) = self.enter()
            && let Poll::Ready(ended) = quick.poll(&mut call, &calls).await
        {
            return ended.map(Some);
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
        match timeout_at(deadline, own).await {
            Ok(Ok(Ok(ended))) => ended.map(Some),
            // The last one is of a server that was dropped.
            Err(_) | Ok(Ok(Err(_)) | Err(_)) => Ok(None),
        }
    }

    fn enter(&self) -> Option<Inline<'_>> {
        let free = |inline| (inline < INLINE).then_some(inline + 1);
        let entered = self.inline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free);
        entered.is_ok().then(|| Inline(&self.inline))
    }

    /// The calls on threads that read at present.
    #[cfg(test)]
    pub(super) fn inline(&self) -> usize {
        self.inline.load(Ordering::Relaxed)
    }

    /// Wakes a thread while functions are on others: the one that waits for the network may have
    /// become one of them, and no other takes its place by itself.
    pub(super) fn tick(&self, handle: &Handle) {
        if self.inline.load(Ordering::Relaxed) > 0 {
            drop(handle.spawn(std::future::ready(())));
        }
    }
}

/// A call on a thread that reads.
struct Inline<'a>(&'a AtomicUsize);

impl Drop for Inline<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
        if polled.is_ready() && began.elapsed() <= QUICK {
            self.0.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.store(0, Ordering::Relaxed);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_that_reads_is_in_no_function() {
        let threads = Threads::default();
        let entered: Vec<_> = (0..READING - 1).map(|_| threads.enter().expect("a thread is free")).collect();
        for _ in 0..3 {
            assert!(threads.enter().is_none());
        }
        drop(entered);
        assert_eq!(threads.inline(), 0);
    }
}
