//! Failing keys: when they run again.

use std::collections::BTreeSet;

use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A queue with a key that failed and is retried in an hour.
fn failed(completion: Completion) -> TimedQueue {
    let hour = Backoff { initial: secs(3600), max: secs(3600) };
    let mut queue = running(QueueOptions { backoff: hour, resync: Some(secs(60)), ..QueueOptions::default() });
    queue.finish("a", completion);
    queue
}

#[test]
fn a_new_generation_a_deletion_and_an_external_add_run_a_failing_key_at_once_and_reset_the_back_off() {
    for completion in [Completion::Failure, Completion::FailureAfter(secs(86_400)), Completion::Paused(secs(86_400))] {
        for urgency in [Urgency::Now, Urgency::Always] {
            let mut queue = failed(completion);
            // Changes of children have used the free run.
            for _ in 0..3 {
                queue.event("a");
                if queue.take().is_some() {
                    queue.finish("a", completion);
                }
            }
            queue.urgent("a", urgency);
            assert_eq!(queue.take().map(|taken| taken.2), Some(1), "{completion:?}, {urgency:?}");
        }
        let mut queue = failed(completion);
        queue.add("a", Lane::Event, Reason::External);
        assert_eq!(queue.take().map(|taken| taken.2), Some(1));
    }
}

#[test]
fn a_conflict_after_a_new_generation_is_retried_with_the_first_delay() {
    let mut queue = TimedQueue::new(QueueOptions { resync: None, ..options() });
    queue.event("a");
    for _ in 0..12 {
        queue.take();
        queue.finish("a", Completion::Failure);
        queue.wait();
    }
    queue.take();
    queue.finish("a", Completion::Failure);
    queue.urgent("a", Urgency::Now);
    assert_eq!(queue.take().map(|taken| taken.2), Some(1));
    queue.finish("a", Completion::Failure);
    assert_eq!(queue.wait(), Some(ms(100)));
}

#[test]
fn failures_with_delays_of_their_own_do_not_lengthen_the_back_off() {
    let completions = [Completion::FailureAfter(secs(1)), Completion::Paused(secs(1)), Completion::FailureForGood];
    for completion in completions.into_iter().chain([Completion::Forbidden(7)]) {
        let mut queue = TimedQueue::new(QueueOptions { resync: Some(secs(60)), retries: None, ..options() });
        queue.event("a");
        for _ in 0..20 {
            assert!(queue.take().is_some(), "{completion:?}");
            queue.finish("a", completion);
            queue.wait();
        }
        assert!(queue.take().is_some());
        queue.finish("a", Completion::Failure);
        assert_eq!(queue.wait(), Some(ms(100)), "{completion:?}");
    }
}

#[test]
fn a_new_generation_during_a_run_that_fails_runs_the_key_at_once() {
    let mut queue = failed(Completion::Failure);
    queue.event("a");
    queue.take();
    queue.urgent("a", Urgency::Now);
    queue.finish("a", Completion::Failure);
    assert_eq!(queue.take().map(|taken| taken.2), Some(1));
}

#[test]
fn a_failing_handler_that_edits_its_own_spec_does_not_spin() {
    let mut queue =
        TimedQueue::new(QueueOptions { backoff: Backoff { initial: secs(1), max: secs(1000) }, ..options() });
    queue.event("a");
    let (start, mut calls) = (queue.now, 0);
    while queue.now < start + secs(600) {
        if queue.take().is_some() {
            calls += 1;
            queue.urgent("a", Urgency::Now);
            queue.finish("a", Completion::Failure);
        }
        queue.now += ms(10);
    }
    // Each token resets the back-off: one call, and its retries.
    assert!((60..=400).contains(&calls), "{calls} calls in ten minutes");
}

#[test]
fn a_deletion_runs_the_key_at_once_although_the_tokens_are_used_up() {
    let mut queue = failed(Completion::Failure);
    for _ in 0..20 {
        queue.urgent("a", Urgency::Now);
        if queue.take().is_some() {
            queue.finish("a", Completion::Failure);
        }
    }
    queue.urgent("a", Urgency::Now);
    assert_eq!(queue.take(), None);
    queue.urgent("a", Urgency::Always);
    assert!(queue.take().is_some());
}

#[test]
fn a_new_generation_without_a_token_runs_within_ten_seconds_and_resets_the_back_off() {
    let mut queue = failed(Completion::Failure);
    for _ in 0..20 {
        queue.urgent("a", Urgency::Now);
        if queue.take().is_some() {
            queue.finish("a", Completion::Failure);
        }
    }
    let wait = queue.wait().unwrap();
    assert!(wait > Duration::ZERO && wait <= secs(10), "{wait:?}");
    assert_eq!(queue.take().map(|taken| taken.2), Some(1));
}

