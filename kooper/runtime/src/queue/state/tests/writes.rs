//! The writes of a key's calls, and their events.

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;

use super::super::super::writes::{CacheRef, CachedKey, TIMEOUT};
use super::*;
use crate::watch::cache_id::CacheId;

/// A child in the cache of its kind.
fn cached(name: &str) -> CachedKey {
    (CacheRef::Other(CacheId::of::<ConfigMap>()), ObjectKey::cluster_scoped(name))
}

fn child(uid: &str, version: Option<u32>) -> Revision {
    let version = version.map(|version| version.to_string());
    Revision { object: cached("child"), uid: uid.to_owned(), version }
}

/// The key's own object.
fn own(version: Option<u32>) -> Revision {
    Revision { object: (CacheRef::Primary, key("a")), ..child("u", version) }
}

impl TimedQueue {
    fn wrote(&mut self, write: &Revision) {
        self.state.record_write(&key("a"), write, WriteOrigin::Own, self.now);
    }

    fn wrote_silently(&mut self, write: &Revision) {
        self.state.record_write(&key("a"), write, WriteOrigin::Silent, self.now);
    }

    /// An event reaches the key.
    fn adds(&mut self, event: &Revision, urgency: Urgency) {
        let options = AddOptions::new(Lane::Event, urgency);
        self.state.add_from_event(&key("a"), Reason::Modified, options, || event.clone(), self.now);
    }

    /// An event reaches the cache and the key.
    fn observe(&mut self, event: &Revision) {
        self.adds(event, Urgency::Soon);
        self.state.event_delivered(event, self.now);
    }
}

/// A queue whose key failed and is retried in a while.
fn failed() -> TimedQueue {
    let mut queue = running(options());
    queue.finish("a", Completion::FailureAfter(ms(60_000)));
    queue
}

#[test]
fn an_echo_is_recognized_whether_it_arrives_before_or_after_the_response() {
    for before in [true, false] {
        let mut queue = running(options());
        if before {
            queue.observe(&child("u", Some(5)));
        }
        queue.wrote(&child("u", Some(5)));
        if before {
            queue.state.cache_reached(&child("u", Some(5)), queue.now);
        }
        queue.finish("a", Completion::FailureAfter(ms(60_000)));
        if !before {
            queue.observe(&child("u", Some(5)));
        }
        assert_eq!(queue.take(), None, "before the response: {before}");
        queue.observe(&child("u", Some(6)));
        assert!(queue.take().is_some(), "another change");
    }
}

#[test]
fn a_change_by_another_client_queues_the_key_although_a_write_without_effect_returned_its_version() {
    for before in [true, false] {
        let mut queue = running(options());
        if before {
            queue.observe(&child("u", Some(5)));
        }
        queue.state.record_write(&key("a"), &child("u", Some(5)), WriteOrigin::Foreign, queue.now);
        queue.finish("a", Completion::FailureAfter(ms(60_000)));
        if !before {
            queue.observe(&child("u", Some(5)));
        } else {
            queue.state.cache_reached(&child("u", Some(5)), queue.now);
        }
        assert!(queue.take().is_some(), "before the response: {before}");
    }
}

#[test]
fn an_own_write_is_still_recognized_after_a_later_one_without_effect() {
    let mut queue = running(options());
    queue.wrote(&child("u", Some(5)));
    queue.state.record_write(&key("a"), &child("u", Some(5)), WriteOrigin::Foreign, queue.now);
    queue.finish("a", Completion::FailureAfter(ms(60_000)));
    queue.observe(&child("u", Some(5)));
    assert_eq!(queue.take(), None);
}

#[test]
fn an_own_write_queues_the_key_again_after_a_successful_call() {
    let mut queue = running(options());
    queue.observe(&child("u", Some(5)));
    queue.wrote(&child("u", Some(5)));
    queue.state.cache_reached(&child("u", Some(5)), queue.now);
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.take().map(|taken| taken.1), Some("modified".to_owned()));
}

#[test]
fn a_write_of_the_runtime_does_not_queue_the_key_or_add_a_reason() {
    let mut queue = running(options());
    queue.observe(&own(Some(5)));
    queue.wrote_silently(&own(Some(5)));
    queue.state.cache_reached(&own(Some(5)), queue.now);
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.take(), None);
    queue.add("a", Lane::Event, Reason::External);
    assert_eq!(queue.take().map(|taken| taken.1), Some("external".to_owned()));
}

