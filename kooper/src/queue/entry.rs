//! What the queue remembers of one key.

use std::time::Duration;

use tokio::time::Instant;

use super::writes::{Echo, Notes, Write};
use super::{Id, Lane, Outcome, Urgency};
use crate::backoff::Bucket;
use crate::object::key::ObjectKey;
use crate::queue::reason::Reasons;

/// Orders the waiting keys: the time of the add plus the lane's head start,
/// then the order of arrival.
pub(super) type Place = (Instant, u64, Id);

/// A failing key is run by changes that are not urgent at most this often.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// A failing key is run by urgent changes this often in a row, and then once
/// in each interval.
const URGENT: (Duration, u32) = (Duration::from_secs(10), 5);

/// What a timer of a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// It was asked for.
    Requeue,
    /// An add that is held back.
    Held,
    /// A retry, which draws on the bucket of all keys.
    Retry,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: ObjectKey,
    pub(super) reasons: Reasons,
    /// In the queue, at this place.
    pub(super) place: Option<Place>,
    /// Out of the queue until a cache shows what the key's calls wrote; then
    /// at this place again.
    pub(super) parked: Option<Place>,
    /// When it was first added since it was last taken.
    pub(super) added_at: Option<Instant>,
    /// A worker has it.
    pub(super) run: Option<Box<Run>>,
    /// It has failed since its last success.
    pub(super) failing: Option<Box<Failing>>,
    /// What its calls wrote.
    pub(super) notes: Notes,
    pub(super) pending: Option<(Instant, Timer)>,
    pub(super) resync_at: Option<Instant>,
    /// When the resync was due that the next run, or this one, comes from.
    pub(super) phase: Option<Instant>,
    /// How many calls in a row asked to come back at once.
    pub(super) repeats: u32,
}

/// One run of a key, from its worker's taking it to its giving it back.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) number: u64,
    /// It comes from the first list alone, or from that of a new term.
    pub(super) initial: bool,
    /// Adds that came meanwhile.
    pub(super) again: Option<(Lane, Urgency)>,
    /// Changes that came meanwhile, which may be echoes of its writes.
    pub(super) heard: Vec<Heard>,
}

#[derive(Debug)]
pub(super) struct Heard {
    pub(super) event: Write,
    pub(super) lane: Lane,
    pub(super) urgency: Urgency,
}

#[derive(Debug)]
pub(super) struct Failing {
    /// In a row, since the last success or urgent change.
    pub(super) failures: u32,
    /// Of the budget of retries.
    pub(super) tries: u32,
    /// The back-off delay that the last failure set.
    pub(super) delay: Duration,
    /// When a change that is not urgent last ran the key.
    pub(super) event_run: Option<Instant>,
    /// The server asked for a pause until then.
    pub(super) pause: Option<Instant>,
    /// What urgent changes draw on.
    pub(super) tokens: Bucket,
    /// An urgent change came for which there was no token yet.
    pub(super) owed: bool,
    /// Permission is missing: the refusal, and the place in its line.
    pub(super) barred: Option<(u64, u64)>,
}

impl Entry {
    pub(super) fn new(key: ObjectKey) -> Self {
        Self {
            key,
            reasons: Reasons::default(),
            place: None,
            parked: None,
            added_at: None,
            run: None,
            failing: None,
            notes: Notes::default(),
            pending: None,
            resync_at: None,
            phase: None,
            repeats: 0,
        }
    }

    /// Whether there is nothing to remember of the key.
    pub(super) fn is_idle(&self) -> bool {
        self.place.is_none()
            && self.parked.is_none()
            && self.run.is_none()
            && self.failing.is_none()
            && self.notes.is_empty()
            && self.pending.is_none()
            && self.resync_at.is_none()
    }

    /// Whether a retry of the failing key is planned, so that nothing but a
    /// change brings it forward.
    pub(super) fn is_held(&self) -> bool {
        self.failing.as_ref().is_some_and(|failing| failing.barred.is_some() || self.pending.is_some())
    }
}

impl Entry {
    /// What brings the key back at once when its run ends. The echoes of its
    /// own writes bring back no key that failed, and those of the runtime none.
    pub(super) fn news(&self, run: &Run, outcome: Outcome) -> Option<(Lane, Urgency)> {
        let changes = run.heard.iter().filter_map(|heard| match self.notes.echo(&heard.event) {
            Echo::Foreign => Some((heard.lane, heard.urgency)),
            Echo::Own if outcome.is_failure() => None,
            Echo::Silent if outcome != Outcome::Gone => None,
            Echo::Own | Echo::Silent => Some((heard.lane, Urgency::Idle)),
        });
        let all = changes.chain(run.again);
        all.reduce(|(lane, urgency), other| (lane.min(other.0), urgency.max(other.1)))
    }
}

impl Run {
    /// The key was added while it runs.
    pub(super) fn again(&mut self, lane: Lane, urgency: Urgency) {
        let (before, most) = self.again.unwrap_or((lane, urgency));
        self.again = Some((before.min(lane), most.max(urgency)));
    }
}

impl Failing {
    pub(super) fn new(now: Instant) -> Self {
        let (interval, burst) = URGENT;
        Self {
            failures: 0,
            tries: 0,
            delay: Duration::ZERO,
            event_run: None,
            pause: None,
            tokens: Bucket::every(interval, burst, now),
            owed: false,
            barred: None,
        }
    }

    /// Begins the back-off anew.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
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