#[test]
fn other_changes_of_a_failing_key_wait_ten_seconds_at_most() {
    for completion in [Completion::Failure, Completion::FailureAfter(secs(86_400))] {
        let mut queue = failed(completion);
        queue.event("a");
        assert!(queue.take().is_some(), "the first change runs it at once");
        queue.finish("a", completion);
        queue.now += secs(1);
        queue.event("a");
        assert_eq!((queue.take(), queue.wait()), (None, Some(secs(9))));
        assert_eq!(queue.take().map(|taken| (taken.1, taken.2)), Some(("modified".to_owned(), 3)));
    }
}

#[test]
fn other_changes_do_not_shorten_a_pause_that_the_server_requested() {
    let mut queue = failed(Completion::Paused(secs(60)));
    queue.now += secs(20);
    queue.event("a");
    assert_eq!((queue.take(), queue.wait()), (None, Some(secs(40))));
}

#[test]
fn a_resync_does_not_shorten_the_delay_of_a_failing_key() {
    for completion in [Completion::Failure, Completion::FailureAfter(secs(3600)), Completion::Paused(secs(3600))] {
        let mut queue = failed(completion);
        queue.add("a", Lane::Background, Reason::Resync);
        assert_eq!(queue.take(), None);
        assert_eq!(queue.wait(), Some(secs(3600)), "{completion:?}");
        assert_eq!(queue.take().map(|taken| taken.1), Some("resync, retry".to_owned()));
        queue.finish("a", Completion::Success(None));
        assert!(queue.wait().is_some_and(|wait| wait <= secs(60)), "the resync is scheduled again");
    }
    // If no retry is scheduled, the resync runs the key.
    let mut queue = failed(Completion::FailureForGood);
    assert!(queue.wait().is_some_and(|wait| wait <= secs(60)));
}

#[test]
fn a_change_and_a_resync_have_all_retries_again_after_they_were_used_up() {
    let backoff = Backoff { initial: ms(1), max: ms(1) };
    let mut queue = TimedQueue::new(QueueOptions { backoff, retries: Some(2), resync: Some(secs(60)), ..options() });
    let series = |queue: &mut TimedQueue| {
        let mut calls = 0;
        while queue.wait().is_some_and(|wait| wait < secs(1)) {
            queue.take();
            calls += 1;
            queue.finish("a", Completion::Failure);
        }
        calls
    };
    queue.event("a");
    assert_eq!(series(&mut queue), 3, "one call and two retries");
    // The last wait ended at the resync.
    assert_eq!(series(&mut queue), 3, "the resync and two retries");
    queue.event("a");
    assert_eq!(series(&mut queue), 3, "a change and two retries");
}

#[test]
fn changes_are_not_delayed_if_there_are_no_retries() {
    let mut queue = TimedQueue::new(QueueOptions { retries: Some(0), ..options() });
    for _ in 0..100 {
        for urgency in [Urgency::Soon, Urgency::Now] {
            queue.urgent("a", urgency);
            assert!(queue.take().is_some());
            assert!(!queue.finish("a", Completion::Failure));
        }
    }
}

#[test]
fn the_time_in_the_queue_does_not_include_the_back_off() {
    let mut queue = failed(Completion::Failure);
    queue.wait();
    queue.now += secs(2);
    queue.state.wake(queue.now);
    assert_eq!(queue.state.take(queue.now).map(|item| item.waited), Some(secs(2)));
}

#[test]
fn the_time_in_the_queue_begins_when_a_worker_could_take_the_key() {
    let mut queue = running(options());
    queue.event("a");
    queue.now += secs(10);
    assert_eq!(queue.state.added(), 1);
    queue.finish("a", Completion::Success(None));
    queue.now += secs(2);
    assert_eq!(queue.state.added(), 2);
    assert_eq!(queue.state.take(queue.now).map(|item| item.waited), Some(secs(2)));
}

#[test]
fn a_conflict_repeats_the_call_soon_a_few_times_in_a_row() {
    let mut queue = TimedQueue::new(options());
    let mut conflicts = 0;
    queue.event("a");
    loop {
        assert_eq!(queue.take().map(|taken| taken.2), Some(1));
        if !queue.state.repeats(&key("a")) {
            break;
        }
        conflicts += 1;
        assert!(queue.finish("a", Completion::Conflict));
        assert!(queue.wait().is_some_and(|delay| delay < secs(1)));
    }
    assert_eq!(conflicts, 8);
    queue.finish("a", Completion::Failure);
    queue.wait();
    queue.take();
    assert!(!queue.state.repeats(&key("a")), "it has failed otherwise");
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.state.known(), 0);
    queue.event("a");
    queue.take();
    assert!(queue.state.repeats(&key("a")));
    // Another change does not wait for it.
    queue.finish("a", Completion::Conflict);
    queue.event("a");
    assert_eq!(queue.take().map(|taken| taken.1), Some("modified".to_owned()));
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.state.known(), 0);
}

