//! The server, and the network between it and the candidates.

use std::sync::Arc;
use std::time::Duration;

use super::rng::SimRng;
use crate::leader::lease_state::{LeaseWrite, Record};

/// A server with one Lease and the checks of the real one.
#[derive(Default)]
pub(super) struct SimServer {
    pub(super) record: Option<Record>,
    version: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PutError {
    Conflict,
    Invalid,
}

impl SimServer {
    pub(super) fn put(&mut self, write: &LeaseWrite, mark: &Arc<str>) -> Result<Record, PutError> {
        if write.seconds < 1 {
            return Err(PutError::Invalid);
        }
        if write.base.as_ref() != self.record.as_ref().map(|record| &record.version) {
            return Err(PutError::Conflict);
        }
        self.version += 1;
        let record = Record::stored(write, mark, self.version.to_string().into());
        self.record = Some(record.clone());
        Ok(record)
    }
}

/// The faults of one candidate's connection, each until the given time.
#[derive(Debug, Default, Clone)]
pub(super) struct ConnectionFaults {
    pub(super) cut: Duration,
    pub(super) slow_requests: Duration,
    pub(super) slow_answers: Duration,
    pub(super) lost_answers: Duration,
    pub(super) errors: Duration,
    pub(super) bad_watch: Duration,
}

impl ConnectionFaults {
    /// The time that a message takes; `None` if it never arrives.
    pub(super) fn request(&self, now: Duration, rng: &mut SimRng) -> Option<Duration> {
        (now >= self.cut).then(|| travel(self.slow_requests.saturating_sub(now), rng))
    }

    pub(super) fn answer(&self, now: Duration, rng: &mut SimRng) -> Option<Duration> {
        let lost = now < self.cut || (now < self.lost_answers && rng.chance(0.7));
        (!lost).then(|| travel(self.slow_answers.saturating_sub(now), rng))
    }

    /// An event of the watch.
    pub(super) fn event(&self, now: Duration, rng: &mut SimRng) -> Option<Duration> {
        let bad = now < self.bad_watch;
        let lost = now < self.cut || (bad && rng.chance(0.5));
        (!lost).then(|| travel(self.bad_watch.saturating_sub(now), rng))
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        *self = Self::default();
    }
}

/// The time that a message takes. A slow one may take as long as the fault lasts.
fn travel(slow: Duration, rng: &mut SimRng) -> Duration {
    let late =
        if !slow.is_zero() && rng.chance(0.7) { rng.within(slow.min(Duration::from_secs(12))) } else { Duration::ZERO };
    late + Duration::from_micros(200) + rng.within(Duration::from_millis(20))
}
