//! A simulation of the protocol with many faults at once, in virtual time.
//!
//! Each scenario follows from one seed: replicas whose clocks run up to 20 % fast or slow, a server
//! with compare-and-swap, and partitions, pauses, crashes, stops, outages, slow and lost requests
//! and responses, errors, watches that drop and delay events, a map or slots that are deleted.
//! Meanwhile a person moves shards and drains replicas. Afterwards one replica joins or stops, or all are started again
//! with another number of shards or another field: in half of these scenarios while further faults happen, and in half of
//! those the new ones start before the old ones stop. In some scenarios, two installations that watch different namespaces start at the same time, and
//! one of them works; afterwards it stops, and the other one works. In others, the server is restored from a backup:
//! while nothing happens, twice, while a replica stops or when one has joined. `KOOPER_SEED=n` runs the scenario of that
//! seed only, `KOOPER_SEEDS=n` so many.

use std::time::Duration;

use kooper_base::leader::lease_state::Terms;

use crate::hash::{ShardCount, ShardField, fraction};
use crate::mutant::Mutant;

mod network;
mod process;
mod rng;
mod scenario;
mod world;

use rng::SimRng;
use scenario::{Disruption, DisruptionKind, Summary};
use world::World;

const SEEDS: u64 = 100;

/// Lease, renew deadline and retry period, in milliseconds.
const TIMINGS: [[u64; 3]; 3] = [[15_000, 10_000, 2_000], [3_000, 2_000, 1_000], [6_000, 4_000, 1_000]];

/// The settings that the replicas are started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Configuration {
    slots: u8,
    count: ShardCount,
    by: ShardField,
    terms: Terms,
    /// Slots are watched: each by a few replicas.
    watches_slots: bool,
    /// The replicas belong to two installations alternately, which watch different namespaces.
    are_apart: bool,
}

impl Configuration {
    fn of_32_shards(slots: u8, watches_slots: bool) -> Self {
        let [lease, deadline, retry] = TIMINGS[0].map(Duration::from_millis);
        let terms = Terms::new(lease, deadline, retry);
        Self { slots, count: count(5), by: ShardField::Uid, terms, watches_slots, are_apart: false }
    }
}

fn count(bits: usize) -> ShardCount {
    (1_u16 << bits).try_into().unwrap()
}

fn run_scenario(seed: u64, mutant: Option<Mutant>) -> Result<Summary, String> {
    let mut rng = SimRng::new(seed);
    let [lease, deadline, retry] = TIMINGS[rng.below(3)].map(Duration::from_millis);
    let replicas = 3 + rng.below(3);
    let configuration = Configuration {
        // With many free slots, not all of them are read each time.
        slots: replicas as u8 + if seed.is_multiple_of(2) { 2 } else { 12 },
        count: count(2 + rng.below(3)),
        by: ShardField::Uid,
        terms: Terms::new(lease, deadline, retry),
        watches_slots: rng.chance(0.7),
        // Not drawn, so that other seeds keep their scenarios.
        are_apart: matches!(seed % 16, 5 | 6 | 12),
    };
    let deleted = if rng.chance(0.5) { DisruptionKind::DeleteMap } else { DisruptionKind::DeleteSlot };
    let faults: Vec<_> = (0..4 + rng.below(9))
        .map(|_| (rng.within(lease * 5), Disruption::any(&mut rng, replicas, lease, deleted)))
        .collect();
    let last = faults.iter().map(|(at, fault)| *at + fault.lasts).max().unwrap_or_default();
    let kind = rng.below(3);
    let mut world = World::new(configuration, replicas, faults, mutant, rng);
    let is_restored = matches!(seed % 16, 7 | 11 | 13);
    if is_restored {
        world.run_to(last.mul_f64(fraction(seed)))?;
        world.back_up();
    }
    world.run_to(last)?;
    let bound = last + world.bound();
    world.run_until(bound, "a shard has no owner", World::is_owned)?;
    world.summary.recovered = (world.now - last).as_secs_f64() / (bound - last).as_secs_f64();
    world.run_until(bound + lease * 6, "the shards are not balanced", World::is_settled)?;
    if configuration.are_apart {
        return take_over(&mut world, kind).map(|()| world.summary);
    }
    if is_restored {
        return restore(&mut world, seed).map(|()| world.summary);
    }
    if kind < 2 {
        world.undo();
        world.run_until(world.now + lease * 6, "the shards are not balanced without overrides", World::is_settled)?;
    }
    match kind {
        0 => change(&mut world, None)?,
        1 => change(&mut world, Some(0))?,
        _ => {
            let (by, bits) =
                [(ShardField::Uid, 5), (ShardField::Uid, 1), (ShardField::Namespace, 3)][seed as usize % 3];
            // These have more slots than replicas.
            let deleted = (!seed.is_multiple_of(2)).then_some(deleted);
            roll_out(&mut world, by, count(bits), deleted, seed % 4 == 1)?;
        }
    }
    Ok(world.summary)
}

