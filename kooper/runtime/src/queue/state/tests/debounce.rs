//! Changes that wait for others of the same key.

use super::*;
use crate::queue::Waiting;

fn queue() -> TimedQueue {
    TimedQueue::new(QueueOptions { debounce: Some(ms(1_000)), ..options() })
}

fn related(name: &str) -> Reason {
    Reason::Related("Pod".into(), key(name))
}

#[test]
fn changes_that_follow_each_other_cause_one_run_after_the_last_of_them() {
    let mut queue = queue();
    queue.add("a", Lane::Event, Reason::Added);
    for _ in 0..3 {
        queue.now += ms(900);
        assert_eq!(queue.take(), None);
        queue.event("a");
    }
    queue.add("a", Lane::Event, related("child"));
    let waiting = Waiting { debounced: Some(ms(1_000)), ..Waiting::default() };
    assert_eq!(queue.state.view(&key("a"), queue.now).unwrap().waiting, waiting);
    assert_eq!(queue.wait(), Some(ms(1_000)));
    assert_eq!(queue.take(), Some(("a".into(), "added, modified, Pod ns/child".into(), 1)));
    queue.finish("a", Completion::Success(None));
    assert_eq!((queue.wait(), queue.state.known()), (None, 0));
}

#[test]
fn a_key_that_always_changes_runs_after_ten_intervals() {
    let mut queue = queue();
    for _ in 0..2 {
        let start = queue.now;
        queue.event("a");
        while queue.take().is_none() {
            queue.now += ms(100);
            queue.event("a");
        }
        assert_eq!(queue.now - start, ms(10_000));
        queue.finish("a", Completion::Success(None));
        assert_eq!(queue.take(), None, "there was no change during the run");
    }
}

#[test]
fn the_changes_of_other_keys_do_not_extend_a_wait() {
    let mut queue = queue();
    queue.event("a");
    queue.now += ms(600);
    queue.event("b");
    assert_eq!((queue.wait(), queue.name().as_deref()), (Some(ms(400)), Some("a")));
    assert_eq!((queue.wait(), queue.name().as_deref()), (Some(ms(600)), Some("b")));
}

#[test]
fn lists_resyncs_keys_from_outside_and_deletions_do_not_wait() {
    for (lane, reason) in [
        (Lane::Background, Reason::Initial),
        (Lane::Background, Reason::Leader),
        (Lane::Background, Reason::Shard),
        (Lane::Background, Reason::Resync),
        (Lane::Event, Reason::External),
        (Lane::Event, Reason::Deleted),
    ] {
        let mut queue = queue();
        queue.event("a");
        queue.add("a", lane, reason.clone());
        assert!(queue.take().is_some(), "{reason}");
        queue.finish("a", Completion::Success(None));
        assert_eq!((queue.wait(), queue.state.known()), (None, 0), "this run was for the change, too");
    }
}

#[test]
fn a_retry_does_not_wait_for_changes() {
    let mut queue = queue();
    queue.add("a", Lane::Event, Reason::External);
    queue.take();
    queue.finish("a", Completion::Failure);
    queue.event("a");
    assert_eq!(queue.wait(), Some(ms(100)));
    assert_eq!(queue.take().unwrap().1, "modified, retry");
}

#[test]
fn a_retry_before_an_urgent_change_that_waits_resets_the_back_off() {
    let mut queue = queue();
    queue.add("a", Lane::Event, Reason::External);
    queue.take();
    queue.finish("a", Completion::Failure);
    let options = AddOptions { debounced: true, ..AddOptions::new(Lane::Event, Urgency::Now) };
    queue.state.add(&key("a"), Reason::Modified, options, queue.now);
    assert_eq!(queue.wait(), Some(ms(100)));
    assert_eq!(queue.take(), Some(("a".into(), "modified, retry".into(), 1)));
    queue.finish("a", Completion::Failure);
    assert_eq!(queue.wait(), Some(ms(100)), "the initial delay");
}

#[test]
fn a_change_of_a_failing_key_waits_for_others_and_then_runs_it_before_its_retry() {
    let mut queue = queue();
    queue.add("a", Lane::Event, Reason::External);
    queue.take();
    queue.finish("a", Completion::FailureAfter(ms(60_000)));
    queue.event("a");
    assert_eq!(queue.wait(), Some(ms(1_000)));
    assert_eq!(queue.take(), Some(("a".into(), "modified".into(), 2)));
}

#[test]
fn a_change_during_a_run_waits_from_its_end() {
    let mut queue = queue();
    queue.add("a", Lane::Event, Reason::External);
    queue.take();
    queue.event("a");
    queue.now += ms(5_000);
    assert_eq!(queue.give_back("a", Completion::Success(None)).next, Some(ms(1_000)));
    assert_eq!(queue.wait(), Some(ms(1_000)));
    assert_eq!(queue.take().unwrap().1, "modified");
    queue.event("a");
    queue.add("a", Lane::Event, Reason::External);
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.take().unwrap().1, "modified, external", "the other add does not wait");
}

#[test]
fn forgetting_a_key_with_a_change_that_waits_runs_it_once() {
    let mut queue = queue();
    queue.event("a");
    queue.state.forget(&key("a"), queue.now);
    assert_eq!(queue.name().as_deref(), Some("a"));
    queue.finish("a", Completion::Gone);
    assert_eq!((queue.wait(), queue.state.known()), (None, 0));
}

#[test]
fn the_longest_interval_does_not_overflow() {
    let mut queue = TimedQueue::new(QueueOptions { debounce: Some(Duration::MAX), ..options() });
    queue.event("a");
    queue.event("a");
    assert_eq!(queue.wait(), None);
    queue.add("a", Lane::Event, Reason::External);
    assert!(queue.take().is_some());
}
