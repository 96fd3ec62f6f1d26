//! The queue's state. It never waits: every transition takes the time as an
//! argument.

mod failures;
mod inspect;
mod own_writes;
mod priorities;
mod timers;

use std::hash::RandomState;
use std::time::Duration;

use tokio::time::Instant;

use super::EntryId;
use super::entries::Entries;
use super::entry::{Debounced, KeyEntry, KeyRun, ObservedEvent, Timer};
use super::forbidden::ForbiddenBreaker;
use super::ready::ReadyKeys;
use super::schedule::Schedule;
use super::writes::{ExpectedEvents, Revision, TIMEOUT, WriteOrigin};
use super::{AddOptions, Completion, Item, Lane, NextRun, QueueOptions, Ticket, Urgency};
use crate::backoff::TokenBucket;
use crate::object::key::ObjectKey;
use crate::queue::reason::{Reason, Reasons};

/// Longer delays are shortened to ten years, so that adding one to an instant
/// cannot overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The most calls in a row that are repeated because of a conflict, and the delay before
/// the first of them. Each further one is twice as long.
const CONFLICTS: (u32, Duration) = (8, Duration::from_millis(5));

fn later(now: Instant, delay: Duration) -> Instant {
    now + delay.min(LONGEST)
}

#[derive(Debug)]
pub(super) struct QueueState {
    options: QueueOptions,
    entries: Entries,
    /// The keys that wait for a worker.
    ready: ReadyKeys,
    /// Requeues, and changes that the back-off delays.
    delayed: Schedule<EntryId>,
    /// Failed keys; each retry needs a token.
    retries: Schedule<EntryId>,
    /// Keys with adds that are debounced.
    debounced: Schedule<EntryId>,
    resyncs: Schedule<EntryId>,
    /// Failed keys that lack a permission.
    forbidden: ForbiddenBreaker,
    /// The events of the writes of calls, which keys expect.
    expected: ExpectedEvents,
    /// The number of keys that are held back until the caches have their calls' writes.
    parked: usize,
    bucket: TokenBucket,
    arrivals: u64,
    runs: u64,
    /// The number of times that a key began to wait for a worker.
    added: u64,
    spread: RandomState,
}

/// The time by which a key of this lane is ordered behind one of the first lane.
const fn head_start(lane: Lane) -> Duration {
    match lane {
        Lane::Event => Duration::ZERO,
        Lane::Retry => Duration::from_secs(1),
        Lane::Background => Duration::from_secs(10),
    }
}

impl QueueState {
    pub(super) fn new(options: QueueOptions, now: Instant) -> Self {
        let (rate, burst) = options.retry_rate;
        Self {
            bucket: TokenBucket::new(rate, burst, now),
            options,
            entries: Entries::default(),
            ready: ReadyKeys::default(),
            delayed: Schedule::default(),
            retries: Schedule::default(),
            debounced: Schedule::default(),
            resyncs: Schedule::default(),
            forbidden: ForbiddenBreaker::default(),
            expected: ExpectedEvents::default(),
            parked: 0,
            arrivals: 0,
            runs: 0,
            added: 0,
            spread: RandomState::new(),
        }
    }

    pub(super) fn add(&mut self, key: &ObjectKey, reason: Reason, options: AddOptions, now: Instant) {
        let id = self.entries.get_or_create(key);
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.add_reason(reason);
        match &mut entry.run {
            Some(run) => run.record_add(options),
            None => self.admit(id, options, now),
        }
    }

    /// Like [`add`](Self::add), for an event that may be the echo of a write by
    /// one of the key's own calls. `event` is only called if such writes are known.
    pub(super) fn add_from_event(
        &mut self,
        key: &ObjectKey,
        reason: Reason,
        options: AddOptions,
        event: impl FnOnce() -> Revision,
        now: Instant,
    ) {
        let entry = self.entries.find(key).and_then(|id| self.entries.get_mut(id));
        let Some(entry) = entry.filter(|entry| entry.run.is_some() || !entry.writes.is_empty()) else {
            return self.add(key, reason, options, now);
        };
        let event = event();
        // A call that marks its own object for deletion is followed by its cleanup.
        let origin =
            if options.urgency == Urgency::Always { WriteOrigin::Foreign } else { entry.writes.classify(&event) };
        match (&mut entry.run, origin) {
            (Some(run), _) => {
                run.record_event(ObservedEvent { event, options }, origin);
                entry.add_reason(reason);
            }
            (None, WriteOrigin::Silent) => {}
            // It does not run a failing key.
            (None, WriteOrigin::Own) if entry.failing.is_some() => {}
            (None, WriteOrigin::Own) => self.add(key, reason, AddOptions { urgency: Urgency::Idle, ..options }, now),
            (None, WriteOrigin::Foreign) => self.add(key, reason, options, now),
        }
    }

    /// Returns `true` if the urgency of a change matters for a key: it is failing or running.
    pub(super) fn uses_urgency(&self, key: &ObjectKey) -> bool {
        let entry = self.entries.find(key).and_then(|id| self.entries.get(id));
        entry.is_some_and(|entry| entry.failing.is_some() || entry.run.is_some())
    }