#[test]
fn immediate_requeues_back_off_until_the_next_event() {
    let mut queue = TimedQueue::new(options());
    queue.event("a");
    let mut round = |event: bool| {
        if event {
            queue.event("a");
        }
        assert!(queue.take().is_some());
        queue.finish("a", Completion::Success(Some(Duration::ZERO)));
        let next = queue.state.next_run(queue.state.entries.find(&key("a")).unwrap(), queue.now);
        if !event {
            queue.wait();
        }
        next.0.unwrap().as_millis()
    };
    assert_eq!([round(false), round(false), round(false)], [100, 200, 400]);
    assert_eq!([round(true)], [100]);
}

#[test]
fn returning_a_key_twice_has_an_effect_once() {
    let mut queue = running(options());
    let first = queue.runs["a"];
    queue.event("a");
    queue.finish("a", Completion::Success(None));
    assert!(queue.take().is_some());
    queue.event("a");
    assert_eq!(queue.state.finish(first, Completion::Success(None), queue.now), NextRun::default());
    assert_eq!(queue.take(), None, "the second run is not over");
    // Returning a key that was taken before the queue was cleared has no effect either.
    let second = queue.runs["a"];
    queue.state.clear(queue.now);
    queue.event("a");
    queue.take();
    queue.state.finish(second, Completion::Success(None), queue.now);
    queue.event("a");
    assert_eq!(queue.take(), None);
}

/// Runs the keys that are due, all with the same result, and returns their names.
fn serve(queue: &mut TimedQueue, completion: Completion) -> Vec<String> {
    let mut called = Vec::new();
    while let Some(name) = queue.name() {
        queue.finish(&name, completion);
        called.push(name);
    }
    called
}

#[test]
fn only_one_key_that_lacks_a_permission_is_retried_until_it_succeeds_then_the_others_at_the_retry_rate() {
    let backoff = Backoff { initial: ms(5), max: secs(1000) };
    let mut queue = TimedQueue::new(QueueOptions { backoff, retry_rate: (10, 20), ..options() });
    for n in 0..100 {
        queue.event(&n.to_string());
    }
    assert_eq!(serve(&mut queue, Completion::Forbidden(7)).len(), 100);
    let start = queue.now;
    let mut tried = 0;
    let mut last = start;
    while queue.now < start + secs(600) {
        assert!(queue.wait().is_some());
        assert!(queue.now - last <= secs(30));
        last = queue.now;
        let called = serve(&mut queue, Completion::Forbidden(7));
        assert_eq!(called.len(), 1, "only a probe");
        tried += 1;
    }
    assert!(tried < 40, "{tried} probes in ten minutes");
    // A change of one of the others does not run it, its deletion does.
    queue.event("50");
    assert_eq!(queue.take(), None);
    queue.urgent("50", Urgency::Always);
    assert_eq!(serve(&mut queue, Completion::Forbidden(7)), ["50"]);
    // The permission is granted.
    assert!(queue.wait().is_some_and(|wait| wait <= secs(30)));
    let name = queue.name().unwrap();
    let granted = queue.now;
    assert_eq!(queue.give_back(&name, Completion::Success(None)).released, 99);
    let mut called = 1;
    while queue.wait().is_some() {
        called += serve(&mut queue, Completion::Success(None)).len();
    }
    assert_eq!((called, queue.state.known()), (100, 0));
    let took = queue.now - granted;
    assert!((secs(7)..=secs(9)).contains(&took), "20 at once, then 10 a second: {took:?}");
}

#[test]
fn keys_whose_permission_was_granted_run_although_others_fail_more_often_than_the_retry_rate_allows() {
    let backoff = Backoff { initial: secs(10), max: secs(10) };
    let mut queue = TimedQueue::new(QueueOptions { backoff, retry_rate: (1, 1), ..options() });
    for n in 0..5 {
        queue.event(&format!("forbidden-{n}"));
    }
    assert_eq!(serve(&mut queue, Completion::Forbidden(7)).len(), 5);
    // Two retries are due in each second.
    for n in 0..20 {
        queue.event(&format!("failing-{n}"));
    }
    let (start, mut failed, mut succeeded) = (queue.now, 0, 0);
    while queue.now < start + secs(120) {
        while let Some(name) = queue.name() {
            if name.starts_with("failing") {
                queue.finish(&name, Completion::Failure);
                failed += 1;
            } else {
                queue.finish(&name, Completion::Success(None));
                succeeded += 1;
            }
        }
        assert!(queue.wait().is_some());
    }
    assert_eq!(succeeded, 5);
    assert!(failed > 100, "{failed} failures: they do not starve either");
}

