//! The work queue: which key a worker takes next.
//!
//! It contains keys, never objects. A key is in it at most once, however often it
//! is added. Only one worker processes a key at a time; if the key is added
//! meanwhile, it is processed once more afterwards. Events come before retries,
//! and retries before resyncs and the first list. Each lane has a head start over
//! the next one, so that no key starves.

mod add;
pub(crate) mod admission;
mod compact_instant;
mod completion;
mod entries;
mod entry;
mod forbidden;
mod inspect;
mod ready;
pub(crate) mod reason;
mod schedule;
mod state;
mod urgency;
mod waiting;
mod writes;

use std::pin::pin;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::backoff::Backoff;
use crate::held::{LockGuard, drop_aside};
use crate::object::key::ObjectKey;
use crate::queue::reason::{Reason, Reasons};

use state::QueueState;

pub(crate) use add::AddOptions;
pub(crate) use admission::{Admission, AdmitAll, AwaitedDeletion, Grant};
pub(crate) use completion::Completion;
#[doc(hidden)]
pub use completion::{AT_ONCE, NextRun};
#[doc(hidden)]
pub use entry::Timer;
pub(crate) use urgency::Urgency;
#[doc(hidden)]
pub use waiting::{ForbiddenKey, KeyView, QueueCounts, Run, Waiting};
#[doc(hidden)]
pub use writes::WriteOrigin;
pub(crate) use writes::{CacheRef, Revision};

/// The most keys whose priority is decided before others are looked at.
const ASKED: usize = 64;

/// Identifies the entry of a key while it exists.
type EntryId = u32;

/// The settings of a [`WorkQueue`].
///
/// ```
/// use std::time::Duration;
///
/// use kooper::queue::QueueOptions;
///
/// let options = QueueOptions { retries: Some(5), resync: Some(Duration::from_secs(180)), ..QueueOptions::default() };
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// The back-off of failing keys; each key has its own.
    pub backoff: Backoff,
    /// The most retries of a failing key; `None` for no limit.
    pub retries: Option<u32>,
    /// The rate limit for the retries of all keys: the number per second, and the
    /// burst.
    pub retry_rate: (u32, u32),
    /// The time without a run after which every known key is queued again; `None`
    /// for no resync.
    pub resync: Option<Duration>,
    /// Adds with [`Reason::Added`], [`Reason::Modified`] and [`Reason::Related`] queue
    /// their key when there was none for so long, or ten times that after the first of
    /// them. `None` queues it at once.
    pub debounce: Option<Duration>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { backoff: Backoff::default(), retries: None, retry_rate: (10, 100), resync: None, debounce: None }
    }
}

/// The priority of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// An event of the object, or a key from outside.
    Event,
    /// A retry, or a requeue that a handler requested.
    Retry,
    /// A resync, or the first list.
    Background,
}

/// A key that a worker has taken from a [`WorkQueue`].
#[derive(Debug)]
pub struct Item {
    /// The key. No other worker receives it before [`WorkQueue::done`] or
    /// [`WorkQueue::add_rate_limited`].
    pub key: ObjectKey,
    /// The reasons why it was queued.
    pub reasons: Reasons,
    /// The number of this attempt since the last success, or since an urgent add
    /// reset the back-off, counted from 1.
    pub attempt: u32,
    /// The time for which a worker could have taken the key: neither the delay before
    /// it nor the previous run count.
    pub waited: Duration,
    pub(crate) ticket: Ticket,
}

/// Identifies one run of a key. Only the first attempt to return it has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    id: EntryId,
    number: u64,
}

