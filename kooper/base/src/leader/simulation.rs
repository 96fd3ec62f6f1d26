//! A simulation of the protocol with many faults at once, in virtual time.
//!
//! Each scenario follows from one seed: candidates whose clocks run up to 20 %
//! fast or slow, a server with the checks of the real one, and partitions, pauses,
//! crashes, stops, blocked threads, slow and lost requests and responses, errors, and
//! watches that drop and delay events. `KOOPER_SEED=n` runs the scenario of that seed only.

use std::time::Duration;

mod network;
mod process;
mod rng;
mod scenario;
mod world;

use rng::SimRng;
use scenario::{Disruption, Scenario, Summary};
use world::World;

/// A way to break the protocol. The simulation must detect each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    /// The token lasts as long as the lease.
    NoMargin,
    /// The token is three tenths shorter than the lease, slightly too little for
    /// clocks that are 20 % off.
    ThinMargin,
    /// A renewal is valid from when its response arrives.
    FromTheAnswer,
    /// A release overwrites any version.
    BlindRelease,
    /// Every write overwrites any version.
    BlindWrites,
    /// The lease is released while handlers are running.
    EarlyRelease,
    /// The clock stops while the process is paused.
    SleepingClock,
    /// Candidates wait for half of the lease.
    HalfTheWait,
    /// A write without a response is treated as committed.
    TrustingWrites,
    /// Handlers check the token when they begin, but not when they write.
    EarlyLook,
    /// Requests that wait to be sent are sent although the token has expired.
    LateRequests,
    /// Nothing ends a process whose handlers are blocked.
    NoWatchdog,
}

const SEEDS: u64 = 10_000;

/// Lease, renew deadline and retry period, in milliseconds.
const TIMINGS: [[u64; 3]; 4] =
    [[15_000, 10_000, 2_000], [3_000, 2_000, 1_000], [6_000, 4_000, 1_000], [1_900, 1_250, 1_000]];

fn run_scenario(seed: u64, mutant: Option<Mutant>) -> Result<Summary, String> {
    let mut rng = SimRng::new(seed);
    let [lease, deadline, retry] = TIMINGS[rng.below(4) as usize].map(Duration::from_millis);
    let count = 3 + rng.below(3) as usize;
    let span = lease * 5;
    let faults = 4 + rng.below(9);
    let scenario = Scenario {
        terms: [lease, deadline, retry],
        candidates: count,
        faults: (0..faults).map(|_| (rng.within(span), Disruption::any(&mut rng, count, lease))).collect(),
        mutant,
    };
    // The handlers have their own randomness, so that they do not change the elections.
    World::new(scenario, rng, SimRng::new(!seed)).run()
}

fn seeds() -> Vec<u64> {
    match std::env::var("KOOPER_SEED") {
        Ok(seed) => vec![seed.parse().expect("KOOPER_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    }
}

#[test]
fn there_is_never_more_than_one_leader_whatever_fails() {
    let begun = std::time::Instant::now();
    let seeds = seeds();
    let halves = seeds.chunks(seeds.len().div_ceil(2));
    let summaries: Vec<Summary> = std::thread::scope(|scope| {
        let run = |half: &[u64]| {
            half.iter()
                .map(|&seed| run_scenario(seed, None).unwrap_or_else(|broken| panic!("KOOPER_SEED={seed}: {broken}")))
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = halves.map(|half| scope.spawn(move || run(half))).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let sum = |of: fn(&Summary) -> u64| summaries.iter().map(of).sum::<u64>();
    let slowest = summaries.iter().map(|summary| summary.recovered).max().unwrap_or_default();
    let share = summaries.iter().map(|summary| summary.recovered.as_secs_f64() / summary.lease.as_secs_f64());
    println!(
        "{} scenarios in {:.1} s: {} terms, {} renewals, {} conflicts; slowest recovery {:.2} s, {:.2} leases",
        summaries.len(),
        begun.elapsed().as_secs_f64(),
        sum(|summary| summary.terms),
        sum(|summary| summary.commits),
        sum(|summary| summary.conflicts),
        slowest.as_secs_f64(),
        share.fold(0.0, f64::max),
    );
    println!(
        "{} writes sent, none after its term; {} stopped by the fence, {} aborted before they were sent; \
         {} arrived after the term, at most {:.2} s, {} of these after the next term had begun",
        sum(|summary| summary.works),
        sum(|summary| summary.fenced),
        sum(|summary| summary.ended),
        sum(|summary| summary.late),
        summaries.iter().map(|summary| summary.tail).max().unwrap_or_default().as_secs_f64(),
        sum(|summary| summary.overtaken),
    );
    if summaries.len() > 1 {
        assert!(sum(|summary| summary.terms) > 2 * SEEDS, "leaders change in the scenarios");
        let tested = sum(|summary| summary.fenced.min(1)).min(sum(|summary| summary.ended.min(1)));
        assert!(tested > SEEDS / 10, "terms end before writes and between a write and its sending: {tested}");
        let outlived = sum(|summary| summary.outlived);
        assert!(outlived > SEEDS / 20, "terms end while handlers are blocked: {outlived}");
    }
}

#[test]
fn the_simulation_detects_a_broken_protocol() {
    for mutant in [
        Mutant::NoMargin,
        Mutant::ThinMargin,
        Mutant::FromTheAnswer,
        Mutant::BlindRelease,
        Mutant::BlindWrites,
        Mutant::EarlyRelease,
        Mutant::SleepingClock,
        Mutant::HalfTheWait,
        Mutant::TrustingWrites,
        Mutant::EarlyLook,
        Mutant::LateRequests,
        Mutant::NoWatchdog,
    ] {
        let found = (0..3_000).find_map(|seed| run_scenario(seed, Some(mutant)).err().map(|broken| (seed, broken)));
        match found {
            Some((seed, broken)) => println!("{mutant:?}: seed {seed}: {broken}"),
            None => panic!("{mutant:?} is not detected"),
        }
    }
}
