//! A long random history beside a small model. `KOOPER_OPERATIONS` sets its length.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Random numbers by a linear congruence: the same history in each run.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A model of the queue with the minimum of state.
#[derive(Default)]
struct Model {
    /// Keys that were added since their last run began.
    added: BTreeSet<String>,
    running: BTreeSet<String>,
    taken: u64,
}

impl Model {
    fn take(&mut self, queue: &mut TimedQueue) -> Option<String> {
        let name = queue.name()?;
        assert!(self.running.insert(name.clone()), "`{name}` runs twice at the same time");
        self.added.remove(&name);
        self.taken += 1;
        Some(name)
    }

    /// Gives back all keys, and takes what is due until nothing is.
    fn settle(&mut self, queue: &mut TimedQueue) {
        loop {
            for name in std::mem::take(&mut self.running) {
                queue.finish(&name, Completion::Success(None));
            }
            if self.take(queue).is_none() && queue.wait().is_none() {
                break;
            }
        }
        assert!(self.added.is_empty(), "never taken: {:?}", self.added);
        assert_eq!(queue.state.known(), 0, "a key that is neither waiting nor running needs no memory");
    }
}

#[test]
fn every_add_is_followed_by_a_run_and_memory_is_that_of_live_keys() {
    let operations = std::env::var("KOOPER_OPERATIONS").map_or(30_000, |text| text.parse().expect("a number"));
    let mut rng = Rng(7);
    let mut queue = TimedQueue::new(QueueOptions { resync: None, ..options() });
    let mut model = Model::default();
    let mut adds: BTreeMap<&str, u64> = BTreeMap::new();
    for operation in 1..=operations {
        let name = format!("k{}", rng.below(12));
        match rng.below(16) {
            0..5 => {
                let lane = [Lane::Event, Lane::Retry, Lane::Background][rng.below(3) as usize];
                let reason = match rng.below(3) {
                    0 => Reason::External,
                    1 => Reason::Modified,
                    _ => Reason::Deleted,
                };
                queue.add(&name, lane, reason);
                model.added.insert(name);
                *adds.entry("added").or_default() += 1;
            }
            5 => {
                let now = queue.now;
                queue.state.add_after(&key(&name), ms(rng.below(5000)), now);
                model.added.insert(name);
            }
            6..10 => drop(model.take(&mut queue)),
            10..14 => {
                let Some(name) = model.running.iter().nth(rng.below(12) as usize).cloned() else { continue };
                let completion = match rng.below(9) {
                    0..3 => Completion::Success(None),
                    3 => Completion::Success(Some(ms(rng.below(3000) + 1))),
                    4 => Completion::Failure,
                    5 => Completion::FailureAfter(ms(rng.below(3000) + 1)),
                    6 => Completion::Paused(ms(rng.below(3000) + 1)),
                    7 => Completion::Forbidden(rng.below(2)),
                    _ => Completion::Skipped,
                };
                model.running.remove(&name);
                queue.finish(&name, completion);
            }
            14 => queue.now += ms(rng.below(1500)),
            _ => {
                // A deleted object: adds from before count no more.
                let now = queue.now;
                if !model.running.contains(&name) {
                    queue.state.forget(&key(&name), now);
                    model.added.remove(&name);
                }
            }
        }
        assert_eq!(queue.state.counts().lanes, queue.lanes());
        assert!(queue.state.known() <= 12, "more keys than there are");
        if operation % 1000 == 0 {
            model.settle(&mut queue);
        }
    }
    model.settle(&mut queue);
    println!("{operations} operations, {} adds, {} runs", adds["added"], model.taken);
}
