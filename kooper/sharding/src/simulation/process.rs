//! One process: a member, its clock, its requests and its calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kooper_base::leader::scope::WatchedNamespaces;

use super::network::ConnectionFaults;
use super::rng::SimRng;
use super::{Configuration, Mutant};
use crate::hash::Shard;
use crate::member::{Member, Options};

/// A clock that runs faster or slower than true time.
#[derive(Debug, Clone)]
pub(super) struct SimClock {
    offset: Duration,
    rate: f64,
}

impl SimClock {
    fn new(rng: &mut SimRng) -> Self {
        let rate = match rng.below(4) {
            0 => 0.8,
            1 => 1.2,
            _ => 0.8 + 0.4 * rng.next_f64(),
        };
        Self { offset: Duration::from_secs(1000) + rng.within(Duration::from_secs(1_000_000)), rate }
    }

    pub(super) fn at(&self, truth: Duration) -> Duration {
        self.offset + truth.mul_f64(self.rate)
    }

    /// The true time at which this clock shows `moment`.
    pub(super) fn true_time(&self, moment: Duration) -> Duration {
        let local = moment.saturating_sub(self.offset).min(Duration::from_secs(1_000_000));
        local.div_f64(self.rate) + Duration::from_nanos(10)
    }

    /// Stops for this time.
    pub(super) fn miss(&mut self, paused: Duration) {
        self.offset -= paused.mul_f64(self.rate);
    }
}

/// A request without a response yet.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) id: u64,
    pub(super) sent: Duration,
    pub(super) request: super::network::Request,
}

/// A running call. It is in a shard by its bucket, whose number of shards may change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) bucket: u8,
    pub(super) term: u64,
    /// When the session was acquired in which it began.
    pub(super) acquired: i64,
}

pub(super) struct Process {
    pub(super) identity: Arc<str>,
    /// The namespaces that it watches.
    pub(super) scope: WatchedNamespaces,
    pub(super) member: Member,
    pub(super) clock: SimClock,
    pub(super) faults: ConnectionFaults,
    pub(super) is_alive: bool,
    pub(super) is_stopping: bool,
    /// The end of its pause, in true time.
    pub(super) paused: Duration,
    /// The requests for its slot, all slots and the map.
    pub(super) lanes: [Option<InFlight>; 3],
    /// The last event of each watch arrives then.
    pub(super) watched: Duration,
    pub(super) calls: Vec<Call>,
    pub(super) warming: BTreeSet<Shard>,
    /// The shards that its stores have held before they were its own.
    pub(super) warmed: BTreeSet<Shard>,
    /// The number of the valid wake-up; earlier ones are ignored.
    pub(super) wake: u64,
    wall: i64,
    stuck_wall: bool,
}

impl Process {
    pub(super) fn new(
        number: u64,
        scope: WatchedNamespaces,
        configuration: &Configuration,
        truth: Duration,
        mutant: Option<Mutant>,
        rng: &mut SimRng,
    ) -> Self {
        let clock = SimClock::new(rng);
        let identity: Arc<str> = format!("replica-{number}").into();
        let mut terms = configuration.terms;
        match mutant {
            Some(Mutant::NoMargin) => terms.validity = terms.lease,
            Some(Mutant::ThinMargin) => terms.validity = terms.lease * 7 / 10,
            _ => {}
        }
        let options = Options {
            identity: Arc::clone(&identity),
            mark: "sim/shards".into(),
            scope: scope.clone(),
            slots: configuration.slots,
            count: configuration.count,
            by: configuration.by,
            terms,
        };
        Self {
            identity,
            scope,
            member: Member::mutated(options, clock.at(truth), mutant),
            clock,
            faults: ConnectionFaults::default(),
            is_alive: true,
            is_stopping: false,
            paused: Duration::ZERO,
            lanes: [None, None, None],
            watched: Duration::ZERO,
            calls: Vec::new(),
            warming: BTreeSet::new(),
            warmed: BTreeSet::new(),
            wake: 0,
            wall: 1_700_000_000_000_000 + rng.below(7_200_000_000) as i64,
            stuck_wall: rng.chance(0.2),
        }
    }

    /// The wall clock. It is wrong by up to two hours, and sometimes stopped.
    pub(super) fn wall(&self, now: Duration) -> i64 {
        if self.stuck_wall { self.wall } else { self.wall + now.as_micros() as i64 }
    }

    pub(super) fn crash(&mut self) {
        self.is_alive = false;
        self.calls.clear();
        self.lanes = [None, None, None];
    }

    /// Returns `true` if a call of a shard runs.
    pub(super) fn runs(&self, shard: Shard) -> bool {
        let count = self.member.map().map(|map| map.count());
        count.is_some_and(|count| self.calls.iter().any(|call| count.shard(call.bucket) == shard))
    }
}
