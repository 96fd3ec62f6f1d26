//! The timers of keys: requeues, retries, resyncs.

use std::hash::BuildHasher;
use std::time::Duration;

use tokio::time::Instant;

use super::{LONGEST, QueueState};
use crate::backoff::fraction;
use crate::queue::EntryId;
use crate::queue::compact_instant::CompactInstant;
use crate::queue::entry::{Debounced, Timer};
use crate::queue::reason::Reason;
use crate::queue::schedule::Schedule;
use crate::queue::writes::TrackedWrites;
use crate::queue::{AddOptions, Lane, Urgency};

/// The most timers of one sort that fire in one step, because the queue is locked
/// meanwhile.
const STEP: usize = 1024;

/// The longest time by which a resync is early, so that it runs together with others. It is short, because
/// resyncs are spread for the sake of the API server.
const MOST_SLACK: Duration = Duration::from_secs(1);

impl QueueState {
    /// Queues the keys that are due; if there are many, only some of them.
    pub(in crate::queue) fn wake(&mut self, now: Instant) {
        for _ in 0..STEP {
            let Some(expiry) = self.expected.pop_expired(now) else { break };
            let expire = |writes: &mut TrackedWrites| writes.expire(&expiry.object, now);
            if self.update_writes(expiry.id, &expiry.object, expire, now) {
                self.expected.extend(expiry);
            }
        }
        for _ in 0..STEP {
            let Some(id) = self.delayed.due(now) else { break };
            let timer = self.set_pending(id, None);
            let reason = match timer {
                Some(Timer::Requeue) => Some(Reason::Requeue),
                Some(Timer::Conflict) => Some(Reason::Retry),
                // A delayed add has its reason already, unless a probe has run with it in the meantime.
                Some(Timer::Held) if self.entries.get(id).is_some_and(|entry| entry.reasons.is_empty()) => {
                    Some(Reason::Retry)
                }
                Some(Timer::Held | Timer::Retry) | None => None,
            };
            if let Some(failing) = self.entries.get_mut(id).and_then(|entry| entry.failing.as_mut()) {
                failing.event_run = Some(now);
            }
            self.fire(id, Lane::Retry, reason, now);
        }
        for _ in 0..STEP {
            let Some(id) = self.debounced.due(now) else { break };
            if let Some(debounced) = self.set_debounced(id, None) {
                self.admit(id, AddOptions { debounced: false, ..debounced.options }, now);
            }
        }
        for _ in 0..STEP {
            let Some(id) = self.forbidden.probe(now) else { break };
            self.fire(id, Lane::Retry, Some(Reason::Retry), now);
        }
        // Failed keys and those whose permission was granted share the rate: whoever has waited longer is first.
        for _ in 0..STEP {
            let retry = self.retries.first().filter(|(at, _)| *at <= now.into());
            let opened = self.forbidden.opened().filter(|opened| retry.is_none_or(|(at, _)| *opened <= at));
            if retry.is_none() && opened.is_none() || self.bucket.next(now) > now {
                break;
            }
            let id = match (opened, retry) {
                (None, Some((_, id))) => {
                    self.set_pending(id, None);
                    Some(id)
                }
                _ => self.forbidden.admit(),
            };
            // Otherwise the keys of the line are gone, and it is closed.
            let Some(id) = id else { continue };
            if self.bucket.take(now).is_ok() {
                self.fire(id, Lane::Retry, Some(Reason::Retry), now);
            }
        }
        if self.resyncs.due(now).is_none() {
            return;
        }
        // Those that are due soon run with it: a process that is woken for each of them needs a multiple of the CPU
        // time.
        let until = now + self.options.resync.map_or(Duration::ZERO, |interval| (interval / 32).min(MOST_SLACK));
        for _ in 0..STEP {
            let Some(id) = self.resyncs.due(until) else { break };
            let due = self.set_resync(id, None);
            let Some(entry) = self.entries.get_mut(id) else { continue };
            // The retry schedules the next resync.
            if !entry.is_held() {
                // The next one is not more than an interval later.
                entry.phase = due.map(|due| due.min(now.into()));
                self.fire(id, Lane::Background, Some(Reason::Resync), now);
            }
        }
    }

