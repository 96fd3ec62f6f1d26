//! The queue's state, without waiting: every transition takes the time as an
//! argument.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use super::{Item, Lane, QueueOptions};
use crate::backoff::{Bucket, fraction};
use crate::key::ObjectKey;
use crate::reason::{Reason, Reasons};

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeded, and may have asked to come back.
    Success(Option<Duration>),
    /// It failed and is retried with back-off, as often as the options say.
    Failure,
    /// It failed and said when to come back.
    FailureAfter(Duration),
    /// It failed and waits for the next event.
    FailureForGood,
    /// The object is gone: nothing of the key is remembered.
    Gone,
}

/// What happens next to a key that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Returned {
    /// Whether its failed call is retried.
    pub(crate) retried: bool,
    /// How long until it runs without a new event: queued again, retried, or
    /// resynced, whichever comes first.
    pub(crate) next: Option<Duration>,
}

/// No delay is longer: ten years are for ever, and no clock overflows.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

fn later(now: Instant, delay: Duration) -> Instant {
    now + delay.min(LONGEST)
}

type Id = u32;

/// Orders the waiting keys: the time of the add plus the lane's head start,
/// then the order of arrival.
type Place = (Instant, u64, Id);

#[derive(Debug)]
struct Entry {
    key: ObjectKey,
    reasons: Reasons,
    /// In the queue, at this place.
    place: Option<Place>,
    /// When it was first added since it was last taken.
    added_at: Option<Instant>,
    /// A worker has it.
    running: bool,
    /// The lane of an add that came while a worker had it.
    again: Option<Lane>,
    failures: u32,
    /// The back-off delay that the last failure set.
    delay: Duration,
    /// When an event last ran this failing key.
    event_run: Option<Instant>,
    /// The wish to come back: when, and whether it is a retry that draws on
    /// the bucket.
    pending: Option<(Instant, bool)>,
    resync_at: Option<Instant>,
    /// When the resync was due that the running call comes from.
    phase: Option<Instant>,
    /// Whether the running call comes from the first list alone, or from that of
    /// a new term.
    initial: bool,
}

impl Entry {
    /// Forgets that the key ever failed.
    fn heal(&mut self) {
        self.failures = 0;
        self.event_run = None;
        self.delay = Duration::ZERO;
    }
}

#[derive(Debug)]
pub(super) struct State {
    options: QueueOptions,
    ids: HashMap<ObjectKey, Id>,
    entries: Vec<Option<Entry>>,
    free: Vec<Id>,
    waiting: BTreeSet<Place>,
    /// Delayed keys: requeues and events held back by a back-off.
    delayed: BTreeSet<(Instant, Id)>,
    /// Failed keys; when due, each needs a token.
    retries: BTreeSet<(Instant, Id)>,
    resyncs: BTreeSet<(Instant, Id)>,
    bucket: Bucket,
    arrivals: u64,
    spread: RandomState,
    shut_down: bool,
}

/// By how much a lane's keys are overtaken by those of the lanes before it.
const fn head_start(lane: Lane) -> Duration {
    match lane {
        Lane::Event => Duration::ZERO,
        Lane::Retry => Duration::from_secs(1),
        Lane::Background => Duration::from_secs(10),
    }
}

impl State {
    pub(super) fn new(options: QueueOptions, now: Instant) -> Self {
        let (rate, burst) = options.retry_rate;
        Self {
            bucket: Bucket::new(rate, burst, now),
            options,
            ids: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            waiting: BTreeSet::new(),
            delayed: BTreeSet::new(),
            retries: BTreeSet::new(),
            resyncs: BTreeSet::new(),
            arrivals: 0,
            spread: RandomState::new(),
            shut_down: false,
        }
    }

    pub(super) fn add(&mut self, key: &ObjectKey, lane: Lane, reason: Reason, now: Instant) {
        let id = self.id(key);
        let Some(entry) = entry(&mut self.entries, id) else { return };
        entry.reasons.add(reason);
        entry.added_at.get_or_insert(now);
        if entry.running {
            entry.again = Some(entry.again.map_or(lane, |before| before.min(lane)));
        } else {
            self.admit(id, lane, now);
        }
    }

