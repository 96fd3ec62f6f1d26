//! The queue's state of one key.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::compact_instant::CompactInstant;
use super::writes::{Revision, TrackedWrites, WriteOrigin};
use super::{AddOptions, Completion, Lane, Urgency};
use crate::backoff::TokenBucket;
use crate::object::key::ObjectKey;
use crate::queue::reason::{Reason, Reasons};

/// The position of a waiting key: the time of the add plus the delay of its lane,
/// then the order of arrival.
pub(super) type QueuePlace = (CompactInstant, u64);

/// Changes that are not urgent run a failing key at most once in this time.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// Urgent changes run a failing key this often in a row, and then once in each
/// interval.
const URGENT: (Duration, u32) = (Duration::from_secs(10), 5);

/// The most events during a run that may turn out to be echoes of its writes. Beyond
/// it the first ones, whose response has most likely been received, count as changes
/// by other clients.
const UNKNOWN: usize = 1024;

/// The longest time for which adds are debounced, in intervals.
const LONGEST_DEBOUNCE: u32 = 10;

/// The purpose of a key's timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// A requeue that was requested.
    Requeue,
    /// An add that is delayed.
    Held,
    /// A retry; it takes a token from the bucket that all keys share.
    Retry,
    /// The repetition of a call that met a conflict.
    Conflict,
}

#[derive(Debug)]
pub(super) struct KeyEntry {
    pub(super) key: ObjectKey,
    pub(super) reasons: Reasons,
    /// Its position in the queue.
    pub(super) place: Option<QueuePlace>,
    /// `true` until the caches have its calls' writes: only then it returns to its position, and is in the queue.
    pub(super) is_parked: bool,
    /// The lane of its position.
    pub(super) lane: Lane,
    /// The last priority of its object that is known.
    pub(super) priority: i32,
    /// `true` if it is that of the object's current state.
    pub(super) prioritized: bool,
    /// Since when a worker could take it.
    pub(super) added_at: Option<CompactInstant>,
    /// The run, while a worker processes it.
    pub(super) run: Option<Box<KeyRun>>,
    /// The failures since its last success.
    pub(super) failing: Option<Box<KeyFailures>>,
    /// The writes of its calls.
    pub(super) writes: TrackedWrites,
    pub(super) pending: Option<(CompactInstant, Timer)>,
    /// The adds that are debounced.
    pub(super) debounced: Option<Box<Debounced>>,
    pub(super) resync_at: Option<CompactInstant>,
    /// When the resync was due that caused the current or the next run.
    pub(super) phase: Option<CompactInstant>,
    /// The number of calls in a row that requested an immediate requeue.
    pub(super) repeats: u32,
    /// The number of calls in a row that met a conflict.
    pub(super) conflicts: u32,
}

/// One run of a key, from when a worker takes it until the worker returns it.
#[derive(Debug, Default)]
pub(super) struct KeyRun {
    pub(super) number: u64,
    /// `true` if its only reason is the first list or a new term of leadership.
    pub(super) initial: bool,
    /// `true` if the cache lacked an own write to the object when it began.
    pub(super) is_behind: bool,
    /// `true` if the key runs again soon if this run succeeds: it has left something as the object was.
    pub(super) is_repeated: bool,
    /// The adds during the run, and the changes by other clients.
    pub(super) again: Option<AddOptions>,
    /// The echoes of its writes.
    pub(super) echoes: Option<Echoes>,
    /// The other events during the run: a write whose response is still on its way may
    /// have caused them.
    pub(super) unknown: VecDeque<ObservedEvent>,
}

/// The echoes that were received during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Echoes {
    options: AddOptions,
    /// `true` if all of them are echoes of the runtime's own writes.
    are_silent: bool,
}

#[derive(Debug)]
pub(super) struct ObservedEvent {
    pub(super) event: Revision,
    pub(super) options: AddOptions,
}

/// Adds that wait until a key has been quiet for the debounce interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Debounced {
    /// When the first of them arrived.
    since: Instant,
    pub(super) options: AddOptions,
    /// When they queue the key.
    pub(super) at: Instant,
}

#[derive(Debug)]
pub(super) struct KeyFailures {
    /// The failures in a row since the last success or urgent change.
    pub(super) failures: u32,
    /// Those of them that are retried with back-off, which other failures do not lengthen.
    pub(super) backoffs: u32,
    /// The failures that count towards the limit of retries.
    pub(super) tries: u32,
    /// The back-off delay after the last failure.
    pub(super) delay: Duration,
    /// When a change that is not urgent last ran the key.
    pub(super) event_run: Option<Instant>,
    /// Until when the server requested a pause.
    pub(super) pause: Option<Instant>,
    /// The tokens for runs because of urgent changes.
    pub(super) tokens: TokenBucket,
    /// `true` if an urgent change still waits for a token.
    pub(super) owed: bool,
    /// If a permission is missing: the refusal, and the place in its line.
    pub(super) forbidden: Option<(u64, u64)>,
}

impl KeyEntry {
    pub(super) fn new(key: ObjectKey) -> Self {
        Self {
            key,
            reasons: Reasons::default(),
            place: None,
            is_parked: false,
            lane: Lane::Background,
            priority: 0,
            prioritized: false,
            added_at: None,
            run: None,
            failing: None,
            writes: TrackedWrites::default(),
            pending: None,
            debounced: None,
            resync_at: None,
            phase: None,
            repeats: 0,
            conflicts: 0,
        }
    }