    /// When [`wake`](Self::wake) must be called next.
    pub(in crate::queue) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let token = self.bucket.next(now).into();
        let retry = self.retries.next().map(|at| at.max(token));
        let admitted = self.forbidden.opened().map(|_| token);
        let expected = self.expected.next(self.parked > 0).map(CompactInstant::from);
        let others = [self.delayed.next(), self.debounced.next(), self.resyncs.next(), self.forbidden.next(), expected];
        [retry, admitted].into_iter().chain(others).flatten().min().map(Instant::from)
    }

    /// Queues a key whose timer has fired.
    fn fire(&mut self, id: EntryId, lane: Lane, reason: Option<Reason>, now: Instant) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if let Some(reason) = reason {
            entry.reasons.add(reason);
        }
        match &mut entry.run {
            // It was set during the run: all timers before are replaced by the run.
            Some(run) => run.record_add(AddOptions::new(lane, Urgency::Soon)),
            None => self.enqueue(id, lane, now),
        }
    }

    /// Sets the timer of a key, and returns the purpose of the previous one.
    pub(super) fn set_pending(&mut self, id: EntryId, pending: Option<(Instant, Timer)>) -> Option<Timer> {
        let entry = self.entries.get_mut(id)?;
        let pending = pending.map(|(at, timer)| (at.into(), timer));
        let before = std::mem::replace(&mut entry.pending, pending);
        if let Some((at, timer)) = before {
            self.timers(timer).reschedule(id, Some(at), None);
        }
        if let Some((at, timer)) = pending {
            self.timers(timer).reschedule(id, None, Some(at));
        }
        before.map(|(_, timer)| timer)
    }

    fn timers(&mut self, timer: Timer) -> &mut Schedule<EntryId> {
        match timer {
            Timer::Retry => &mut self.retries,
            Timer::Requeue | Timer::Held | Timer::Conflict => &mut self.delayed,
        }
    }

    /// Sets the adds of a key that are debounced, and returns those before.
    pub(super) fn set_debounced(&mut self, id: EntryId, debounced: Option<Debounced>) -> Option<Debounced> {
        let entry = self.entries.get_mut(id)?;
        let before = std::mem::replace(&mut entry.debounced, debounced.map(Box::new)).map(|before| *before);
        let at = |debounced: Debounced| debounced.at.into();
        self.debounced.reschedule(id, before.map(at), debounced.map(at));
        before
    }

    pub(super) fn set_resync(&mut self, id: EntryId, at: Option<Instant>) -> Option<CompactInstant> {
        let entry = self.entries.get_mut(id)?;
        let at = at.map(CompactInstant::from);
        let before = std::mem::replace(&mut entry.resync_at, at);
        self.resyncs.reschedule(id, before, at);
        before
    }

    /// Schedules the next resync of a key after a run. After the first list, the
    /// resyncs are spread over the whole interval; then each key keeps its phase.
    /// After an event the next resync is up to a tenth of the interval earlier, so
    /// that keys that changed together do not stay together.
    pub(super) fn plan_resync(&mut self, id: EntryId, initial: bool, now: Instant) {
        let Some(interval) = self.options.resync else { return };
        let Some(entry) = self.entries.get_mut(id) else { return };
        let interval = interval.min(LONGEST);
        let at = match entry.phase.take() {
            Some(phase) => (Instant::from(phase) + interval).max(now),
            None if initial => now + interval.mul_f64(fraction(self.spread.hash_one(&entry.key))),
            None => {
                let part = fraction(self.arrivals ^ u64::from(id).rotate_left(32)) / 10.0;
                now + interval.mul_f64(1.0 - part)
            }
        };
        self.set_resync(id, Some(at));
    }
}
