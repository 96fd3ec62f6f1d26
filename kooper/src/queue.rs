//! The work queue: which key a worker takes next.
//!
//! It holds keys, never objects. A key is in it once, however often it is
//! added; it is with one worker at a time; touched while a worker has it, it
//! runs once more. Real events go before retries, retries before resync and
//! the first list; each lane is given a head start over the next, not a
//! lasting precedence, so that nothing starves.

mod barred;
mod entries;
mod entry;
mod outcome;
pub(crate) mod reason;
mod state;
mod urgency;
mod writes;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::backoff::Backoff;
use crate::metrics::held::{Held, drop_aside};
use crate::object::key::ObjectKey;
use crate::queue::reason::{Reason, Reasons};

use state::State;

pub(crate) use outcome::{Outcome, Returned};
pub(crate) use urgency::Urgency;
pub(crate) use writes::{Echo, View, Write};

/// Names a key's entry for as long as it is there.
type Id = u32;

/// What the queue needs to know of a controller.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// The delays of failing keys, each key's own.
    pub backoff: Backoff,
    /// How often a failing key is retried; `None` is without a limit.
    pub retries: Option<u32>,
    /// Retries of all keys together: so many a second, after a burst.
    pub retry_rate: (u32, u32),
    /// Every known key comes back after this long without a run.
    pub resync: Option<Duration>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { backoff: Backoff::default(), retries: None, retry_rate: (10, 100), resync: None }
    }
}

/// Which keys wait behind which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Something happened to the object, or the key came from outside.
    Event,
    /// A failed key, or one that asked to come back.
    Retry,
    /// Resync, the first list.
    Background,
}

/// A key that a worker has taken, with why and since when.
#[derive(Debug)]
pub struct Item {
    /// The key; no other worker has it until [`WorkQueue::done`].
    pub key: ObjectKey,
    /// Why it was queued.
    pub reasons: Reasons,
    /// Which try this is since the last success, or since an urgent add has
    /// reset the back-off, from 1.
    pub attempt: u32,
    /// How long the key waited, from the first add since it was last taken.
    pub waited: Duration,
    pub(crate) ticket: Ticket,
}

/// One run of a key: it is given back once, however often that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    id: Id,
    number: u64,
}

/// A de-duplicating queue of keys with lanes, delays, retries and resync.
///
/// The verbs are those of client-go's work queue.
#[derive(Debug)]
pub struct WorkQueue {
    shared: Mutex<Shared>,
    /// A key is ready, or no consumer waits for the next timer.
    ready: Notify,
    /// The next timer has changed: for the timekeeper.
    earlier: Notify,
}

#[derive(Debug)]
struct Shared {
    state: State,
    /// Whether one of the consumers that wait has taken on the timers.
    timekept: bool,
}

/// The one consumer that waits for the next timer, so that a due timer wakes
/// one and not all. When it leaves, with a key or without, another takes over.
struct Timekeeper<'a>(&'a WorkQueue);

impl WorkQueue {
    /// An empty queue.
    pub fn new(options: QueueOptions) -> Self {
        let state = State::new(options, Instant::now());
        Self { shared: Mutex::new(Shared { state, timekept: false }), ready: Notify::new(), earlier: Notify::new() }
    }

    /// Queues a key, or notes one more reason on it. A key that fails is held
    /// back by its back-off, as far as the reason is not urgent: `External`,
    /// `Added` and `Deleted` run it at once, other changes at least once in ten
    /// seconds, and the others when its delay is over.
    pub fn add(&self, key: &ObjectKey, lane: Lane, reason: Reason) {
        let urgency = Urgency::of(&reason);
        self.add_urgent(key, lane, reason, urgency);
    }

    /// As [`add`](Self::add), where more is known than the reason.
    pub(crate) fn add_urgent(&self, key: &ObjectKey, lane: Lane, reason: Reason, urgency: Urgency) {
        self.update(|state, now| state.add(key, lane, reason, urgency, now));
    }

    /// As [`add_urgent`](Self::add_urgent), because of an event that may be the
    /// echo of a write of the key's own calls. `urgency` and `event` are asked
    /// where they matter.
    pub(crate) fn hear(
        &self,
        key: &ObjectKey,
        lane: Lane,
        reason: Reason,
        urgency: impl FnOnce() -> Urgency,
        event: impl FnOnce() -> Write,
    ) {
        let minds = self.lock().state.minds(key);
        // It may take long: the queue is not locked. A call that began since
        // sees the change, and is not failing yet.
        let urgency = if minds { urgency() } else { Urgency::Soon };
        self.update(|state, now| state.hear(key, lane, reason, urgency, event, now));
    }

