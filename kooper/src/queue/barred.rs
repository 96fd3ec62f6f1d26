//! Keys that fail because a permission is missing.
//!
//! Until one of them gets through there is no use in trying them all: they
//! stand in a line, and only the first is tried now and then. When one got
//! through, the others are let in at the rate of retries.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::Id;

/// How long a permission that is granted goes unnoticed at most.
const LONGEST: Duration = Duration::from_secs(30);

/// The lines, one for each refusal.
#[derive(Debug, Default)]
pub(super) struct Barred {
    lines: HashMap<u64, Line>,
    probes: BTreeSet<(Instant, u64)>,
    /// Those whose first key got through, since when.
    open: BTreeSet<(Instant, u64)>,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct Line {
    keys: BTreeSet<(u64, Id)>,
    /// How many probes were refused in a row.
    refused: u32,
    probe_at: Option<Instant>,
    opened_at: Option<Instant>,
}

impl Barred {
    /// A key was refused, once more where it comes from this line. Returns its
    /// place.
    pub(super) fn join(
        &mut self,
        refusal: u64,
        id: Id,
        again: bool,
        delay: impl Fn(u32) -> Duration,
        now: Instant,
    ) -> u64 {
        let place = self.arrivals;
        self.arrivals += 1;
        let line = self.lines.entry(refusal).or_default();
        line.keys.insert((place, id));
        line.refused = line.refused.saturating_add(u32::from(again)).max(1);
        let next = match line.probe_at.filter(|at| !again && *at > now) {
            Some(next) => next,
            None => now + delay(line.refused).min(LONGEST),
        };
        self.open(refusal, None);
        self.plan(refusal, Some(next));
        place
    }

    /// A key of a line was refused, and is not tried again.
    pub(super) fn refuse(&mut self, refusal: u64, delay: impl Fn(u32) -> Duration, now: Instant) {
        let Some(line) = self.lines.get_mut(&refusal) else { return };
        line.refused = line.refused.saturating_add(1);
        let next = now + delay(line.refused).min(LONGEST);
        self.plan(refusal, Some(next));
        self.open(refusal, None);
    }

    /// A key leaves its line, to run or for good.
    pub(super) fn leave(&mut self, refusal: u64, place: u64, id: Id) {
        if let Some(line) = self.lines.get_mut(&refusal) {
            line.keys.remove(&(place, id));
        }
    }

    /// A call of a key of a line succeeded: how many are let in behind it.
    pub(super) fn pass(&mut self, refusal: u64, now: Instant) -> usize {
        self.plan(refusal, None);
        let Some(line) = self.lines.get_mut(&refusal) else { return 0 };
        line.refused = 0;
        let waiting = line.keys.len();
        self.open(refusal, (waiting > 0).then_some(now));
        waiting
    }

    /// A key of a line is gone, was not called, or failed for another reason,
    /// and has not shown that the permission is there: the next one is tried.
    pub(super) fn hasten(&mut self, refusal: u64, now: Instant) {
        if self.lines.get(&refusal).is_some_and(|line| line.opened_at.is_none()) {
            self.plan(refusal, Some(now));
        }
    }

    /// The key that is to be tried, where a line has one that is due.
    pub(super) fn probe(&mut self, now: Instant) -> Option<Id> {
        while let Some(&(_, refusal)) = self.probes.first().filter(|(at, _)| *at <= now) {
            let first = self.lines.get_mut(&refusal).and_then(|line| line.keys.pop_first());
            // The next, should this one not come back for long.
            self.plan(refusal, first.map(|_| now + LONGEST));
            match first {
                Some((_, id)) => return Some(id),
                None => self.open(refusal, None),
            }
        }
        None
    }

    /// The next key of a line that is open.
    pub(super) fn admit(&mut self) -> Option<Id> {
        while let Some(&(_, refusal)) = self.open.first() {
            match self.lines.get_mut(&refusal).and_then(|line| line.keys.pop_first()) {
                Some((_, id)) => return Some(id),
                None => self.open(refusal, None),
            }
        }
        None
    }

    /// Since when a line is open.
    pub(super) fn opened(&self) -> Option<Instant> {
        self.open.first().map(|(at, _)| *at)
    }

    /// Whether a key is the one of its line that is tried next.
    pub(super) fn is_first(&self, refusal: u64, place: u64, id: Id) -> bool {
        self.lines.get(&refusal).is_some_and(|line| line.keys.first() == Some(&(place, id)))
    }

    /// When the next key of a line is tried.
    pub(super) fn next_of(&self, refusal: u64) -> Option<Instant> {
        self.lines.get(&refusal)?.probe_at
    }

    /// When the next key of any line is tried.
    pub(super) fn next(&self) -> Option<Instant> {
        self.probes.first().map(|(at, _)| *at)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.probes.is_empty() && self.open.is_empty()
    }

    fn plan(&mut self, refusal: u64, at: Option<Instant>) {
        let Some(line) = self.lines.get_mut(&refusal) else { return };
        if let Some(before) = std::mem::replace(&mut line.probe_at, at) {
            self.probes.remove(&(before, refusal));
        }
        if let Some(at) = at {
            self.probes.insert((at, refusal));
        }
    }

    /// Opens a line, or closes it; one that is closed, empty and not to be
    /// tried is forgotten.
    fn open(&mut self, refusal: u64, at: Option<Instant>) {
        let Some(line) = self.lines.get_mut(&refusal) else { return };
        if let Some(before) = std::mem::replace(&mut line.opened_at, at) {
            self.open.remove(&(before, refusal));
        }
        if let Some(at) = at {
            self.open.insert((at, refusal));
        } else if line.keys.is_empty() && line.probe_at.is_none() {
            self.lines.remove(&refusal);
        }
    }
}
