//! Keys that fail because a permission is missing.
//!
//! Until the permission is granted, retrying all of them is useless. They wait in
//! a line, and only the first key is retried from time to time: it is the probe.
//! When a probe succeeds, the others are retried at the rate of retries.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::EntryId;
use super::compact_instant::CompactInstant;
use super::schedule::Schedule;
use crate::backoff::Backoff;

/// The longest time until a granted permission is noticed.
const LONGEST: Duration = Duration::from_secs(30);

/// The least delays between probes: a permission is not granted within milliseconds.
const LEAST: Backoff = Backoff { initial: Duration::from_secs(2), max: LONGEST };

/// The delay of a probe after so many that were refused, by the back-off of keys.
fn wait(refused: u32, backoff: Backoff) -> Duration {
    LEAST.delay(refused).max(backoff.delay(refused)).min(LONGEST)
}

/// The lines, one for each refusal.
#[derive(Debug, Default)]
pub(super) struct ForbiddenBreaker {
    queues: HashMap<u64, ForbiddenQueue>,
    probes: Schedule<u64>,
    /// The lines whose probe succeeded, and when.
    open: Schedule<u64>,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct ForbiddenQueue {
    keys: BTreeSet<(u64, EntryId)>,
    /// The number of probes that were refused in a row.
    refused: u32,
    probe_at: Option<CompactInstant>,
    opened_at: Option<CompactInstant>,
}

impl ForbiddenBreaker {
    /// Adds a key whose request was refused, and returns its place. `again` is
    /// whether the key was in this line before.
    pub(super) fn join(&mut self, refusal: u64, id: EntryId, again: bool, backoff: Backoff, now: Instant) -> u64 {
        let place = self.arrivals;
        self.arrivals += 1;
        let line = self.queues.entry(refusal).or_default();
        line.keys.insert((place, id));
        line.refused = line.refused.saturating_add(u32::from(again)).max(1);
        let next = match line.probe_at.filter(|at| !again && *at > now.into()) {
            Some(next) => next,
            None => (now + wait(line.refused, backoff)).into(),
        };
        self.open(refusal, None);
        self.plan(refusal, Some(next));
        place
    }

    /// Records that a key of a line was refused and is not retried.
    pub(super) fn refuse(&mut self, refusal: u64, backoff: Backoff, now: Instant) {
        let Some(line) = self.queues.get_mut(&refusal) else { return };
        line.refused = line.refused.saturating_add(1);
        let next = now + wait(line.refused, backoff);
        self.plan(refusal, Some(next.into()));
        self.open(refusal, None);
    }

    /// Removes a key from its line, because it runs or because it was deleted.
    pub(super) fn leave(&mut self, refusal: u64, place: u64, id: EntryId) {
        if let Some(line) = self.queues.get_mut(&refusal) {
            line.keys.remove(&(place, id));
        }
    }

    /// Opens a line after a call of one of its keys succeeded. Returns the number
    /// of keys that still wait in it.
    pub(super) fn open_after_success(&mut self, refusal: u64, now: Instant) -> usize {
        self.plan(refusal, None);
        let Some(line) = self.queues.get_mut(&refusal) else { return 0 };
        line.refused = 0;
        let waiting = line.keys.len();
        self.open(refusal, (waiting > 0).then_some(now.into()));
        waiting
    }

    /// Makes the next probe due now. The key before it was deleted, was not called,
    /// or failed for another reason, so it is still unknown whether the permission
    /// is granted.
    pub(super) fn probe_now(&mut self, refusal: u64, now: Instant) {
        if self.queues.get(&refusal).is_some_and(|line| line.opened_at.is_none()) {
            self.plan(refusal, Some(now.into()));
        }
    }

    /// Takes the next key whose probe is due.
    pub(super) fn probe(&mut self, now: Instant) -> Option<EntryId> {
        while let Some(refusal) = self.probes.due(now) {
            let first = self.queues.get_mut(&refusal).and_then(|line| line.keys.pop_first());
            // The next probe, in case this one takes long.
            self.plan(refusal, first.map(|_| (now + LONGEST).into()));
            match first {
                Some((_, id)) => return Some(id),
                None => self.open(refusal, None),
            }
        }
        None
    }

    /// Takes the next key of an open line.
    pub(super) fn admit(&mut self) -> Option<EntryId> {
        while let Some((_, refusal)) = self.open.first() {
            match self.queues.get_mut(&refusal).and_then(|line| line.keys.pop_first()) {
                Some((_, id)) => return Some(id),
                None => self.open(refusal, None),
            }
        }
        None
    }

    /// When the first of the open lines was opened.
    pub(super) fn opened(&self) -> Option<CompactInstant> {
        self.open.next()
    }

    /// Returns `true` if a key is the next probe of its line.
    pub(super) fn is_first(&self, refusal: u64, place: u64, id: EntryId) -> bool {
        self.queues.get(&refusal).is_some_and(|line| line.keys.first() == Some(&(place, id)))
    }

    /// The time of a line's next probe.
    pub(super) fn next_of(&self, refusal: u64) -> Option<CompactInstant> {
        self.queues.get(&refusal)?.probe_at
    }

    /// The time of the next probe of any line.
    pub(super) fn next(&self) -> Option<CompactInstant> {
        self.probes.next()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.probes.len() + self.open.len() == 0
    }

    fn plan(&mut self, refusal: u64, at: Option<CompactInstant>) {
        let Some(line) = self.queues.get_mut(&refusal) else { return };
        self.probes.reschedule(refusal, std::mem::replace(&mut line.probe_at, at), at);
    }

    /// Opens or closes a line. A closed line without keys and without a probe is
    /// removed.
    fn open(&mut self, refusal: u64, at: Option<CompactInstant>) {
        let Some(line) = self.queues.get_mut(&refusal) else { return };
        self.open.reschedule(refusal, std::mem::replace(&mut line.opened_at, at), at);
        if at.is_none() && line.keys.is_empty() && line.probe_at.is_none() {
            self.queues.remove(&refusal);
        }
    }
}