/// A de-duplicating queue of keys with priorities, delays, retries and resyncs.
///
/// The methods are named as in client-go's work queue. Controllers have one of
/// their own; use it directly for a program without a `Controller`.
///
/// ```
/// use kooper::queue::{Lane, QueueOptions, WorkQueue};
/// use kooper::{ObjectKey, Reason};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let queue = WorkQueue::new(QueueOptions::default());
/// let key = ObjectKey::namespaced("shop", "web");
/// queue.add(&key, Lane::Event, Reason::External);
/// queue.add(&key, Lane::Event, Reason::Modified); // the key is waiting already
///
/// let item = queue.get().await.unwrap();
/// assert_eq!((&item.key, item.attempt), (&key, 1));
/// queue.done(&item);
/// assert!(queue.is_empty());
/// # }
/// ```
#[doc(alias = "work queue")]
#[doc(alias = "rate limiting queue")]
#[doc(alias = "RateLimitingInterface")]
#[derive(Debug)]
pub struct WorkQueue {
    shared: Mutex<Shared>,
    /// Notified when a key is ready, or when no consumer waits for the next timer.
    ready: Notify,
    /// Notified when a timer is due before the timekeeper wakes; it listens.
    earlier: Notify,
    /// Notified when several keys wait, and the priority of some is not known.
    unprioritized: Notify,
    /// Is called for each key that begins to wait for a worker.
    on_add: Option<OnAdd>,
}

struct OnAdd(Box<dyn Fn() + Send + Sync>);

kooper_base::debug_fields! { OnAdd {} }

#[derive(Debug)]
struct Shared {
    state: QueueState,
    /// Until when the timekeeper sleeps, which is one of the waiting consumers; `None` if there is none.
    timekept: Option<Instant>,
    shut_down: bool,
}

/// The only consumer that waits for the next timer, so that a due timer wakes
/// one consumer and not all. When it stops waiting, with or without a key,
/// another one takes over.
struct Timekeeper<'a>(&'a WorkQueue);

impl Shared {
    /// Returns `true` if the timekeeper sleeps for longer than until the next timer. One that wakes too early only sleeps
    /// again.
    fn oversleeps(&self, next: Option<Instant>) -> bool {
        self.timekept.zip(next).is_some_and(|(until, next)| next < until)
    }
}

impl WorkQueue {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(options: QueueOptions) -> Self {
        let state = QueueState::new(options, Instant::now());
        Self {
            shared: Mutex::new(Shared { state, timekept: None, shut_down: false }),
            ready: Notify::new(),
            earlier: Notify::new(),
            unprioritized: Notify::new(),
            on_add: None,
        }
    }

    /// Calls a function for each key that begins to wait for a worker.
    pub(crate) fn on_add(self, count: impl Fn() + Send + Sync + 'static) -> Self {
        Self { on_add: Some(OnAdd(Box::new(count))), ..self }
    }

    /// Queues a key; if it is waiting already, the reason is added to it.
    ///
    /// A failing key waits for its back-off unless the reason is urgent: with
    /// [`Reason::External`], [`Reason::Added`] and [`Reason::Deleted`] it is due at
    /// once, with other changes within ten seconds.
    pub fn add(&self, key: &ObjectKey, lane: Lane, reason: Reason) {
        let options = AddOptions::of(&reason, lane);
        self.add_with_options(key, reason, options);
    }

    /// Like [`add`](Self::add), with options that do not follow from the reason alone.
    pub(crate) fn add_with_options(&self, key: &ObjectKey, reason: Reason, options: AddOptions) {
        self.update(|state, now| state.add(key, reason, options, now));
    }

    /// Like [`add_with_options`](Self::add_with_options), for an event that may be the echo
    /// of a write by one of the key's own calls. `urgency` and `event` are only called
    /// if they matter.
    pub(crate) fn add_from_event(
        &self,
        key: &ObjectKey,
        reason: Reason,
        options: AddOptions,
        urgency: impl FnOnce() -> Urgency,
        event: impl FnOnce() -> Revision,
    ) {
        // The queue is not locked here, because this may take long. A call that
        // began in the meantime sees the change, and has not failed yet.
        let options = if self.uses_urgency(key) { AddOptions { urgency: urgency(), ..options } } else { options };
        self.update(|state, now| state.add_from_event(key, reason, options, event, now));
    }

    /// Returns `true` if the urgency of a change matters for a key.
    pub(crate) fn uses_urgency(&self, key: &ObjectKey) -> bool {
        self.lock().state.uses_urgency(key)
    }