    /// A write of a call of the key was answered by this version of an object:
    /// the key waits until the cache has it. `echo` is what the event of that
    /// version is: of a write that changed nothing, it is another client's.
    pub(crate) fn wrote(&self, key: &ObjectKey, write: &Write, echo: Echo) {
        self.update(|state, now| state.wrote(key, write, echo, now));
    }

    /// A cache has come to an event of an object, or to a later one.
    pub(crate) fn saw(&self, event: impl FnOnce() -> Write) {
        if self.lock().state.awaits() {
            let event = event();
            self.update(|state, _| state.saw(&event));
        }
    }

    /// Queues a key after a delay, which replaces an earlier one of the key.
    pub fn add_after(&self, key: &ObjectKey, delay: Duration) {
        self.update(|state, now| state.add_after(key, delay, now));
    }

    /// Plans the resync of a key whose object is known and needs no run now.
    pub(crate) fn remember(&self, key: &ObjectKey) {
        self.update(|state, now| state.remember(key, now));
    }

    /// The next key, or `None` when the queue is shut down.
    pub async fn get(&self) -> Option<Item> {
        let mut timekeeper = None;
        loop {
            let ready = self.ready.notified();
            tokio::pin!(ready);
            ready.as_mut().enable();
            let deadline = {
                let mut shared = self.lock();
                if shared.state.is_shut_down() {
                    return None;
                }
                let now = Instant::now();
                shared.state.wake(now);
                if let Some(item) = shared.state.take(now) {
                    // Several adds may have left one permit.
                    if shared.state.ready() > 0 {
                        self.ready.notify_one();
                    }
                    return Some(item);
                }
                let deadline = shared.state.next_wake(now);
                if timekeeper.is_none() && deadline.is_some() && !shared.timekept {
                    shared.timekept = true;
                    timekeeper = Some(Timekeeper(self));
                }
                deadline
            };
            match deadline.filter(|_| timekeeper.is_some()) {
                Some(at) => tokio::select! {
                    () = ready => {}
                    () = self.earlier.notified() => {}
                    () = sleep_until(at) => {}
                },
                None => {
                    // Where nothing is to be waited for, no one waits for the next timer.
                    drop(timekeeper.take());
                    ready.await;
                }
            }
        }
    }

    /// Gives back a key whose call succeeded: forgets its failures, and queues
    /// it again if it was added meanwhile.
    pub fn done(&self, item: &Item) {
        self.finish(item.ticket, Outcome::Success(None));
    }

    /// Gives back a key whose call failed: it comes back with back-off.
    pub fn add_rate_limited(&self, item: &Item) {
        self.finish(item.ticket, Outcome::Failure);
    }

    /// Gives back a key with what became of its call; returns when it runs
    /// next. A key that was given back already is left alone.
    pub(crate) fn finish(&self, ticket: Ticket, outcome: Outcome) -> Returned {
        self.update(|state, now| state.finish(ticket, outcome, now))
    }

    /// Forgets a key whose object is gone: its failures, delays and resync.
    /// Queued or running, it stays so.
    pub fn forget(&self, key: &ObjectKey) {
        self.update(|state, now| state.forget(key, now));
    }

    /// Forgets every key. One that a worker has is given back to no effect.
    pub(crate) fn clear(&self) {
        drop_aside(self.update(State::clear));
    }

    /// How many keys wait for a worker now; delayed ones do not count.
    pub fn len(&self) -> usize {
        self.lock().state.ready()
    }

    /// Whether no key waits for a worker now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys the queue knows of: waiting, running, delayed or failing.
    pub fn known(&self) -> usize {
        self.lock().state.known()
    }

    /// No more keys are given out; [`get`](Self::get) answers `None`.
    pub fn shut_down(&self) {
        self.lock().state.shut_down();
        self.ready.notify_waiters();
        self.ready.notify_one();
    }

    fn update<T>(&self, change: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut shared = self.lock();
        let now = Instant::now();
        let state = &mut shared.state;
        let before = (state.ready(), state.earliest());
        let result = change(state, now);
        let (added, timer) = (state.ready() > before.0, state.earliest() != before.1);
        let timekept = shared.timekept;
        drop(shared);
        if added || (timer && !timekept) {
            self.ready.notify_one();
        }
        if timer && timekept {
            self.earlier.notify_one();
        }
        result
    }

    fn lock(&self) -> Held<MutexGuard<'_, Shared>> {
        // No user code runs under the lock, so a poisoned one is still whole.
        Held::new(self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Timekeeper<'_> {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.timekept = false;
        if shared.state.earliest().is_some() {
            self.0.ready.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