#[test]
fn one_change_by_another_client_queues_a_failing_key() {
    let mut queue = running(options());
    queue.wrote(&child("u", Some(5)));
    queue.observe(&child("u", Some(5)));
    queue.observe(&child("u", Some(6)));
    queue.finish("a", Completion::FailureAfter(ms(60_000)));
    assert!(queue.take().is_some());
}

#[test]
fn any_number_of_own_writes_is_recognized_whether_their_events_arrive_during_the_call_or_after_it() {
    for (during, objects) in [(true, 1), (false, 1), (true, 3000), (false, 3000)] {
        let mut queue = running(options());
        let write = |n: u32| Revision { object: cached(&(n % objects).to_string()), ..child("u", Some(n + 1)) };
        for n in 0..3000 {
            queue.wrote(&write(n));
            if during {
                queue.observe(&write(n));
            }
        }
        queue.finish("a", Completion::FailureAfter(ms(60_000)));
        if !during {
            (0..3000).for_each(|n| queue.observe(&write(n)));
        }
        assert_eq!(queue.take(), None, "during the call: {during}, of {objects} objects");
        assert!(queue.state.expected.is_empty(), "nothing more is expected");
        queue.observe(&child("u", Some(3001)));
        assert!(queue.take().is_some(), "another change");
    }
}

#[test]
fn an_echo_is_recognized_however_late_it_is() {
    for (call, rest) in [(60_000, 0), (0, 60_000), (300_000, 300_000)] {
        let mut queue = running(options());
        queue.wrote(&child("u", Some(5)));
        queue.now += ms(call);
        // Another worker is idle.
        assert_eq!(queue.take(), None);
        queue.finish("a", Completion::FailureAfter(ms(3_600_000)));
        queue.now += ms(rest);
        assert_eq!(queue.take(), None);
        queue.observe(&child("u", Some(5)));
        assert_eq!(queue.take(), None, "{call} ms of a call and {rest} ms after it");
    }
}

#[test]
fn an_echo_is_recognized_if_the_cache_shows_it_before_the_queue_hears_of_it() {
    let mut queue = running(options());
    queue.wrote(&child("u", Some(5)));
    queue.state.cache_reached(&child("u", Some(5)), queue.now);
    queue.finish("a", Completion::FailureAfter(ms(60_000)));
    // Two relations of one cache add the same key.
    queue.adds(&child("u", Some(5)), Urgency::Soon);
    queue.observe(&child("u", Some(5)));
    assert_eq!(queue.take(), None);
}

#[test]
fn an_event_that_contains_the_own_write_and_a_later_one_queues_the_key() {
    for together in [true, false] {
        let mut queue = failed();
        queue.wrote(&child("u", Some(5)));
        if together {
            queue.observe(&child("u", Some(5)));
        }
        queue.observe(&child("u", Some(6)));
        assert!(queue.take().is_some(), "with the own one: {together}");
        assert!(queue.state.expected.is_empty(), "the event of the own write does not follow");
    }
}

#[test]
fn own_writes_are_recognized_among_many_changes_of_others() {
    let mut queue = running(options());
    let theirs = |n: u32| Revision { object: cached(&n.to_string()), ..child("v", Some(n)) };
    for n in 0..5000 {
        queue.observe(&theirs(n));
    }
    queue.observe(&child("u", Some(5)));
    queue.wrote_silently(&child("u", Some(5)));
    queue.finish("a", Completion::FailureAfter(ms(60_000)));
    assert!(queue.take().is_some(), "because of the others");
    queue.finish("a", Completion::FailureAfter(ms(60_000)));
    queue.observe(&child("u", Some(5)));
    assert_eq!(queue.take().map(|taken| taken.2), None);
}

#[test]
fn beyond_the_limit_the_writes_that_a_cache_has_are_dropped_first() {
    let mut queue = running(options());
    let write = |n: u32| Revision { object: cached(&n.to_string()), ..child("u", Some(n)) };
    for n in 1..=16_384 {
        queue.wrote(&write(n));
    }
    queue.state.cache_reached(&write(9000), queue.now);
    queue.wrote(&write(20_000));
    queue.finish("a", Completion::FailureAfter(ms(3_600_000)));
    (1..=16_384).filter(|n| *n != 9000).for_each(|n| queue.observe(&write(n)));
    queue.observe(&write(20_000));
    assert_eq!(queue.take(), None);
}

#[test]
fn the_mark_of_its_deletion_queues_the_key_even_if_the_call_made_it() {
    for before in [true, false] {
        let mut queue = running(options());
        if before {
            queue.adds(&own(Some(5)), Urgency::Always);
        }
        queue.wrote(&own(Some(5)));
        queue.finish("a", Completion::FailureAfter(ms(60_000)));
        if !before {
            queue.adds(&own(Some(5)), Urgency::Always);
        }
        queue.state.event_delivered(&own(Some(5)), queue.now);
        assert!(queue.take().is_some(), "before the response: {before}");
    }
}