    /// Records a write by a call of the key: the response was this version of an
    /// object. The key does not run again before the cache has that version.
    /// `origin` classifies the event of the version. If the write changed nothing,
    /// the version was written by another client.
    pub(crate) fn record_write(&self, key: &ObjectKey, write: &Revision, origin: WriteOrigin) {
        self.update(|state, now| state.record_write(key, write, origin, now));
    }

    /// Lets a key run again soon if its run succeeds, and began before the cache had an own write.
    pub(crate) fn repeat_if_behind(&self, key: &ObjectKey) {
        self.lock().state.repeat_if_behind(key);
    }

    /// Records that a cache has processed an event of an object. The event may still be
    /// on its way to this queue.
    pub(crate) fn cache_reached(&self, event: impl FnOnce() -> Revision) {
        if self.lock().state.expects_events() {
            let event = event();
            self.update(|state, now| state.cache_reached(&event, now));
        }
    }

    /// Records that a cache has processed an event of an object, and that
    /// [`add_from_event`](Self::add_from_event) was called for all of its keys.
    pub(crate) fn event_delivered(&self, event: impl FnOnce() -> Revision) {
        if self.lock().state.expects_events() {
            let event = event();
            self.update(|state, now| state.event_delivered(&event, now));
        }
    }

    /// Queues a key after a delay, which replaces an earlier delay of the key.
    ///
    /// If it is set during a run that fails, the key is queued after this delay or its back-off, whichever is over
    /// first. If it is over before the run ends, the key is due at once, or within ten seconds if it failed before, too.
    pub fn add_after(&self, key: &ObjectKey, delay: Duration) {
        self.update(|state, now| state.add_after(key, delay, now));
    }

    /// Schedules the resync of a key whose object exists but needs no run now.
    pub(crate) fn schedule_resync(&self, key: &ObjectKey) {
        self.update(|state, now| state.schedule_resync(key, now));
    }

    /// Waits for the next key; `None` after the queue was shut down.
    pub async fn get(&self) -> Option<Item> {
        let mut timekeeper = None;
        loop {
            let mut ready = pin!(self.ready.notified());
            ready.as_mut().enable();
            let (added, deadline) = {
                let mut shared = self.lock();
                if shared.shut_down {
                    return None;
                }
                let now = Instant::now();
                let before = shared.state.added();
                shared.state.wake(now);
                let added = shared.state.added() - before;
                if shared.state.lacks_priorities() {
                    self.unprioritized.notify_one();
                }
                let item = shared.state.take(now);
                let deadline = shared.state.next_wake(now);
                // A key that `take` has held back has an earlier timer.
                if timekeeper.is_none() && shared.oversleeps(deadline) {
                    self.earlier.notify_one();
                }
                let lacks_timekeeper = deadline.is_some() && shared.timekept.is_none();
                if let Some(item) = item {
                    // Several adds, or an add and a timer, may have stored only one permit.
                    if shared.state.ready() > 0 || lacks_timekeeper {
                        self.ready.notify_one();
                    }
                    drop(shared);
                    self.count_adds(added);
                    return Some(item);
                }
                if lacks_timekeeper {
                    timekeeper = Some(Timekeeper(self));
                }
                if timekeeper.is_some() && deadline.is_some() {
                    shared.timekept = deadline;
                }
                (added, deadline)
            };
            self.count_adds(added);
            match deadline.filter(|_| timekeeper.is_some()) {
                Some(at) => tokio::select! {
                    () = ready => {}
                    () = self.earlier.notified() => {}
                    () = sleep_until(at) => {}
                },
                None => {
                    // Without a timer, or with another timekeeper, wait for a key only.
                    drop(timekeeper.take());
                    ready.await;
                }
            }
        }
    }

    /// Returns a key whose processing succeeded. Its failures are forgotten, and it
    /// is queued again if it was added meanwhile.
    pub fn done(&self, item: &Item) {
        self.finish(item.ticket, Completion::Success(None));
    }

