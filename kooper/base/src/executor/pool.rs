//! Threads that share a queue of futures, and become more if all of them are blocked.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::sleep;
use tracing::Dispatch;
use tracing::dispatcher::{get_default, set_default};
use tracing::subscriber::NoSubscriber;

/// A future that waits so long for a thread gets another one.
const TIMEOUT: Duration = Duration::from_millis(10);

/// An idle thread ends after this time.
const KEEP: Duration = Duration::from_secs(10);

/// The threads of an executor.
pub(super) struct Pool {
    shared: Arc<Shared>,
    /// The timers, the sockets and the spawned tasks of the futures. Its own threads
    /// poll none of the futures.
    runtime: Option<Runtime>,
}

struct Shared {
    /// The handle of the pool's runtime.
    runtime: Handle,
    /// Where the growth is decided: a runtime that no future blocks.
    watcher: Handle,
    /// The number of threads that are started without a delay.
    usual: usize,
    /// The subscriber of the thread that began the pool.
    subscriber: Dispatch,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Arc<Job>>,
    threads: usize,
    /// The number of threads that wait for work.
    idle: usize,
    /// The number of futures that have been taken from `ready`.
    taken: u64,
    /// `true` while a task decides if more threads are needed.
    is_watched: bool,
    /// `true` if the system refused the last thread.
    is_refused: bool,
    closed: bool,
}

/// A future, and whether it is to be polled.
struct Job {
    shared: Arc<Shared>,
    stage: AtomicU8,
    /// `None` when it has ended.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
}

/// It waits to be woken.
const ASLEEP: u8 = 0;
/// It waits for a thread.
const READY: u8 = 1;
/// A thread polls it.
const POLLED: u8 = 2;
/// It was woken while a thread polls it.
const WOKEN: u8 = 3;

thread_local! {
    /// The pool that this thread is of. It is only compared.
    static OWN: Cell<*const Shared> = const { Cell::new(ptr::null()) };
    /// `true` while this thread does the last of a poll.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Does the last of a poll: all that follows takes no time. No other thread is woken for a future of the same pool that this
/// makes ready, one at most, because this thread takes one next.
pub(super) fn at_the_end<T>(last: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            ENDS.set(false);
        }
    }
    let _reset = Reset;
    ENDS.set(true);
    last()
}

/// Lets this thread log to a subscriber until it ends. A program that has none yet may set one for all threads.
fn inherit(subscriber: &Dispatch) {
    if !subscriber.is::<NoSubscriber>() {
        mem::forget(set_default(subscriber));
    }
}

impl Pool {
    /// Threads beside the runtime `watcher`.
    pub(super) fn new(watcher: Handle) -> io::Result<Self> {
        let subscriber = get_default(Dispatch::clone);
        let inherited = subscriber.clone();
        let runtime = Builder::new_multi_thread()
            .thread_name("kooper-tasks")
            .on_thread_start(move || inherit(&inherited))
            .enable_all()
            .build()?;
        let shared = Shared {
            runtime: runtime.handle().clone(),
            watcher,
            usual: thread::available_parallelism().map_or(1, usize::from),
            subscriber,
            state: Mutex::default(),
            work: Condvar::new(),
        };
        Ok(Self { shared: Arc::new(shared), runtime: Some(runtime) })
    }