#[test]
fn the_deletion_of_the_handled_object_queues_the_key_even_if_the_call_deleted_it() {
    for answered in [true, false] {
        let mut queue = running(options());
        if answered {
            queue.wrote(&own(None));
        }
        queue.observe(&own(None));
        if !answered {
            queue.wrote_silently(&own(None));
            queue.state.cache_reached(&own(None), queue.now);
        }
        queue.finish("a", Completion::FailureAfter(ms(60_000)));
        assert!(queue.take().is_some(), "response first: {answered}");
        queue.finish("a", Completion::Gone);
        assert_eq!(queue.state.known(), 0);
    }
}

#[test]
fn the_deletion_of_a_child_is_an_echo_if_the_call_deleted_it() {
    let mut queue = failed();
    queue.wrote(&child("u", None));
    queue.observe(&child("u", None));
    assert_eq!(queue.take(), None);
    queue.wrote(&child("v", Some(7)));
    queue.observe(&child("v", None));
    assert!(queue.take().is_some(), "the deletion is not an echo of the creation");
}

#[test]
fn a_key_that_waits_for_its_cache_takes_no_worker_and_keeps_its_position() {
    let mut queue = running(options());
    queue.wrote(&child("u", Some(6)));
    queue.finish("a", Completion::Success(None));
    queue.event("a");
    queue.event("b");
    assert_eq!(queue.name().as_deref(), Some("b"), "the worker takes another key");
    queue.event("c");
    queue.observe(&child("u", Some(5)));
    assert_eq!((queue.state.ready(), queue.state.known()), (1, 3));
    queue.state.cache_reached(&child("u", Some(7)), queue.now);
    assert_eq!([queue.name(), queue.name()].map(Option::unwrap), ["a", "c"]);
}

#[test]
fn a_key_waits_for_its_cache_for_a_limited_time() {
    let mut queue = running(options());
    queue.wrote(&child("u", Some(6)));
    queue.finish("a", Completion::Success(None));
    queue.now += ms(2_000);
    let other = Revision { object: cached("other"), ..child("u", Some(7)) };
    queue.state.record_write(&key("b"), &other, WriteOrigin::Own, queue.now);
    queue.event("a");
    assert_eq!(queue.take(), None);
    assert_eq!(queue.wait(), Some(TIMEOUT - ms(2_000)), "the write of another key is later");
    assert!(queue.take().is_some());
}

#[test]
fn the_writes_of_a_second_that_hold_back_no_key_have_one_timer() {
    let mut queue = running(options());
    for n in 0..100 {
        let write = Revision { object: cached(&n.to_string()), ..child("u", Some(n)) };
        queue.wrote(&write);
        queue.state.event_delivered(&write, queue.now);
        queue.now += ms(10);
    }
    queue.finish("a", Completion::Success(None));
    let mut wakes = 0;
    while let Some(next) = queue.state.next_wake(queue.now) {
        queue.now = next;
        queue.state.wake(next);
        wakes += 1;
    }
    assert_eq!((wakes, queue.state.known()), (1, 0));
}

#[test]
fn writes_that_follow_each_other_without_a_pause_are_forgotten_meanwhile() {
    let mut queue = running(options());
    let mut wakes = 0;
    for n in 0..1_000 {
        queue.wrote(&child("u", Some(n)));
        queue.state.event_delivered(&child("u", Some(n)), queue.now);
        queue.now += ms(100);
        if queue.state.next_wake(queue.now).is_some_and(|next| next <= queue.now) {
            queue.state.wake(queue.now);
            wakes += 1;
        }
    }
    assert!((10..=20).contains(&wakes), "{wakes} in 100 seconds");
}

#[test]
fn a_run_that_relied_on_an_old_object_is_soon_followed_by_another_one_and_its_retry_is_not_earlier() {
    for (write, completion, again) in [
        (own(Some(6)), Completion::Success(None), Some(TIMEOUT)),
        (own(Some(6)), Completion::Success(Some(ms(60_000))), Some(TIMEOUT)),
        (own(Some(6)), Completion::Success(Some(ms(1_000))), Some(ms(1_000))),
        (own(Some(6)), Completion::FailureAfter(ms(60_000)), Some(ms(60_000))),
        (child("u", Some(6)), Completion::Success(None), None),
    ] {
        let mut queue = running(options());
        queue.wrote(&write);
        queue.finish("a", Completion::Success(None));
        queue.event("a");
        assert_eq!(queue.take(), None);
        assert_eq!(queue.wait(), Some(TIMEOUT));
        assert!(queue.take().is_some());
        queue.state.repeat_if_behind(&key("a"));
        queue.finish("a", completion);
        assert_eq!(queue.wait(), again, "{write:?}, {completion:?}");
    }
}