/// A replica joins, or this one stops. One that joins gets its share, one that stops gives away what it owns, and no
/// other shard moves.
fn change(world: &mut World, stops: Option<usize>) -> Result<(), String> {
    // Sessions that have ended in the meantime, and drains that were given up.
    let lease = world.configuration.terms.lease;
    world.run_to(world.now + lease * 2)?;
    if !world.is_settled() {
        return Err("the shards do not stay balanced".to_owned());
    }
    let (moves, shards) = (world.summary.moves, usize::from(world.configuration.count.get()));
    let running = world.processes.iter().filter(|process| process.is_alive).count();
    let least = stops.map_or(shards / (running + 1), |who| world.loads()[who]);
    match stops {
        Some(who) => world.stop(who),
        None => world.join(),
    }
    let by = world.now + lease * 6;
    world.run_until(by, "the shards are not balanced after a change", World::is_settled)?;
    world.run_to(world.now + lease)?;
    let moved = world.summary.moves - moves;
    if moved == least as u64 { Ok(()) } else { Err(format!("{moved} shards have moved instead of {least}")) }
}

/// The replicas of the installation that works stop, or crash, and the other one works.
fn take_over(world: &mut World, kind: usize) -> Result<(), String> {
    for who in world.sharing() {
        match kind {
            0 => world.processes[who].crash(),
            _ => world.stop(who),
        }
    }
    let lease = world.configuration.terms.lease;
    world.run_until(world.now + world.bound() + lease, "the other installation does not work", World::is_owned)?;
    world.run_until(world.now + lease * 6, "the shards of the other installation are not balanced", World::is_settled)
}

/// The server is restored from a backup.
fn restore(world: &mut World, seed: u64) -> Result<(), String> {
    let Terms { lease, retry, .. } = world.configuration.terms;
    let some_time = lease.mul_f64(fraction(seed));
    world.run_to(world.now + lease)?;
    let moment = seed / 16 % 4;
    match moment {
        0 => world.stop(0),
        // Once it has read something, it notices that this has gone back.
        1 => world.join(),
        _ => {}
    }
    if moment < 2 {
        world.run_to(world.now + retry * 2 + some_time)?;
    }
    if !world.restore() {
        return Ok(());
    }
    if moment == 2 {
        world.run_to(world.now + some_time)?;
        world.restore();
    }
    // The faults have ended.
    world.run_to(world.now + lease * 3 / 2)?;
    let bound = world.now + world.bound() + lease;
    world.run_until(bound, "a shard has no owner after the restore", World::is_owned)?;
    world.run_until(bound + lease * 6, "the shards are not balanced after the restore", World::is_settled)
}

