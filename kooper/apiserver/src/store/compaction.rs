//! The compaction of etcd.

use std::time::Duration;

use tokio::time::Instant;

/// Interval in which kube-apiserver compacts etcd.
const INTERVAL: Duration = Duration::from_secs(300);

/// Which versions are compacted: every five minutes those that were five minutes old, as kube-apiserver asks of etcd.
///
/// It has no timer. What the version was at a boundary is known when the next write, or a reader, comes.
#[derive(Debug)]
pub(super) struct Compaction {
    start: Instant,
    /// The number of intervals that had passed when it was last asked.
    interval: u32,
    /// The version at the beginning of the interval before this one, and of this one.
    versions: [u64; 2],
}

impl Compaction {
    pub(super) fn new(version: u64) -> Self {
        Self { start: Instant::now(), interval: 0, versions: [version; 2] }
    }

    /// The oldest version that is left. `version` is the current one, and that of the whole time since the last write;
    /// so each write calls this before it takes a version.
    pub(super) fn at(&mut self, now: Instant, version: u64) -> u64 {
        let passed = now.duration_since(self.start).as_secs() / INTERVAL.as_secs();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        if passed > self.interval {
            let [_, before] = self.versions;
            self.versions = [if passed == self.interval + 1 { before } else { version }, version];
            self.interval = passed;
        }
        self.versions[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_version_is_kept_for_five_to_ten_minutes() {
        let mut compaction = Compaction::new(1);
        let start = Instant::now();
        let mut at = |seconds, version| compaction.at(start + Duration::from_secs(seconds), version);
        assert_eq!(at(10, 1), 1);
        assert_eq!(at(299, 5), 1);
        assert_eq!(at(301, 7), 1, "in the next interval the first one is complete");
        assert_eq!(at(600, 9), 7);
        assert_eq!(at(899, 20), 7);
        // No request came for an hour, so nothing was written.
        assert_eq!(at(4500, 30), 30);
    }
}
