//! Random histories of a queue. `KOOPER_OPERATIONS` sets the length of a long one.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Add(u8, Lane, Reason),
    AddAfter(u8, u64),
    Take,
    Finish(u8, Completion),
    Forget(u8),
    Advance(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let lane = prop_oneof![Just(Lane::Event), Just(Lane::Retry), Just(Lane::Background)];
    let completion = prop_oneof![
        Just(Completion::Success(None)),
        (1u64..3000).prop_map(|delay| Completion::Success(Some(ms(delay)))),
        Just(Completion::Failure),
        (1u64..3000).prop_map(|delay| Completion::FailureAfter(ms(delay))),
        (1u64..3000).prop_map(|delay| Completion::Paused(ms(delay))),
        (0u64..2).prop_map(Completion::Forbidden),
        Just(Completion::FailureForGood),
        Just(Completion::Skipped),
        Just(Completion::Refused),
        Just(Completion::Gone),
    ];
    let reason =
        prop_oneof![Just(Reason::External), Just(Reason::Modified), Just(Reason::Resync), Just(Reason::Deleted)];
    prop_oneof![
        4 => (0u8..5, lane, reason).prop_map(|(key, lane, reason)| Op::Add(key, lane, reason)),
        1 => (0u8..5, 0u64..2000).prop_map(|(key, delay)| Op::AddAfter(key, delay)),
        4 => Just(Op::Take),
        4 => (0u8..5, completion).prop_map(|(key, completion)| Op::Finish(key, completion)),
        1 => (0u8..5).prop_map(Op::Forget),
        2 => (0u64..1500).prop_map(Op::Advance),
    ]
}

/// Every add is followed by a run that starts after it, a key has at most one run at a time, and no state is left at the
/// end.
fn check(queue: &mut TimedQueue, ops: Vec<Op>) {
    let (mut running, mut added, mut delayed) = (BTreeSet::<String>::new(), BTreeSet::new(), BTreeSet::new());
    for op in ops {
        match op {
            Op::Add(n, lane, reason) => {
                queue.add(&n.to_string(), lane, reason);
                added.insert(n.to_string());
            }
            Op::AddAfter(n, delay) => {
                queue.state.add_after(&key(&n.to_string()), ms(delay), queue.now);
                delayed.insert(n.to_string());
            }
            Op::Take => {
                if let Some(name) = queue.name() {
                    assert!(running.insert(name.clone()), "two workers process {name}");
                    added.remove(&name);
                    delayed.remove(&name);
                }
            }
            Op::Finish(n, completion) => {
                queue.finish(&n.to_string(), completion);
                if running.remove(&n.to_string()) && completion == Completion::Gone {
                    delayed.remove(&n.to_string());
                }
            }
            Op::Forget(n) => {
                queue.state.forget(&key(&n.to_string()), queue.now);
                delayed.remove(&n.to_string());
            }
            Op::Advance(by) => queue.now += ms(by),
        }
        let lanes = queue.lanes();
        assert_eq!((queue.state.counts().lanes, queue.state.ready()), (lanes, lanes.iter().sum::<usize>()));
    }
    for name in running {
        queue.finish(&name, Completion::Success(None));
    }
    added.append(&mut delayed);
    let deadline = queue.now + Duration::from_secs(120);
    while !added.is_empty() {
        assert!(queue.wait().is_some() && queue.now < deadline, "never run: {added:?}");
        while let Some(name) = queue.name() {
            added.remove(&name);
            queue.finish(&name, Completion::Success(None));
        }
    }
    for n in 0..5u8 {
        queue.event(&n.to_string());
    }
    let is_resynced = queue.state.options.resync.is_some();
    while queue.state.known() > 0 {
        while let Some(name) = queue.name() {
            queue.finish(&name, Completion::Success(None));
            // Without resyncs, a key that is neither waiting nor running needs no memory.
            if is_resynced {
                queue.state.forget(&key(&name), queue.now);
            }
        }
        if queue.state.known() > 0 {
            assert!(queue.wait().is_some());
        }
    }
    assert_eq!(queue.wait(), None);
    let state = &queue.state;
    let timers = [&state.delayed, &state.retries, &state.resyncs, &state.debounced].map(Schedule::len);
    assert_eq!((timers, state.ready.len(), state.forbidden.is_empty()), ([0; 4], 0, true));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_add_is_lost_and_no_key_has_two_runs_at_once(ops in prop::collection::vec(op(), 0..120), resync: bool, limited: bool, debounced: bool) {
        let mut queue = TimedQueue::new(QueueOptions {
            resync: resync.then(|| ms(4_000)),
            retries: limited.then_some(1),
            retry_rate: (5, 2),
            debounce: debounced.then(|| ms(700)),
            ..options()
        });
        check(&mut queue, ops);
    }
}

#[test]
fn after_a_long_history_the_memory_is_that_of_live_keys() {
    let operations = std::env::var("KOOPER_OPERATIONS").map_or(30_000, |text| text.parse().expect("a number"));
    let (mut runner, ops) = (TestRunner::deterministic(), prop::collection::vec(op(), 1000));
    let mut queue = TimedQueue::new(options());
    for _ in 0..operations / 1000_u32 {
        check(&mut queue, ops.new_tree(&mut runner).expect("nothing is rejected").current());
    }
}