/// All replicas are started again, one after another, with another field or number of shards. With `deleted`, further
/// faults happen meanwhile, and this is the one that deletes something. With `surges`, a new replica starts before each
/// one that stops, and otherwise afterwards.
fn roll_out(
    world: &mut World,
    by: ShardField,
    count: ShardCount,
    deleted: Option<DisruptionKind>,
    surges: bool,
) -> Result<(), String> {
    (world.configuration.by, world.configuration.count) = (by, count);
    let lease = world.configuration.terms.lease;
    let replicas = world.processes.len();
    let last = deleted.map_or(Duration::ZERO, |deleted| world.disturb(lease * 2, deleted));
    for who in 0..replicas {
        if surges {
            world.join();
            world.run_to(world.now + lease / 4)?;
        }
        world.stop(who);
        // One that is paused stops afterwards.
        let by = world.now.max(last) + lease * 2;
        world.run_until(by, "a replica does not stop", |world| {
            !world.processes[who].is_alive || !world.processes[who].is_stopping
        })?;
        if !surges {
            world.restart(who);
        }
        world.run_to(world.now + lease / 4)?;
    }
    world.run_to(world.now.max(last))?;
    let bound = if deleted.is_some() { world.bound() } else { Duration::ZERO };
    world.run_until(world.now + bound + lease * 6, "the shards are not split or changed", World::is_settled)
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|seed| seed.parse::<u64>().expect("a number"));
    number("KOOPER_SEED").map_or_else(|| (0..number("KOOPER_SEEDS").unwrap_or(SEEDS)).collect(), |seed| vec![seed])
}