    /// Schedules the resync of a key that does not run now.
    pub(super) fn schedule_resync(&mut self, key: &ObjectKey, now: Instant) {
        if self.options.resync.is_some() {
            let id = self.entries.get_or_create(key);
            if self.entries.get(id).is_some_and(|entry| entry.resync_at.is_none() && entry.run.is_none()) {
                self.plan_resync(id, true, now);
            }
        }
    }

    pub(super) fn add_after(&mut self, key: &ObjectKey, delay: Duration, now: Instant) {
        let id = self.entries.get_or_create(key);
        self.set_pending(id, Some((later(now, delay), Timer::Requeue)));
    }

    pub(super) fn take(&mut self, now: Instant) -> Option<Item> {
        loop {
            let id = self.ready.next(self.runs)?;
            let entry = self.entries.get_mut(id)?;
            self.ready.remove(id, entry);
            if entry.writes.is_awaiting() {
                entry.is_parked = true;
                entry.added_at = None;
                self.parked += 1;
                continue;
            }
            entry.place = None;
            // A change that does not count, and so does not queue it, may have changed its priority.
            entry.prioritized = false;
            let reasons = std::mem::take(&mut entry.reasons);
            entry.phase = entry.phase.filter(|_| reasons.only(&Reason::Resync));
            if !reasons.only(&Reason::Requeue) {
                entry.repeats = 0;
            }
            let mut attempt = 1;
            if let Some(failing) = &mut entry.failing {
                // This run replaces the wait of a debounced change, but not the effect of it.
                let debounced = entry.debounced.as_ref().map(|debounced| debounced.options.urgency);
                failing.owed |= debounced == Some(Urgency::Now);
                if failing.owed && failing.tokens.take(now).is_ok() {
                    failing.reset();
                }
                attempt = failing.failures.saturating_add(1);
                if let Some((refusal, place)) = failing.forbidden {
                    self.forbidden.leave(refusal, place, id);
                }
            }
            self.runs += 1;
            let (initial, is_behind) = (reasons.only_first(), entry.writes.are_late(&entry.key));
            let run = KeyRun { number: self.runs, initial, is_behind, ..KeyRun::default() };
            entry.run = Some(Box::new(run));
            let item = Item {
                key: entry.key.clone(),
                reasons,
                attempt,
                waited: now.saturating_duration_since(entry.added_at.take().map_or(now, Instant::from)),
                ticket: Ticket { id, number: self.runs },
            };
            // The run replaces all timers of the key.
            self.set_pending(id, None);
            self.set_debounced(id, None);
            self.set_resync(id, None);
            return Some(item);
        }
    }

    pub(super) fn finish(&mut self, ticket: Ticket, completion: Completion, now: Instant) -> NextRun {
        let id = ticket.id;
        let Some(entry) = self.entries.get_mut(id) else { return NextRun::default() };
        let Some(run) = entry.run.take_if(|run| run.number == ticket.number) else { return NextRun::default() };
        let again = run.next_add(completion);
        if again.is_none() {
            entry.reasons = Reasons::default();
        }
        let (mut retried, mut released) = (false, 0);
        entry.conflicts = if completion == Completion::Conflict { entry.conflicts + 1 } else { 0 };
        match completion {
            Completion::Conflict => {
                let (_, first) = CONFLICTS;
                let delay = first * (1 << (entry.conflicts - 1).min(CONFLICTS.0));
                self.set_pending(id, Some((now + delay, Timer::Conflict)));
                retried = true;
            }
            Completion::Success(delay) => {
                let again = run.is_repeated.then_some(TIMEOUT);
                if let Some(delay) = delay.into_iter().chain(again).min() {
                    let delay = self.requeue_delay(id, delay);
                    self.set_pending(id, Some((later(now, delay), Timer::Requeue)));
                }
                released = self.clear_failures(id, now);
            }
            Completion::Skipped => self.drop_failures(id, now),
            Completion::Refused => self.leave_line(id, now),
            Completion::Gone => {
                self.set_pending(id, None);
                self.forget_object(id, now);
            }
            _ => retried = self.fail(id, completion, now),
        }
        if completion != Completion::Gone {
            self.plan_resync(id, run.initial, now);
        }
        if let Some(options) = again {
            self.admit(id, options, now);
        }
        let (next, forbidden) = self.next_run(id, now);
        self.drop_if_idle(id);
        NextRun { retried, next, forbidden, released }
    }

    /// Returns `true` if a call that met a conflict is repeated at once instead of being
    /// retried with back-off.
    pub(super) fn repeats(&self, key: &ObjectKey) -> bool {
        let allowed = self.options.retries != Some(0);
        let entry = self.entries.find(key).and_then(|id| self.entries.get(id));
        entry.is_some_and(|entry| allowed && entry.failing.is_none() && entry.conflicts < CONFLICTS.0)
    }