    /// A write that a call of the key made itself has come back.
    pub(super) fn add_own(&mut self, key: &ObjectKey, lane: Lane, reason: Reason, now: Instant) {
        let failing = self.ids.get(key).and_then(|&id| self.entries.get(id as usize)?.as_ref());
        if failing.is_none_or(|entry| entry.failures == 0 || entry.running) {
            self.add(key, lane, reason, now);
        }
    }

    pub(super) fn is_touched(&self, key: &ObjectKey) -> bool {
        let entry = self.ids.get(key).and_then(|&id| self.entries.get(id as usize)?.as_ref());
        entry.is_some_and(|entry| entry.again.is_some())
    }

    /// What was heard of objects during the running call of a key was its own
    /// doing. Whatever else was heard stays.
    pub(super) fn unheard(&mut self, key: &ObjectKey) {
        if let Some(&id) = self.ids.get(key)
            && let Some(entry) = entry(&mut self.entries, id)
            && entry.reasons.only_objects()
        {
            entry.again = None;
            entry.reasons = Reasons::default();
            entry.added_at = None;
        }
    }

    /// Plans the resync of a key that is not to run now.
    pub(super) fn remember(&mut self, key: &ObjectKey, now: Instant) {
        if self.options.resync.is_some() {
            let id = self.id(key);
            if entry(&mut self.entries, id).is_some_and(|entry| entry.resync_at.is_none() && !entry.running) {
                self.plan_resync(id, true, now);
            }
        }
    }

    pub(super) fn add_after(&mut self, key: &ObjectKey, delay: Duration, now: Instant) {
        let id = self.id(key);
        self.set_pending(id, Some((later(now, delay), false)));
    }

