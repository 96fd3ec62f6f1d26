//! Entries by the time at which they are due.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::compact_instant::CompactInstant;

/// Entries in the order of their times. Each entry has at most one, which its owner keeps, too.
#[derive(Debug, Default)]
pub(super) struct Schedule<T>(BTreeSet<(CompactInstant, T)>);

impl<T: Copy + Ord> Schedule<T> {
    /// Replaces the time of an entry; `None` is none.
    pub(super) fn reschedule(&mut self, entry: T, before: Option<CompactInstant>, at: Option<CompactInstant>) {
        if let Some(before) = before {
            self.0.remove(&(before, entry));
        }
        if let Some(at) = at {
            self.0.insert((at, entry));
        }
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<(CompactInstant, T)> {
        self.0.first().copied()
    }

    /// The first entry, if it is due.
    pub(super) fn due(&self, now: Instant) -> Option<T> {
        self.first().filter(|(at, _)| *at <= now.into()).map(|(_, entry)| entry)
    }

    /// When the first entry is due.
    pub(super) fn next(&self) -> Option<CompactInstant> {
        self.first().map(|(at, _)| at)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().map(|(_, entry)| *entry)
    }
}
