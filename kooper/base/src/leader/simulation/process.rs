//! One process: a `LeaseState`, its clock, and its open request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Mutant;
use super::network::ConnectionFaults;
use super::rng::SimRng;
use crate::clock::{Clock, Moment};
use crate::leader::Leadership;
use crate::leader::lease_state::{Candidate, LeaseState, LeaseWrite, Terms};

/// A clock that runs faster or slower than true time.
#[derive(Clone)]
pub(super) struct LocalClock {
    /// Nanoseconds.
    truth: Arc<AtomicU64>,
    offset: Arc<AtomicU64>,
    rate: f64,
}

impl LocalClock {
    pub(super) fn new(truth: &Arc<AtomicU64>, rng: &mut SimRng) -> Self {
        let rate = match rng.below(4) {
            0 => 0.8,
            1 => 1.2,
            _ => 0.8 + 0.4 * rng.next_f64(),
        };
        let offset = Arc::new(AtomicU64::new(1_000_000_000 * (1 + rng.below(1_000_000))));
        Self { truth: Arc::clone(truth), offset, rate }
    }

    /// The true time at which this clock shows `moment`.
    pub(super) fn true_time(&self, moment: Moment) -> Duration {
        let local = moment.saturating_sub(Duration::from_nanos(self.offset.load(Ordering::Relaxed)));
        Duration::from_nanos((local.as_nanos() as f64 / self.rate).ceil() as u64)
    }

    /// Stops for this time.
    fn miss(&self, paused: Duration) {
        let missed = (paused.as_nanos() as f64 * self.rate) as u64;
        self.offset.fetch_sub(missed, Ordering::Relaxed);
    }
}

impl Clock for LocalClock {
    fn now(&self) -> Moment {
        let local = self.truth.load(Ordering::Relaxed) as f64 * self.rate;
        Duration::from_nanos(self.offset.load(Ordering::Relaxed) + local as u64)
    }
}

/// The activity of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    Campaign,
    Hold,
    /// The handlers end; then the lease is released. With `last` the process ends
    /// too.
    Draining {
        until: Duration,
        last: bool,
    },
    Release {
        last: bool,
    },
    Gone,
}

/// A request without a response yet.
pub(super) struct SimRequest {
    pub(super) id: u64,
    pub(super) sent: Moment,
    pub(super) write: Option<LeaseWrite>,
}

pub(super) struct SimProcess {
    pub(super) clock: LocalClock,
    pub(super) state: LeaseState,
    pub(super) terms: Terms,
    pub(super) leadership: Leadership,
    pub(super) activity: Activity,
    /// The index of its latest term among all terms.
    pub(super) sim_term: Option<usize>,
    pub(super) faults: ConnectionFaults,
    /// The end of its pause, in true time.
    pub(super) paused: Duration,
    /// Until when a handler blocks its thread, in true time.
    pub(super) blocked: Duration,
    /// For which end of a term its watchdog is set, in true time.
    pub(super) watchdog: Duration,
    pub(super) request: Option<SimRequest>,
    /// The number of its watch, and when the last event of it arrives.
    pub(super) watch: Option<(u64, Duration)>,
    pub(super) watch_at: Moment,
    /// The number of the valid wake-up; earlier ones are ignored.
    pub(super) wake: u64,
    wall: i64,
    stuck_wall: bool,
}

impl SimProcess {
    pub(super) fn new(
        name: String,
        mark: &Arc<str>,
        times: [Duration; 3],
        truth: &Arc<AtomicU64>,
        mutant: Option<Mutant>,
        rng: &mut SimRng,
    ) -> Self {
        let clock = LocalClock::new(truth, rng);
        let mut terms = Terms::new(times[0], times[1], times[2]);
        match mutant {
            Some(Mutant::NoMargin) => terms.validity = terms.lease,
            Some(Mutant::ThinMargin) => terms.validity = terms.lease * 7 / 10,
            Some(Mutant::HalfTheWait) => terms.lease /= 2,
            _ => {}
        }
        let me = Candidate { identity: name.into(), mark: Arc::clone(mark), previous: Vec::new() };
        let mut state = LeaseState::new(me, terms, clock.now());
        state.campaign();
        Self {
            leadership: Leadership::by(Arc::new(clock.clone())),
            state,
            terms,
            activity: Activity::Campaign,
            sim_term: None,
            faults: ConnectionFaults::default(),
            paused: Duration::ZERO,
            blocked: Duration::ZERO,
            watchdog: Duration::ZERO,
            request: None,
            watch: None,
            watch_at: Duration::ZERO,
            wake: 0,
            wall: 1_700_000_000_000_000 + rng.below(7_200_000_000) as i64,
            stuck_wall: rng.chance(0.2),
            clock,
        }
    }

    /// The wall clock. It is wrong by up to two hours, and sometimes stopped.
    pub(super) fn wall(&self) -> i64 {
        if self.stuck_wall { self.wall } else { self.wall + (self.clock.now().as_micros() as i64) }
    }

    /// Updates the token from the `LeaseState`, as the elector does.
    pub(super) fn update_token(&self, mutant: Option<Mutant>) {
        let runs_on = mutant == Some(Mutant::EarlyRelease) && matches!(self.activity, Activity::Release { .. });
        if self.activity != Activity::Gone && !runs_on {
            self.leadership.set(self.state.until());
        }
    }

    pub(super) fn unwatch(&mut self) {
        self.watch = None;
        self.watch_at = self.clock.now() + self.terms.retry;
        self.state.set_watching(false);
    }

    pub(super) fn suspend(&mut self, from: Duration, to: Duration, mutant: Option<Mutant>) {
        self.paused = self.paused.max(to);
        if mutant == Some(Mutant::SleepingClock) {
            self.clock.miss(to.saturating_sub(from));
        }
    }

    pub(super) fn crash(&mut self) {
        self.activity = Activity::Gone;
        self.blocked = Duration::ZERO;
        self.leadership.set(None);
        self.request = None;
        self.watch = None;
    }
}