    /// Moves what is due into the queue.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some(id) = due(&self.delayed, now) {
            self.set_pending(id, None);
            // An event that a back-off held back has its reason already.
            let held = entry(&mut self.entries, id).is_some_and(|entry| {
                let held = !entry.reasons.is_empty();
                if held && entry.failures > 0 {
                    entry.event_run = Some(now);
                }
                held
            });
            self.arrive(id, Lane::Retry, (!held).then_some(Reason::Requeue), now);
        }
        while let Some(id) = due(&self.retries, now) {
            if self.bucket.take(now).is_err() {
                break;
            }
            self.set_pending(id, None);
            self.arrive(id, Lane::Retry, Some(Reason::Retry), now);
        }
        while let Some(id) = due(&self.resyncs, now) {
            if let Some(entry) = entry(&mut self.entries, id) {
                entry.phase = entry.resync_at;
            }
            self.set_resync(id, None);
            self.arrive(id, Lane::Background, Some(Reason::Resync), now);
        }
    }

    /// When [`wake`](Self::wake) has something to do next.
    pub(super) fn next_wake(&mut self, now: Instant) -> Option<Instant> {
        let retry = self.retries.first().map(|(at, _)| (*at).max(self.bucket.next(now)));
        [retry, self.delayed.first().map(|(at, _)| *at), self.resyncs.first().map(|(at, _)| *at)]
            .into_iter()
            .flatten()
            .min()
    }

    /// The earliest timer, whatever the bucket says: a change of it is news
    /// to a worker that sleeps.
    pub(super) fn earliest(&self) -> Option<Instant> {
        [&self.retries, &self.delayed, &self.resyncs].into_iter().filter_map(|set| set.first()).map(|(at, _)| *at).min()
    }

    pub(super) fn take(&mut self, now: Instant) -> Option<Item> {
        let place = self.waiting.pop_first()?;
        let entry = entry(&mut self.entries, place.2)?;
        entry.place = None;
        entry.running = true;
        let reasons = std::mem::take(&mut entry.reasons);
        entry.initial = reasons.only_first();
        entry.phase = entry.phase.filter(|_| reasons.only_resync());
        let item = Item {
            key: entry.key.clone(),
            reasons,
            attempt: entry.failures.saturating_add(1),
            waited: entry.added_at.take().map_or(Duration::ZERO, |added| now.saturating_duration_since(added)),
        };
        // The run takes the place of whatever was to wake the key.
        self.set_pending(place.2, None);
        self.set_resync(place.2, None);
        Some(item)
    }

    pub(super) fn finish(&mut self, key: &ObjectKey, outcome: Outcome, now: Instant) -> Returned {
        let Some(&id) = self.ids.get(key) else { return Returned::default() };
        let Some(entry) = entry(&mut self.entries, id) else { return Returned::default() };
        if !entry.running {
            return Returned::default();
        }
        entry.running = false;
        let initial = entry.initial;
        let mut retried = false;
        match outcome {
            Outcome::Success(delay) => {
                entry.heal();
                self.set_pending(id, delay.map(|delay| (later(now, delay), false)));
            }
            Outcome::Gone => {
                entry.heal();
                self.set_pending(id, None);
                self.run_again(id, now);
                self.drop_if_idle(id);
                return Returned::default();
            }
            Outcome::Failure | Outcome::FailureAfter(_) | Outcome::FailureForGood => {
                entry.failures = entry.failures.saturating_add(1);
                let delay = match outcome {
                    Outcome::FailureAfter(delay) => delay,
                    // A change may heal it: no event is held back.
                    Outcome::FailureForGood => Duration::ZERO,
                    _ => self.options.backoff.delay(entry.failures),
                };
                let delay = delay.min(LONGEST);
                entry.delay = delay;
                let spent = self.options.retries.is_some_and(|limit| entry.failures > limit);
                retried = !spent && outcome != Outcome::FailureForGood;
                self.set_pending(id, retried.then(|| (later(now, delay), true)));
            }
        }
        self.plan_resync(id, initial, now);
        self.run_again(id, now);
        let next = self.next_run(id, now);
        self.drop_if_idle(id);
        Returned { retried, next }
    }

    /// How long until a key runs without a new event.
    fn next_run(&mut self, id: Id, now: Instant) -> Option<Duration> {
        let entry = entry(&mut self.entries, id)?;
        let queued = entry.place.map(|_| now);
        let at = queued.into_iter().chain(entry.pending.map(|(at, _)| at)).chain(entry.resync_at).min()?;
        Some(at.saturating_duration_since(now))
    }

    pub(super) fn forget(&mut self, key: &ObjectKey, now: Instant) {
        let Some(&id) = self.ids.get(key) else { return };
        self.set_pending(id, None);
        self.set_resync(id, None);
        if let Some(entry) = entry(&mut self.entries, id) {
            entry.heal();
            // An event that the back-off held back has its run now.
            if !entry.reasons.is_empty() && entry.place.is_none() && !entry.running {
                self.enqueue(id, Lane::Event, now);
            }
        }
        self.drop_if_idle(id);
    }

    pub(super) fn clear(&mut self, now: Instant) {
        *self = Self { shut_down: self.shut_down, ..Self::new(self.options.clone(), now) };
    }

    pub(super) fn ready(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn known(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn shut_down(&mut self) {
        self.shut_down = true;
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    /// A key that was added while its call ran runs once more.
    fn run_again(&mut self, id: Id, now: Instant) {
        let Some(entry) = entry(&mut self.entries, id) else { return };
        let Some(lane) = entry.again.take() else { return };
        self.admit(id, lane, now);
    }

    /// Queues a key, or holds it back: one that fails is run by an event at
    /// most once in each back-off delay. The next run takes the reason along.
    fn admit(&mut self, id: Id, lane: Lane, now: Instant) {
        let Some(entry) = entry(&mut self.entries, id) else { return };
        if lane == Lane::Event
            && entry.place.is_none()
            && let Some(ran) = entry.event_run
            && now < ran + entry.delay
        {
            let at = ran + entry.delay;
            if entry.pending.is_none_or(|(due, _)| due > at) {
                self.set_pending(id, Some((at, false)));
            }
            return;
        }
        if lane == Lane::Event && entry.failures > 0 {
            entry.event_run = Some(now);
        }
        self.enqueue(id, lane, now);
    }

    /// A timer of the key has fired.
    fn arrive(&mut self, id: Id, lane: Lane, reason: Option<Reason>, now: Instant) {
        let Some(entry) = entry(&mut self.entries, id) else { return };
        if let Some(reason) = reason {
            entry.reasons.add(reason);
        }
        entry.added_at.get_or_insert(now);
        if entry.running {
            entry.again = Some(entry.again.map_or(lane, |before| before.min(lane)));
        } else {
            self.enqueue(id, lane, now);
        }
    }

    fn enqueue(&mut self, id: Id, lane: Lane, now: Instant) {
        let Some(entry) = entry(&mut self.entries, id) else { return };
        let at = now + head_start(lane);
        match entry.place {
            // It waits already, at a better place.
            Some((before, ..)) if before <= at => return,
            Some(place) => {
                self.waiting.remove(&place);
            }
            None => {}
        }
        let place = (at, self.arrivals, id);
        self.arrivals += 1;
        entry.place = Some(place);
        self.waiting.insert(place);
    }

    fn set_pending(&mut self, id: Id, wish: Option<(Instant, bool)>) {
        let Some(entry) = entry(&mut self.entries, id) else { return };
        if let Some((at, retry)) = std::mem::replace(&mut entry.pending, wish) {
            let set = if retry { &mut self.retries } else { &mut self.delayed };
            set.remove(&(at, id));
        }
        if let Some((at, retry)) = wish {
            let set = if retry { &mut self.retries } else { &mut self.delayed };
            set.insert((at, id));
        }
    }

    fn set_resync(&mut self, id: Id, at: Option<Instant>) {
        let Some(entry) = entry(&mut self.entries, id) else { return };
        if let Some(before) = std::mem::replace(&mut entry.resync_at, at) {
            self.resyncs.remove(&(before, id));
        }
        if let Some(at) = at {
            self.resyncs.insert((at, id));
        }
    }

    /// Every run moves the key's resync on. After the first list the keys are
    /// spread over the whole interval; from then on each keeps its phase. An
    /// event gives it a new one, a little shorter than the interval, by up to
    /// a tenth, so that keys that changed together drift apart.
    fn plan_resync(&mut self, id: Id, initial: bool, now: Instant) {
        let Some(interval) = self.options.resync else { return };
        let Some(entry) = entry(&mut self.entries, id) else { return };
        let interval = interval.min(LONGEST);
        if let Some(phase) = entry.phase.take() {
            return self.set_resync(id, Some((phase + interval).max(now)));
        }
        let part = if initial {
            fraction(self.spread.hash_one(&entry.key))
        } else {
            1.0 - fraction(self.arrivals ^ u64::from(id).rotate_left(32)) / 10.0
        };
        self.set_resync(id, Some(now + interval.mul_f64(part)));
    }

    fn id(&mut self, key: &ObjectKey) -> Id {
        if let Some(&id) = self.ids.get(key) {
            return id;
        }
        let entry = Entry {
            key: key.clone(),
            reasons: Reasons::default(),
            place: None,
            added_at: None,
            running: false,
            again: None,
            failures: 0,
            delay: Duration::ZERO,
            event_run: None,
            pending: None,
            resync_at: None,
            phase: None,
            initial: false,
        };
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(slot) = self.entries.get_mut(id as usize) {
                    *slot = Some(entry);
                }
                id
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as Id
            }
        };
        self.ids.insert(key.clone(), id);
        id
    }

    /// An entry stays as long as something is to be remembered of its key.
    fn drop_if_idle(&mut self, id: Id) {
        let Some(entry) = entry(&mut self.entries, id) else { return };
        let idle = entry.place.is_none()
            && !entry.running
            && entry.failures == 0
            && entry.pending.is_none()
            && entry.resync_at.is_none();
        if idle {
            self.ids.remove(&entry.key);
            if let Some(slot) = self.entries.get_mut(id as usize) {
                *slot = None;
            }
            self.free.push(id);
        }
    }
}

fn entry(entries: &mut [Option<Entry>], id: Id) -> Option<&mut Entry> {
    entries.get_mut(id as usize)?.as_mut()
}

fn due(set: &BTreeSet<(Instant, Id)>, now: Instant) -> Option<Id> {
    set.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
}

#[cfg(test)]
mod tests;