    pub(super) fn spawn(&self, future: BoxFuture<'static, ()>) {
        let job = Job { shared: self.shared.clone(), stage: AtomicU8::new(READY), future: Mutex::new(Some(future)) };
        self.shared.add(Arc::new(job));
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        let left = if state.threads == 0 { mem::take(&mut state.ready) } else { VecDeque::new() };
        drop(state);
        self.shared.work.notify_all();
        // A future may own anything, so it is dropped outside of the lock.
        drop(left);
        if let Some(runtime) = self.runtime.take() {
            // Dropping it would wait for threads that are blocked.
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    /// Queues a future that is ready to be polled. After the end of the pool, a thread drops it, because the caller may hold
    /// locks that its destructor needs.
    fn add(self: &Arc<Self>, job: Arc<Job>) {
        let mut state = self.state.lock();
        state.ready.push_back(job);
        if !ENDS.get() || !ptr::eq(OWN.get(), &**self) {
            self.find_thread(&mut state);
        }
    }

    /// Finds a thread for a future that is ready.
    fn find_thread(self: &Arc<Self>, state: &mut State) {
        if state.idle > 0 {
            self.work.notify_one();
        }
        let is_taken = state.ready.len() <= state.idle || (state.threads < self.usual && self.start(state));
        if !is_taken && !mem::replace(&mut state.is_watched, true) {
            self.watcher.spawn(self.clone().watch());
        }
    }

    /// Starts threads for as long as futures wait and no thread takes one: all are blocked.
    async fn watch(self: Arc<Self>) {
        let mut taken = self.state.lock().taken;
        loop {
            sleep(TIMEOUT).await;
            let mut state = self.state.lock();
            if state.ready.len() <= state.idle {
                state.is_watched = false;
                return;
            }
            if state.taken == taken {
                self.start(&mut state);
            }
            taken = state.taken;
        }
    }

    fn start(self: &Arc<Self>, state: &mut State) -> bool {
        let shared = self.clone();
        let started = thread::Builder::new().name("kooper-handlers".into()).spawn(move || {
            inherit(&shared.subscriber);
            shared.work();
        });
        match started {
            // It ends when it has no more work.
            Ok(_detached) => {
                state.threads += 1;
                state.is_refused = false;
            }
            Err(error) if !mem::replace(&mut state.is_refused, true) => {
                tracing::error!("cannot start a thread for a waiting handler: {error}");
            }
            Err(_) => {}
        }
        !state.is_refused
    }

    /// One thread: polls futures until there are none.
    fn work(self: Arc<Self>) {
        OWN.set(&raw const *self);
        let mut again = None;
        while let Some((job, closed)) = self.next(again.take()) {
            // The future caught its own panic. This is one of its destructor.
            match catch_unwind(AssertUnwindSafe(|| if closed { job.end() } else { job.poll() })) {
                Ok(true) => again = Some(job),
                Ok(false) => {}
                Err(_) => tracing::error!("a destructor of a handler panicked"),
            }
        }
    }

    /// The next future to poll, after `again` is behind the others that wait, and whether
    /// the pool is closed.
    fn next(self: &Arc<Self>, again: Option<Arc<Job>>) -> Option<(Arc<Job>, bool)> {
        let mut state = self.state.lock();
        let is_again = again.is_some();
        state.ready.extend(again);
        loop {
            if let Some(job) = state.ready.pop_front() {
                state.taken += 1;
                // No thread was woken for one that became ready at the end of this thread's poll. That may be another one
                // than this.
                if !state.ready.is_empty() && (is_again || state.idle > 0) {
                    self.find_thread(&mut state);
                }
                return Some((job, state.closed));
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let waited = self.work.wait_for(&mut state, KEEP);
            state.idle -= 1;
            if waited.timed_out() && state.ready.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        None
    }
}

impl Job {
    /// Drops the future. The end of the runtime wakes those that wait for its timers, which
    /// would panic if they were polled again. Returns that it is not to be polled.
    fn end(&self) -> bool {
        *self.future.lock() = None;
        false
    }

    /// Returns `true` if it is to be polled again.
    fn poll(self: &Arc<Self>) -> bool {
        self.stage.store(POLLED, Ordering::SeqCst);
        let mut slot = self.future.lock();
        let Some(future) = &mut *slot else { return false };
        let waker = Waker::from(self.clone());
        // One poll, within the runtime and with its budget: what is always ready yields.
        let once = poll_fn(|_| Poll::Ready(future.as_mut().poll(&mut Context::from_waker(&waker))));
        if self.shared.runtime.block_on(once).is_ready() {
            *slot = None;
            return false;
        }
        drop(slot);
        let woken = self.stage.compare_exchange(POLLED, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_err();
        if woken {
            self.stage.store(READY, Ordering::SeqCst);
        }
        woken
    }
}

impl Wake for Job {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = self.stage.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |stage| match stage {
            ASLEEP => Some(READY),
            POLLED => Some(WOKEN),
            _ => None,
        });
        if woken == Ok(ASLEEP) {
            self.shared.add(self.clone());
        }
    }
}
