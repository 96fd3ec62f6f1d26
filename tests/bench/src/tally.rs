//! Counters of a program.

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Reply, Report};

/// An index whose object was not seen.
const UNSEEN: u64 = 0;
/// An index whose object was seen without a time in its annotation.
const UNSENT: u64 = 1;

/// Counts handler calls, distinct objects and the latency of changes.
///
/// It costs eight bytes for each object, so that it is not what is measured.
#[derive(Debug)]
pub struct Tally {
    last: Box<[AtomicU64]>,
    objects: AtomicUsize,
    calls: AtomicU64,
    read: AtomicU64,
    changes: Mutex<Changes>,
}

/// The changes since the last reset.
#[derive(Debug, Default)]
struct Changes {
    latencies: Vec<u64>,
    awaited: usize,
}

impl Tally {
    /// A tally of objects with the indices below `expect`.
    #[must_use]
    pub fn new(expect: usize) -> Self {
        Self {
            last: (0..expect).map(|_| AtomicU64::new(UNSEEN)).collect(),
            objects: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            read: AtomicU64::new(0),
            changes: Mutex::default(),
        }
    }

    /// Counts one handler call for the object of this name.
    pub fn saw(&self, name: &str, image_length: usize, sent: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(image_length as u64, Ordering::Relaxed);
        let index = name.rsplit_once('-').and_then(|(_, index)| index.parse::<usize>().ok());
        let Some(last) = index.and_then(|index| self.last.get(index)) else {
            return;
        };
        let sent = sent.max(UNSENT);
        let before = last.swap(sent, Ordering::Relaxed);
        if before == UNSEEN {
            let objects = self.objects.fetch_add(1, Ordering::Relaxed) + 1;
            if objects == self.last.len() {
                Reply::Synced { objects }.print();
            }
        } else if sent > UNSENT && sent != before {
            self.changed(sent);
        }
    }

    fn changed(&self, sent: u64) {
        let latency = now().saturating_sub(sent) / 1_000;
        let mut changes = self.changes();
        changes.latencies.push(latency);
        if changes.latencies.len() == changes.awaited {
            Reply::Reached { changes: changes.awaited }.print();
        }
    }

    /// Forgets calls and changes, and counts to `awaited` changes.
    pub fn reset(&self, awaited: usize) {
        let mut changes = self.changes();
        self.calls.store(0, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
        *changes = Changes { latencies: Vec::with_capacity(awaited), awaited };
    }

    /// Returns the counters since the last reset.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut latencies = self.changes().latencies.clone();
        latencies.sort_unstable();
        Report {
            objects: self.objects.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
            read: self.read.load(Ordering::Relaxed),
            changes: latencies.len(),
            p50_us: percentile(&latencies, 50),
            p99_us: percentile(&latencies, 99),
            max_us: percentile(&latencies, 100),
        }
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock()
    }
}

/// The nearest-rank percentile; 0 of nothing.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Nanoseconds since 1970.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_new_time_on_an_object_seen_before() {
        let tally = Tally::new(2);
        tally.saw("bench-0", 3, 7);
        tally.saw("bench-1", 3, 0);
        assert_eq!(tally.report().changes, 0, "first sight is no change");
        tally.saw("bench-0", 3, 7);
        assert_eq!(tally.report().changes, 0, "the same time is no change");
        tally.saw("bench-0", 3, now());
        tally.saw("bench-1", 3, now());
        tally.saw("elsewhere", 3, now());
        let report = tally.report();
        assert_eq!((report.objects, report.calls, report.changes, report.read), (2, 6, 2, 18));
        tally.reset(5);
        assert_eq!(tally.report(), Report { objects: 2, ..Report::default() });
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let sorted: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&sorted, 50), 100);
        assert_eq!(percentile(&sorted, 99), 198);
        assert_eq!(percentile(&sorted, 100), 200);
        assert_eq!(percentile(&[4], 50), 4);
        assert_eq!(percentile(&[], 99), 0);
    }
}