    /// Returns a key whose processing failed. It is queued again after its back-off.
    pub fn add_rate_limited(&self, item: &Item) {
        self.finish(item.ticket, Completion::Failure);
    }

    /// Returns a key with the result of its call, and reports when it runs next.
    /// It has no effect if the key was already returned.
    pub(crate) fn finish(&self, ticket: Ticket, completion: Completion) -> NextRun {
        self.update(|state, now| state.finish(ticket, completion, now))
    }

    /// Returns `true` if a call of the key that met a conflict is repeated at once instead
    /// of being retried with back-off: the key is retried at all, is not failing, and met
    /// only a few conflicts in a row.
    pub(crate) fn repeats(&self, key: &ObjectKey) -> bool {
        self.lock().state.repeats(key)
    }

    /// Forgets the failures, delays and resync of a key whose object was deleted. If
    /// it is waiting or running, it stays so.
    pub fn forget(&self, key: &ObjectKey) {
        self.update(|state, now| state.forget(key, now));
    }

    /// Forgets the failures of a key whose call has run for so long that it has recovered. Returns the number of other keys
    /// that are retried because of it.
    pub(crate) fn clear_failures(&self, key: &ObjectKey) -> usize {
        self.update(|state, now| state.clear_failures_of(key, now))
    }

    /// Orders keys by their priority from now on. It is called before the first key is added.
    pub(crate) fn order_by_priority(&self) {
        self.lock().state.order_by_priority();
    }

    /// Waits until there are keys that wait for a worker and whose priority is not known, and returns
    /// some of them. Until [`set_priority`](Self::set_priority) they have the last known one, or 0.
    pub(crate) async fn unprioritized(&self) -> Vec<ObjectKey> {
        loop {
            let asked = self.unprioritized.notified();
            let keys = self.lock().state.take_unprioritized(ASKED);
            if !keys.is_empty() {
                return keys;
            }
            asked.await;
        }
    }

    pub(crate) fn set_priority(&self, key: &ObjectKey, priority: i32) {
        self.lock().state.set_priority(key, priority);
    }

    /// Forgets every key. Returning a key that was taken before has no effect.
    pub(crate) fn clear(&self) {
        drop_aside(self.update(QueueState::clear));
    }

    /// The number of keys that wait for a worker; delayed ones are not included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().state.ready()
    }

    /// Returns `true` if no key waits for a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of keys that are waiting, running, delayed or failing.
    #[must_use]
    pub fn known(&self) -> usize {
        self.lock().state.known()
    }

    /// Shuts the queue down: [`get`](Self::get) returns `None`.
    pub fn shut_down(&self) {
        self.lock().shut_down = true;
        self.ready.notify_waiters();
        self.ready.notify_one();
    }

    fn update<T>(&self, change: impl FnOnce(&mut QueueState, Instant) -> T) -> T {
        let mut shared = self.lock();
        let now = Instant::now();
        let state = &mut shared.state;
        let before = (state.ready(), state.next_wake(now).is_some(), state.added());
        let result = change(state, now);
        let next = state.next_wake(now);
        let (added, first) = (state.ready() > before.0, !before.1 && next.is_some());
        let (adds, asks) = (state.added() - before.2, state.lacks_priorities());
        let (unkept, oversleeps) = (shared.timekept.is_none(), shared.oversleeps(next));
        drop(shared);
        self.count_adds(adds);
        if asks {
            self.unprioritized.notify_one();
        }
        if added || (first && unkept) {
            self.ready.notify_one();
        }
        if oversleeps {
            self.earlier.notify_one();
        }
        result
    }

    fn count_adds(&self, adds: u64) {
        if let Some(OnAdd(count)) = &self.on_add {
            (0..adds).for_each(|_| count());
        }
    }

    fn lock(&self) -> LockGuard<MutexGuard<'_, Shared>> {
        // No user code runs under the lock, so a panic never leaves it half changed.
        LockGuard::new(self.shared.lock())
    }
}

impl Drop for Timekeeper<'_> {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.timekept = None;
        if shared.state.next_wake(Instant::now()).is_some() {
            self.0.ready.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