    /// The time until a key runs without a new event. The flag is true if this is
    /// the time of a probe with another key that lacks the same permission.
    fn next_run(&self, id: EntryId, now: Instant) -> (Option<Duration>, bool) {
        let Some(entry) = self.entries.get(id) else { return (None, false) };
        let waiting = self.waiting_of(id, entry, now);
        let (queued, timer) = (waiting.queued.map(|_| Duration::ZERO), waiting.timer.map(|(delay, _)| delay));
        let own = [queued, timer, waiting.debounced, waiting.resync].into_iter().flatten().min();
        let next = own.into_iter().chain(waiting.forbidden.and_then(|forbidden| forbidden.probe)).min();
        let behind = waiting.forbidden.is_some_and(|forbidden| !forbidden.is_first);
        (next, behind && next != own)
    }

    pub(super) fn forget(&mut self, key: &ObjectKey, now: Instant) {
        let Some(id) = self.entries.find(key) else { return };
        self.set_pending(id, None);
        self.set_debounced(id, None);
        self.set_resync(id, None);
        self.forget_object(id, now);
        self.unpark(id, now);
        // An event that was delayed runs the key now.
        if self
            .entries
            .get(id)
            .is_some_and(|entry| !entry.reasons.is_empty() && entry.place.is_none() && entry.run.is_none())
        {
            self.enqueue(id, Lane::Event, now);
        }
        self.drop_if_idle(id);
    }

    /// Forgets everything. The old state is returned, because dropping it may take
    /// long.
    pub(super) fn clear(&mut self, now: Instant) -> Self {
        let (runs, added, ready) = (self.runs, self.added, self.ready.emptied());
        std::mem::replace(self, Self { runs, added, ready, ..Self::new(self.options.clone(), now) })
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The number of times that a key began to wait for a worker.
    pub(super) fn added(&self) -> u64 {
        self.added
    }

    pub(super) fn known(&self) -> usize {
        self.entries.len()
    }

    /// Queues a key. If it fails and the add is not urgent, the run is delayed; the
    /// next run has the reason of the add too.
    fn admit(&mut self, id: EntryId, options: AddOptions, now: Instant) {
        let patient = self.options.retries != Some(0);
        let Some(entry) = self.entries.get_mut(id) else { return };
        let AddOptions { lane, urgency, debounced } = options;
        let (held, absent) = (entry.is_held(), entry.place.is_none());
        if absent
            && debounced
            && let Some(interval) = self.options.debounce
        {
            let before = entry.debounced.as_deref().copied();
            self.set_debounced(id, Some(Debounced::with(before, options, interval.min(LONGEST), now)));
            return;
        }
        if let Some(failing) = &mut entry.failing {
            match urgency {
                Urgency::Always => failing.reset(),
                Urgency::Now => failing.owed = true,
                Urgency::Soon | Urgency::Idle => {}
            }
            let change = failing.forbidden.is_none().then(|| failing.next_change(now));
            let urgent = (urgency == Urgency::Now).then(|| failing.tokens.next(now));
            let at = match urgency {
                Urgency::Always => Some(now),
                Urgency::Now | Urgency::Soon => [change, urgent].into_iter().flatten().min(),
                Urgency::Idle => (!held).then_some(now),
            };
            if absent && patient && at != Some(now) {
                if let Some(at) = at
                    && entry.pending.is_none_or(|(due, _)| due > at.into())
                {
                    self.set_pending(id, Some((at, Timer::Held)));
                }
                return;
            }
            if absent && matches!(urgency, Urgency::Now | Urgency::Soon) && urgent != Some(now) {
                failing.event_run = Some(now);
            }
        }
        self.enqueue(id, lane, now);
    }

    fn enqueue(&mut self, id: EntryId, lane: Lane, now: Instant) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let (mut lane, mut place) = (lane, ((now + head_start(lane)).into(), self.arrivals));
        if let Some(before) = entry.place {
            if before <= place && entry.lane <= lane {
                return self.ready.ask_for_priority(id, entry);
            }
            // It keeps an earlier position, and is in the more urgent lane.
            (lane, place) = (lane.min(entry.lane), place.min(before));
        }
        self.arrivals += 1;
        if entry.place.is_none() {
            entry.added_at = Some(now.into());
            self.added += 1;
        }
        self.ready.remove(id, entry);
        (entry.place, entry.lane) = (Some(place), lane);
        self.ready.insert(id, entry);
    }

    /// Queues a key again when the caches have its calls' writes.
    fn unpark(&mut self, id: EntryId, now: Instant) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if std::mem::take(&mut entry.is_parked) {
            entry.added_at = Some(now.into());
            self.ready.insert(id, entry);
            self.parked -= 1;
        }
    }

    /// Removes the entry of a key that has no state.
    fn drop_if_idle(&mut self, id: EntryId) {
        if self.entries.get(id).is_some_and(KeyEntry::is_idle) {
            self.entries.remove(id);
        }
    }
}

#[cfg(test)]
mod tests;
