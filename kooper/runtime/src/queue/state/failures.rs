//! The failures of keys, and the delays of their next runs.

use std::time::Duration;

use tokio::time::Instant;

use super::{LONGEST, QueueState};
use crate::object::key::ObjectKey;
use crate::queue::entry::{KeyFailures, Timer};
use crate::queue::writes::TrackedWrites;
use crate::queue::{AT_ONCE, Completion, EntryId};

impl QueueState {
    /// The same as [`clear_failures`](Self::clear_failures) for a key whose call still runs.
    pub(in crate::queue) fn clear_failures_of(&mut self, key: &ObjectKey, now: Instant) -> usize {
        self.entries.find(key).map_or(0, |id| self.clear_failures(id, now))
    }

    /// Clears the failures of a key whose call succeeded. Returns the number of
    /// other keys that are retried because of it.
    pub(super) fn clear_failures(&mut self, id: EntryId, now: Instant) -> usize {
        let failing = self.entries.get_mut(id).and_then(|entry| entry.failing.take());
        failing
            .and_then(|failing| failing.forbidden)
            .map_or(0, |(refusal, _)| self.forbidden.open_after_success(refusal, now))
    }

    /// Forgets the failures and writes of a key whose object was deleted.
    pub(super) fn forget_object(&mut self, id: EntryId, now: Instant) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.writes = TrackedWrites::default();
        self.drop_failures(id, now);
    }

    /// Clears the failures of a key although no call succeeded. A permission that
    /// it lacked may still be missing, so the next key of its line is the probe.
    pub(super) fn drop_failures(&mut self, id: EntryId, now: Instant) {
        self.leave_line(id, now);
        if let Some(entry) = self.entries.get_mut(id) {
            entry.failing = None;
        }
    }

    /// Lets a key no longer wait for a permission.
    pub(super) fn leave_line(&mut self, id: EntryId, now: Instant) {
        let failing = self.entries.get_mut(id).and_then(|entry| entry.failing.as_mut());
        if let Some((refusal, place)) = failing.and_then(|failing| failing.forbidden.take()) {
            self.forbidden.leave(refusal, place, id);
            self.forbidden.probe_now(refusal, now);
        }
    }

    /// The delay of a requeue. Immediate requeues back off until the key has
    /// another reason to run.
    pub(super) fn requeue_delay(&mut self, id: EntryId, delay: Duration) -> Duration {
        let Some(entry) = self.entries.get_mut(id).filter(|_| delay < AT_ONCE) else { return delay };
        entry.repeats = entry.repeats.saturating_add(1);
        self.options.backoff.delay(entry.repeats)
    }

    /// Schedules the retry of a key that failed; returns whether there is one.
    pub(super) fn fail(&mut self, id: EntryId, completion: Completion, now: Instant) -> bool {
        let (backoff, limit) = (self.options.backoff, self.options.retries);
        let Some(entry) = self.entries.get_mut(id) else { return false };
        // It was set during the run.
        let requeue = entry.pending.map(|(at, timer)| (Instant::from(at), timer));
        let failing = entry.failing.get_or_insert_with(|| Box::new(KeyFailures::new(now)));
        failing.failures = failing.failures.saturating_add(1);
        failing.tries = failing.tries.saturating_add(1);
        let delay = match completion {
            Completion::FailureAfter(delay) | Completion::Paused(delay) => delay.min(LONGEST),
            // A change may fix it, so changes are not delayed.
            Completion::FailureForGood => Duration::ZERO,
            // Its line has delays of its own.
            Completion::Forbidden(_) => backoff.delay(failing.failures).min(LONGEST),
            _ => {
                failing.backoffs = failing.backoffs.saturating_add(1);
                backoff.delay(failing.backoffs).min(LONGEST)
            }
        };
        failing.delay = delay;
        failing.pause = matches!(completion, Completion::Paused(_)).then(|| now + delay);
        let spent = limit.is_some_and(|limit| failing.tries > limit);
        if spent {
            failing.tries = 0;
        }
        let retried = !spent && completion != Completion::FailureForGood;
        failing.owed &= retried;
        let urgent = failing.owed.then(|| failing.tokens.next(now));
        let before = failing.forbidden.take().map(|(refusal, _)| refusal);
        let refusal = match completion {
            Completion::Forbidden(refusal) => Some(refusal),
            _ => None,
        };
        let retry = if let Some(refusal) = refusal.filter(|_| retried) {
            let again = before == Some(refusal);
            let place = self.forbidden.join(refusal, id, again, backoff, now);
            failing.forbidden = Some((refusal, place));
            urgent.map(|at| (at, Timer::Held))
        } else {
            let at = urgent.map_or(now + delay, |urgent| urgent.min(now + delay));
            retried.then_some((at, Timer::Retry))
        };
        // The earlier one counts, as in client-go.
        self.set_pending(id, requeue.into_iter().chain(retry).min_by_key(|(at, _)| *at));
        match before {
            Some(before) if refusal != Some(before) => self.forbidden.probe_now(before, now),
            Some(before) if !retried => self.forbidden.refuse(before, backoff, now),
            _ => {}
        }
        retried
    }
}