#[test]
fn no_shard_is_in_two_hands_and_each_is_soon_in_one_whatever_fails() {
    let begun = std::time::Instant::now();
    let seeds = seeds();
    let halves = seeds.chunks(seeds.len().div_ceil(2));
    let results: Vec<(u64, Result<Summary, String>)> = std::thread::scope(|scope| {
        let run = |half: &[u64]| half.iter().map(|&seed| (seed, run_scenario(seed, None))).collect::<Vec<_>>();
        let threads: Vec<_> = halves.map(|half| scope.spawn(move || run(half))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let broken: Vec<String> = results
        .iter()
        .filter_map(|(seed, result)| Some(format!("KOOPER_SEED={seed}: {}", result.as_ref().err()?)))
        .collect();
    let summaries: Vec<&Summary> = results.iter().filter_map(|(_, result)| result.as_ref().ok()).collect();
    let sum = |of: fn(&Summary) -> u64| summaries.iter().map(|summary| of(summary)).sum::<u64>();
    println!(
        "{} scenarios in {:.1} s: {} moves, {} of them handed over; {} calls, {} writes stopped by the fence; \
         {} requests, {} conflicts; slowest recovery {:.2} of the bound",
        summaries.len(),
        begun.elapsed().as_secs_f64(),
        sum(|summary| summary.moves),
        sum(|summary| summary.handed_over),
        sum(|summary| summary.calls),
        sum(|summary| summary.fenced),
        sum(|summary| summary.requests),
        sum(|summary| summary.conflicts),
        summaries.iter().map(|summary| summary.recovered).fold(0.0, f64::max),
    );
    assert!(broken.is_empty(), "{} scenarios: {:#?}", broken.len(), &broken[..broken.len().min(20)]);
    if summaries.len() > 1 {
        assert!(sum(|summary| summary.handed_over) > 5 * SEEDS, "shards are handed over in the scenarios");
        assert!(sum(|summary| summary.fenced) > 0, "terms end while calls are running");
    }
}

#[test]
fn eight_replicas_that_join_and_stop_one_after_another_move_as_few_shards_as_possible() {
    for seed in 0..20 {
        let configuration = Configuration::of_32_shards(10, false);
        let lease = configuration.terms.lease;
        let mut world = World::new(configuration, 1, Vec::new(), None, SimRng::new(seed));
        world.run_until(lease * 3, "the first replica does not own all", World::is_settled).unwrap();
        let mut moves = |stops| {
            let before = world.summary.moves;
            change(&mut world, stops).unwrap_or_else(|error| panic!("seed {seed}: {stops:?}: {error}"));
            world.summary.moves - before
        };
        // 32 shards: the share of the one that joins, and later what the one that stops owns.
        assert_eq!([(); 7].map(|()| moves(None)), [16, 10, 8, 6, 5, 4, 4]);
        (1..8).for_each(|who| assert!(moves(Some(who)) > 0, "seed {seed}"));
    }
}

#[test]
fn of_seven_replicas_that_join_or_stop_at_once_few_shards_move_twice() {
    for seed in 0..5 {
        let configuration = Configuration::of_32_shards(10, false);
        let lease = configuration.terms.lease;
        let mut world = World::new(configuration, 1, Vec::new(), None, SimRng::new(seed));
        let settle = |world: &mut World| {
            let before = world.summary.moves;
            world.run_until(world.now + lease * 4, "the shards are not balanced", World::is_settled).unwrap();
            world.run_to(world.now + lease).unwrap();
            world.summary.moves - before
        };
        assert_eq!(settle(&mut world), 0, "the first map names its owners");
        // Seven take all but the fair share of the first one. They begin within a retry period of each other: a plan
        // gives those that have begun the shares of those that have not, so some shards move once more. One after
        // another would move 53.
        (0..7).for_each(|_| world.join());
        let taken = settle(&mut world);
        println!("seed {seed}: {taken} moves");
        assert!((28..=42).contains(&taken), "seed {seed}: {taken}");
        // No plan gives shards to those that stop.
        (1..8).for_each(|who| world.stop(who));
        assert_eq!(settle(&mut world), 28, "seed {seed}: what they own is given back");
    }
}

#[test]
fn no_shard_is_split_while_a_replica_with_fewer_shards_may_renew_its_session_after_an_outage() {
    let configuration = Configuration::of_32_shards(8, false);
    let lease = configuration.terms.lease;
    for seed in 0..40 {
        let mut world = World::new(configuration, 3, Vec::new(), None, SimRng::new(seed));
        world.run_until(lease * 3, "the shards are not balanced", World::is_settled).unwrap();
        world.configuration.count = count(6);
        world.stop(0);
        let by = world.now + lease * 2;
        world.run_until(by, "the replica does not stop", |world| !world.processes[0].is_alive).unwrap();
        world.restart(0);
        world.run_to(world.now + lease * 2).unwrap();
        let outage = world.now + lease * 2;
        world.processes.iter_mut().for_each(|process| process.faults.cut = outage);
        world.run_to(outage + lease).unwrap();
        let stored = world.server.map.as_ref().map(|stored| stored.map.count());
        assert_eq!(stored, Some(count(5)), "seed {seed}: two of three replicas were not updated");
    }
}

#[test]
fn sessions_are_written_once_in_a_retry_period_and_a_few_more_times_when_shards_move() {
    let configuration = Configuration::of_32_shards(6, false);
    let Terms { lease, retry, .. } = configuration.terms;
    for seed in 0..20 {
        let mut world = World::new(configuration, 4, Vec::new(), None, SimRng::new(seed));
        let settle = |world: &mut World| {
            let by = world.now + lease * 3;
            world.run_until(by, "the shards are not balanced", World::is_settled).unwrap();
        };
        settle(&mut world);
        world.run_to(world.now + lease).unwrap();
        // The fastest clock is 20 % fast.
        let most = |replicas: u32, span: Duration| f64::from(replicas) * (1.2 * span.div_duration_f64(retry) + 1.0);
        let (begun, before) = (world.now, world.summary.renewals);
        world.run_to(begun + retry * 20).unwrap();
        let written = world.summary.renewals - before;
        assert!((written as f64) <= most(4, retry * 20), "seed {seed}: {written} writes");
        for change in [World::join as fn(&mut World), |world| world.stop(1)] {
            let (begun, before) = (world.now, world.summary.renewals);
            change(&mut world);
            settle(&mut world);
            let (span, written) = (world.now - begun, world.summary.renewals - before);
            println!("seed {seed}: {:.2} retry periods, {written} writes", span.div_duration_f64(retry));
            assert!((written as f64) <= most(5, span) + 15.0, "seed {seed}: {written} writes");
            world.run_to(world.now + lease).unwrap();
        }
    }
}

#[test]
fn of_many_free_slots_only_a_few_are_read_each_time() {
    let configuration = Configuration::of_32_shards(16, false);
    let Terms { lease, retry, .. } = configuration.terms;
    let mut world = World::new(configuration, 4, Vec::new(), None, SimRng::new(1));
    world.run_until(lease * 3, "the shards are not balanced", World::is_settled).unwrap();
    world.run_to(world.now + lease).unwrap();
    let before = world.summary.slots_read;
    world.run_to(world.now + retry * 20).unwrap();
    let read = (world.summary.slots_read - before) as f64 / (4.0 * 20.0);
    println!("{read:.1} slots for each replica and retry period");
    assert!(read < 11.0, "{read}");
}

#[test]
fn shards_of_a_killed_replica_have_an_owner_within_a_second_after_its_lease() {
    let configuration = Configuration::of_32_shards(16, true);
    let Terms { lease, retry, .. } = configuration.terms;
    for (seed, replicas) in (0..20).zip([2, 3, 4, 8].into_iter().cycle()) {
        let mut world = World::new(configuration, replicas, Vec::new(), None, SimRng::new(seed));
        world.run_until(lease * 3, "the shards are not balanced", World::is_settled).unwrap();
        world.run_to(world.now + lease + retry.mul_f64(seed as f64 / 20.0)).unwrap();
        world.processes[1].crash();
        // The slowest clock is 20 % slow.
        let by = world.now + lease.mul_f64(1.25) + Duration::from_secs(1);
        world.run_until(by, "a shard has no owner", World::is_owned).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

#[test]
fn the_last_replica_that_stops_returns_the_lease_of_the_map() {
    for seed in 0..120 {
        let mut rng = SimRng::new(seed);
        let (replicas, at_once) = (1 + rng.below(5), rng.chance(0.5));
        // Calls that run for longer than the limit of a stop end at the same time.
        let (is_long, fails) = (rng.chance(0.5), rng.chance(0.5));
        let configuration = Configuration::of_32_shards(8, true);
        let lease = configuration.terms.lease;
        let mut world = World::new(configuration, replicas, Vec::new(), None, rng);
        world.run_until(lease * 3, "the shards are not balanced", World::is_settled).unwrap();
        for who in 0..replicas {
            if is_long {
                world.work(who, lease * 2 / 3);
            }
            if fails && !at_once && who + 1 == replicas {
                world.processes[who].faults.errors = world.now + lease / 5;
            }
            world.stop(who);
            if !at_once {
                world.run_to(world.now + lease).unwrap();
            }
        }
        let is_returned = |world: &World| world.server.map.is_none() && world.server.returned.is_some();
        world
            .run_until(world.now + lease, "the Lease is not returned", is_returned)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        // A replica that starts afterwards shares the shards anew.
        world.restart(0);
        let by = world.now + lease * 3;
        world.run_until(by, "a shard has no owner", World::is_owned).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

/// Finds a scenario in which a broken protocol fails as expected, first where one was found before.
fn assert_is_detected(mutant: Mutant, expected: &str, first: u64) {
    let broken = |seed| run_scenario(seed, Some(mutant)).err().filter(|broken| broken.contains(expected));
    let found = (first..first + 2_000).find_map(|seed| Some((seed, broken(seed)?)));
    let (seed, broken) = found.unwrap_or_else(|| panic!("{mutant:?} is not detected by {expected:?}"));
    println!("{mutant:?}: seed {seed}: {broken}");
}

/// A replica works on a shard that is another one's, or in another term.
const WORKS: &str = ", and the map says ";
/// Two replicas work on a shard after the map was deleted or restored.
const WORKS_WITHOUT_MAP: &str = ", and no map names an owner";
const ENDS_A_VALID_SESSION: &str = "the valid session ";
/// Only the owner gives a shard away, until its session has ended.
const TAKES: &str = ", which has not ended, is given away by ";

macro_rules! detects {
    ($($name:ident: $mutant:ident by $expected:expr, from $first:literal;)*) => {
        $(
            #[test]
            fn $name() {
                assert_is_detected(Mutant::$mutant, $expected, $first);
            }
        )*
    };
}

detects! {
    a_token_as_long_as_the_lease_is_detected: NoMargin by ENDS_A_VALID_SESSION, from 0;
    a_token_that_is_slightly_too_long_is_detected: ThinMargin by ENDS_A_VALID_SESSION, from 0;
    a_token_that_is_valid_from_the_answer_is_detected: FromTheAnswer by ENDS_A_VALID_SESSION, from 10643;
    a_clock_that_sleeps_is_detected: SleepingClock by ENDS_A_VALID_SESSION, from 0;
    half_of_the_wait_is_detected: HalfTheWait by ENDS_A_VALID_SESSION, from 0;
    an_expired_session_without_a_tombstone_is_detected: NoTombstone by TAKES, from 0;
    a_tombstone_over_a_newer_record_is_detected: BlindEvictor by ENDS_A_VALID_SESSION, from 586;
    a_map_over_a_newer_map_is_detected: BlindMapWrites by WORKS, from 42;
    a_map_that_is_valid_forever_is_detected: BlindMap by WORKS, from 14;
    an_old_event_of_the_watch_is_detected: StaleWatch by WORKS, from 7;
    a_release_that_is_taken_back_is_detected: TakenBackRelease by WORKS, from 11;
    a_session_that_is_released_early_is_detected: EarlyRelease by " while calls are running", from 9;
    a_hand_over_without_a_drain_is_detected: EarlyHandOver by " is handed over while a call of it runs", from 0;
    a_successor_that_is_not_warm_is_detected:
        ColdSuccessor by " is handed over to a replica that does not hold it", from 0;
    a_shard_that_is_taken_from_the_living_is_detected: TakenFromTheLiving by TAKES, from 0;
    a_plan_that_ignores_the_map_is_detected: PlanWithoutMap by " shards have moved instead of ", from 1;
    a_map_that_is_created_again_at_once_is_detected: NoGuardOfTheMap by WORKS, from 14;
    a_session_that_ends_with_its_slot_is_detected: NoGuardOfSessions by WORKS, from 0;
    a_map_that_is_announced_while_calls_run_by_the_one_before_is_detected:
        AnnouncedEarly by " has an owner while a call of ", from 28;
    a_session_that_follows_its_own_while_calls_run_is_detected: ReturnsEarly by " while calls are running", from 66;
    a_term_that_does_not_rise_is_detected: SameTerm by " has a new owner in the old term ", from 0;
    two_installations_that_work_by_one_map_are_detected: NoYield by " works, and the map is that of ", from 102;
    replicas_that_work_by_a_backup_at_once_are_detected: NoGuardOfRestore by WORKS_WITHOUT_MAP, from 3245;
    a_map_with_another_field_over_one_with_owners_is_detected: RebuiltWithoutRelease by WORKS, from 0;
    a_lease_that_is_returned_while_others_work_is_detected: ReturnedEarly by "the Lease is returned while ", from 12;
    a_lease_that_is_returned_while_calls_run_is_detected:
        ReturnedInCalls by "the Lease is returned while a call of bucket ", from 0;
    a_session_without_its_time_is_detected: IdentityAlone by WORKS, from 0;
}