#[test]
fn a_key_does_not_wait_for_a_write_of_an_object_that_was_deleted_since() {
    // The deletion is received during the call, before the response, or after the call.
    for before in [true, false] {
        let mut queue = running(options());
        if before {
            queue.observe(&child("u", None));
        }
        queue.wrote(&child("u", Some(6)));
        queue.finish("a", Completion::Success(None));
        if !before {
            queue.observe(&child("u", None));
        }
        assert!(queue.take().is_some(), "before the response: {before}");
    }
    // It does wait for another object of the same name.
    let mut queue = running(options());
    queue.wrote(&child("v", Some(9)));
    queue.observe(&child("u", None));
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.take(), None);
}

#[test]
fn a_key_has_no_state_after_its_writes_have_reached_the_cache() {
    let mut queue = running(options());
    queue.wrote(&child("u", Some(6)));
    queue.observe(&child("u", Some(6)));
    queue.finish("a", Completion::Failure);
    queue.wait();
    queue.take();
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.state.known(), 0);
}

#[derive(Debug, Clone)]
enum Move {
    Take,
    Finish(bool),
    Write(u8, bool),
    /// The cache processes the next version of an object; some are deletions.
    Event(u8, bool),
    Advance(u64),
}

fn movement() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => Just(Move::Take),
        3 => any::<bool>().prop_map(Move::Finish),
        4 => (0u8..3, any::<bool>()).prop_map(|(object, silent)| Move::Write(object, silent)),
        4 => (0u8..3, prop::bool::weighted(0.1)).prop_map(|(object, gone)| Move::Event(object, gone)),
        1 => (0u64..3000).prop_map(Move::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// No call begins before the cache has the writes of earlier ones, unless the
    /// wait has expired. No state of the key is left at the end.
    #[test]
    fn a_call_sees_the_writes_of_earlier_calls(moves in prop::collection::vec(movement(), 0..80)) {
        let mut queue = TimedQueue::new(options());
        let object = |n: u8, uid: u32, version: Option<u32>| {
            Revision { object: cached(&n.to_string()), ..child(&uid.to_string(), version) }
        };
        // The version that the server has of each object, and the cache.
        let (mut server, mut cache, mut uids) = ([0u32; 3], [0u32; 3], [0u32; 3]);
        let mut written: Vec<(usize, u32, Instant)> = Vec::new();
        let mut running = false;
        queue.event("a");
        for one in moves {
            match one {
                Move::Take => if !running && queue.take().is_some() {
                    running = true;
                    let missing = written.iter().find(|(n, version, at)| cache[*n] < *version && queue.now < *at + TIMEOUT);
                    prop_assert_eq!(missing, None);
                },
                Move::Finish(success) => if std::mem::take(&mut running) {
                    queue.finish("a", if success { Completion::Success(None) } else { Completion::Failure });
                },
                Move::Write(n, silent) => if running {
                    let at = usize::from(n);
                    server[at] += 1;
                    let write = object(n, uids[at], Some(server[at]));
                    let origin = if silent { WriteOrigin::Silent } else { WriteOrigin::Own };
                    queue.state.record_write(&key("a"), &write, origin, queue.now);
                    written.push((at, server[at], queue.now));
                },
                Move::Event(n, gone) => {
                    let at = usize::from(n);
                    // If the cache has everything, another client changes the object.
                    server[at] += u32::from(cache[at] == server[at]);
                    cache[at] += 1;
                    queue.observe(&object(n, uids[at], Some(cache[at])));
                    if gone {
                        cache[at] = server[at];
                        queue.observe(&object(n, uids[at], None));
                        uids[at] += 1;
                    }
                }
                Move::Advance(by) => queue.now += ms(by),
            }
            let parked = queue.state.entries.iter().filter(|entry| entry.is_parked);
            prop_assert!(parked.into_iter().all(|entry| entry.writes.is_awaiting()), "a key waits although the cache has everything");
        }
        if running {
            queue.finish("a", Completion::Success(None));
        }
        while queue.wait().is_some() {
            while queue.take().is_some() {
                queue.finish("a", Completion::Success(None));
            }
        }
        prop_assert_eq!(queue.state.known(), 0);
        prop_assert!(queue.state.expected.is_empty() && queue.state.expected.next(false).is_none());
    }
}