    /// Records why it is queued. A new state of the object may have another priority.
    pub(super) fn add_reason(&mut self, reason: Reason) {
        self.prioritized &= !reason.is_new_state();
        self.reasons.add(reason);
    }

    /// Its position, while a worker could take it.
    pub(super) fn queued(&self) -> Option<QueuePlace> {
        self.place.filter(|_| !self.is_parked)
    }

    /// Returns `true` if the entry has no state that must be kept.
    pub(super) fn is_idle(&self) -> bool {
        self.place.is_none()
            && self.run.is_none()
            && self.failing.is_none()
            && self.writes.is_empty()
            && self.pending.is_none()
            && self.debounced.is_none()
            && self.resync_at.is_none()
    }

    /// Returns `true` if the key fails and a retry is scheduled. Only a change runs it
    /// earlier.
    pub(super) fn is_held(&self) -> bool {
        self.failing.as_ref().is_some_and(|failing| failing.forbidden.is_some() || self.pending.is_some())
    }
}

impl KeyRun {
    /// The adds and events that queue the key again as soon as its run ends. The
    /// echoes of its own writes do not queue a key that failed, and those of the
    /// runtime's writes never queue one.
    pub(super) fn next_add(&self, completion: Completion) -> Option<AddOptions> {
        let echoes = self.echoes.filter(|echoes| {
            let counts = !echoes.are_silent || completion == Completion::Gone;
            counts && !completion.is_failure()
        });
        let echoes = echoes.map(|echoes| AddOptions { urgency: Urgency::Idle, ..echoes.options });
        let changes = self.unknown.iter().map(|observed| observed.options);
        changes.chain(self.again).chain(echoes).reduce(AddOptions::merge)
    }

    /// Returns `true` if there was no add and no event since the run began.
    pub(super) fn is_alone(&self) -> bool {
        self.again.is_none() && self.echoes.is_none() && self.unknown.is_empty()
    }

    /// Records an add during the run.
    pub(super) fn record_add(&mut self, options: AddOptions) {
        self.again = Some(self.again.map_or(options, |before| before.merge(options)));
    }

    /// Records an event during the run, as far as it is known whose write it reports.
    pub(super) fn record_event(&mut self, observed: ObservedEvent, origin: WriteOrigin) {
        if origin != WriteOrigin::Foreign {
            return self.record_echo(observed.options, origin);
        }
        if self.unknown.len() >= UNKNOWN
            && let Some(first) = self.unknown.pop_front()
        {
            self.record_add(first.options);
        }
        self.unknown.push_back(observed);
    }

    /// Records a write by the call: its event may have been received before its response.
    pub(super) fn record_write(&mut self, write: &Revision, origin: WriteOrigin) {
        if origin == WriteOrigin::Foreign {
            return;
        }
        while let Some(index) = self.unknown.iter().position(|observed| observed.is_echo_of(write))
            && let Some(observed) = self.unknown.remove(index)
        {
            self.record_echo(observed.options, if write.version.is_none() { WriteOrigin::Own } else { origin });
        }
    }

    fn record_echo(&mut self, options: AddOptions, origin: WriteOrigin) {
        let is_silent = origin == WriteOrigin::Silent;
        let before = self.echoes.unwrap_or(Echoes { options, are_silent: is_silent });
        self.echoes =
            Some(Echoes { options: before.options.merge(options), are_silent: before.are_silent && is_silent });
    }
}

impl Debounced {
    /// Adds one to those that wait already.
    pub(super) fn with(before: Option<Self>, options: AddOptions, interval: Duration, now: Instant) -> Self {
        let since = before.map_or(now, |before| before.since);
        Self {
            since,
            options: before.map_or(options, |before| before.options.merge(options)),
            // A key that is never quiet runs, too.
            at: (now + interval).min(since + interval * LONGEST_DEBOUNCE),
        }
    }
}

impl ObservedEvent {
    /// Returns `true` if this is the event of a write. The deletion of the handled object
    /// and its deletion timestamp count as changes, even if they are own writes.
    fn is_echo_of(&self, write: &Revision) -> bool {
        let ends = self.options.urgency == Urgency::Always || self.event.is_deletion_of_handled();
        self.event == *write && !ends
    }
}

impl KeyFailures {
    pub(super) fn new(now: Instant) -> Self {
        let (interval, burst) = URGENT;
        Self {
            failures: 0,
            backoffs: 0,
            tries: 0,
            delay: Duration::ZERO,
            event_run: None,
            pause: None,
            tokens: TokenBucket::every(interval, burst, now),
            owed: false,
            forbidden: None,
        }
    }

    /// Resets the back-off.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.backoffs = 0;
        self.tries = 0;
        self.delay = Duration::ZERO;
        self.event_run = None;
        self.pause = None;
        self.owed = false;
    }

    /// When a change that is not urgent may run the key.
    pub(super) fn next_change(&self, now: Instant) -> Instant {
        let free = self.event_run.map_or(now, |ran| ran + self.delay.min(LONGEST_HOLD));
        self.pause.map_or(free, |pause| pause.max(free)).max(now)
    }
}