#[test]
fn a_key_that_lacks_a_permission_is_first_retried_after_seconds() {
    let backoff = Backoff { initial: ms(5), max: secs(1000) };
    let mut queue = TimedQueue::new(QueueOptions { backoff, ..options() });
    queue.event("a");
    for expected in [2, 4, 8, 16, 30, 30] {
        assert_eq!(serve(&mut queue, Completion::Forbidden(7)), ["a"]);
        assert_eq!(queue.wait(), Some(secs(expected)));
    }
}

#[test]
fn keys_that_lack_different_permissions_do_not_wait_for_each_other() {
    let mut queue = TimedQueue::new(options());
    for n in 0..10u64 {
        queue.event(&n.to_string());
        let name = queue.name().unwrap();
        queue.finish(&name, Completion::Forbidden(n % 2));
    }
    // The permission of the even ones is granted.
    let allowed = |name: &str| name.parse::<u64>().is_ok_and(|n| n % 2 == 0);
    let start = queue.now;
    let mut served = BTreeSet::new();
    while served.len() < 5 {
        assert!(queue.wait().is_some() && queue.now < start + secs(30));
        while let Some(name) = queue.name() {
            let completion = if allowed(&name) { Completion::Success(None) } else { Completion::Forbidden(1) };
            queue.finish(&name, completion);
            if allowed(&name) {
                served.insert(name);
            }
        }
    }
    assert_eq!(queue.state.known(), 5);
}

#[test]
fn the_next_key_is_the_probe_if_the_first_was_deleted_or_is_never_returned() {
    let mut queue = TimedQueue::new(options());
    for name in ["a", "b", "c"] {
        queue.event(name);
        queue.name();
        queue.finish(name, Completion::Forbidden(7));
    }
    queue.wait();
    let first = queue.name().unwrap();
    queue.finish(&first, Completion::Gone);
    assert_eq!(queue.wait(), Some(Duration::ZERO));
    queue.name();
    // The second one hangs.
    assert!(queue.wait().is_some_and(|wait| wait <= secs(30)));
    let third = queue.name().unwrap();
    queue.finish(&third, Completion::Success(None));
    assert_eq!(queue.state.known(), 1);
}

/// A hundred keys that lack a permission. The first of them is being probed.
fn probed(options: QueueOptions) -> (TimedQueue, String) {
    let mut queue = TimedQueue::new(options);
    for n in 0..100 {
        queue.event(&n.to_string());
    }
    serve(&mut queue, Completion::Forbidden(7));
    queue.wait();
    let probe = queue.name().unwrap();
    (queue, probe)
}

#[test]
fn a_probe_that_fails_for_another_reason_is_followed_by_the_next_probe_only() {
    let completions = [
        Completion::Failure,
        Completion::FailureAfter(secs(60)),
        Completion::FailureForGood,
        Completion::Skipped,
        Completion::Refused,
        Completion::Gone,
    ];
    for completion in completions {
        let (mut queue, probe) = probed(options());
        assert_eq!(queue.give_back(&probe, completion).released, 0);
        assert!(queue.name().is_some_and(|next| next != probe), "{completion:?}: the next probe");
        assert_eq!(queue.name(), None, "{completion:?}: one at a time");
    }
}

#[test]
fn a_key_that_is_refused_for_now_keeps_its_failures() {
    let mut queue = TimedQueue::new(QueueOptions { retries: Some(2), ..options() });
    queue.event("a");
    for attempt in 1..=2 {
        assert_eq!(queue.take().map(|taken| taken.2), Some(attempt));
        assert!(queue.give_back("a", Completion::Failure).retried);
        queue.wait();
    }
    queue.take();
    assert_eq!(queue.give_back("a", Completion::Refused).next, None, "its shard is awaited");
    // It is queued at once when its shard may be worked on.
    queue.add("a", Lane::Background, Reason::Shard);
    assert_eq!(queue.take().map(|taken| taken.2), Some(3));
    assert!(!queue.give_back("a", Completion::Failure).retried, "no retry is left");
}

#[test]
fn a_forbidden_probe_without_retries_left_does_not_release_the_other_keys() {
    let (mut queue, probe) = probed(QueueOptions { retries: Some(1), ..options() });
    let returned = queue.give_back(&probe, Completion::Forbidden(7));
    assert_eq!((returned.retried, returned.released), (false, 0));
    assert_eq!(queue.name(), None, "the next probe is later");
    assert!(queue.wait().is_some_and(|wait| wait <= secs(30)));
    assert_eq!(serve(&mut queue, Completion::Forbidden(7)).len(), 1);
}

#[test]
fn a_returned_key_that_waits_for_the_probe_of_another_is_reported_as_barred() {
    let mut queue = TimedQueue::new(options());
    for (name, behind) in [("a", false), ("b", true)] {
        queue.event(name);
        queue.take();
        assert_eq!(queue.give_back(name, Completion::Forbidden(7)).forbidden, behind, "{name}");
    }
}
