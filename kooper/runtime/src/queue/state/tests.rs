use std::collections::BTreeMap;

use super::*;
use crate::backoff::Backoff;
use crate::queue::QueueCounts;

mod debounce;
mod failing;
mod histories;
mod inspect;
mod priorities;
mod reasons;
mod writes;

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn options() -> QueueOptions {
    QueueOptions { backoff: Backoff { initial: ms(100), max: ms(1000) }, ..QueueOptions::default() }
}

/// A queue and its current time.
struct TimedQueue {
    state: QueueState,
    now: Instant,
    /// The last run of each key.
    runs: BTreeMap<String, Ticket>,
}

impl TimedQueue {
    fn new(options: QueueOptions) -> Self {
        let now = Instant::now();
        Self { state: QueueState::new(options, now), now, runs: BTreeMap::new() }
    }

    fn event(&mut self, name: &str) {
        self.add(name, Lane::Event, Reason::Modified);
    }

    fn add(&mut self, name: &str, lane: Lane, reason: Reason) {
        let options = AddOptions::of(&reason, lane);
        self.state.add(&key(name), reason, options, self.now);
    }

    fn urgent(&mut self, name: &str, urgency: Urgency) {
        let options = AddOptions::new(Lane::Event, urgency);
        self.state.add(&key(name), Reason::Modified, options, self.now);
    }

    fn take(&mut self) -> Option<(String, String, u32)> {
        self.state.wake(self.now);
        let item = self.state.take(self.now)?;
        self.runs.insert(item.key.name().to_owned(), item.ticket);
        Some((item.key.name().to_owned(), item.reasons.to_string(), item.attempt))
    }

    fn name(&mut self) -> Option<String> {
        self.take().map(|(name, ..)| name)
    }

    fn finish(&mut self, name: &str, completion: Completion) -> bool {
        self.give_back(name, completion).retried
    }

    /// A change runs the key.
    fn run(&mut self, name: &str, completion: Completion) {
        self.event(name);
        self.take();
        self.finish(name, completion);
    }

    fn give_back(&mut self, name: &str, completion: Completion) -> NextRun {
        self.runs.get(name).map_or_else(NextRun::default, |ticket| self.state.finish(*ticket, completion, self.now))
    }

    /// Waits until a key can be taken, for at most a day; returns the time.
    fn wait(&mut self) -> Option<Duration> {
        let from = self.now;
        loop {
            self.state.wake(self.now);
            if self.state.ready() > 0 {
                return Some(self.now - from);
            }
            self.now = self.state.next_wake(self.now)?.max(self.now + Duration::from_nanos(1));
            if self.now - from > Duration::from_secs(86400) {
                return None;
            }
        }
    }
}

/// A queue whose key `a` is being processed.
fn running(options: QueueOptions) -> TimedQueue {
    let mut queue = TimedQueue::new(options);
    queue.event("a");
    queue.take();
    queue
}

#[test]
fn a_waiting_key_is_in_the_queue_once_however_often_it_is_added() {
    let mut queue = TimedQueue::new(options());
    queue.event("a");
    queue.add("a", Lane::Background, Reason::Resync);
    queue.event("a");
    assert_eq!(queue.take(), Some(("a".into(), "modified, resync".into(), 1)));
    assert_eq!(queue.take(), None);
}

#[test]
fn a_key_that_is_added_during_its_run_runs_once_more_afterwards() {
    let mut queue = running(options());
    queue.event("a");
    queue.event("a");
    assert_eq!(queue.take(), None, "one worker at a time");
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.name().as_deref(), Some("a"));
    queue.finish("a", Completion::Success(None));
    assert_eq!((queue.take(), queue.state.known()), (None, 0));
}

#[test]
fn events_come_before_retries_and_retries_before_background_keys() {
    let mut queue = TimedQueue::new(options());
    for (name, lane) in [("low", Lane::Background), ("mid", Lane::Retry), ("b", Lane::Event), ("a", Lane::Event)] {
        queue.add(name, lane, Reason::External);
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.name()).collect();
    assert_eq!(order, ["b", "a", "mid", "low"], "first in, first out within a lane");
}

#[test]
fn an_event_moves_a_background_key_to_the_front() {
    let mut queue = TimedQueue::new(options());
    for name in ["x", "y", "z"] {
        queue.add(name, Lane::Background, Reason::Initial);
    }
    queue.event("z");
    assert_eq!(queue.take(), Some(("z".into(), "initial, modified".into(), 1)));
    assert_eq!(queue.state.ready(), 2);
}

#[test]
fn many_events_do_not_starve_background_keys() {
    let mut queue = TimedQueue::new(options());
    queue.add("low", Lane::Background, Reason::Resync);
    for round in 0.. {
        for n in 0..10 {
            queue.event(&format!("hot-{n}"));
        }
        // One worker takes one of ten keys that are added each millisecond.
        let name = queue.name().unwrap();
        if name == "low" {
            assert!((9_000..=11_000).contains(&round), "taken after {round} ms");
            break;
        }
        queue.finish(&name, Completion::Success(None));
        queue.now += ms(1);
        assert!(round < 20_000, "never taken");
    }
}

#[test]
fn the_delay_of_a_failing_key_grows_until_a_success_resets_it() {
    let mut queue = TimedQueue::new(options());
    queue.event("a");
    let mut delays = Vec::new();
    for attempt in 1..=6 {
        assert_eq!(queue.take().unwrap().2, attempt);
        assert!(queue.finish("a", Completion::Failure));
        delays.push(queue.wait().unwrap().as_millis());
    }
    assert_eq!(delays, [100, 200, 400, 800, 1000, 1000]);
    assert_eq!(queue.take().unwrap().1, "retry");
    queue.finish("a", Completion::Success(None));
    queue.event("a");
    assert_eq!(queue.take().unwrap().2, 1, "the count is reset");
}

#[test]
fn after_the_last_retry_a_key_waits_for_its_next_event() {
    let mut queue = TimedQueue::new(QueueOptions { retries: Some(2), ..options() });
    queue.event("a");
    let mut calls = 0;
    while queue.wait().is_some() {
        queue.take();
        calls += 1;
        queue.finish("a", Completion::Failure);
    }
    assert_eq!(calls, 3, "one call and two retries");
    queue.event("a");
    assert_eq!(queue.take(), Some(("a".into(), "modified".into(), 4)));
}

#[test]
fn events_run_a_failing_key_at_once_but_only_once_per_delay() {
    let mut queue = running(options());
    queue.finish("a", Completion::Failure);
    queue.now += ms(10);
    queue.event("a");
    assert_eq!(queue.take().map(|taken| taken.2), Some(2), "at once, and the attempts are still counted");
    queue.finish("a", Completion::Failure);
    for _ in 0..5 {
        queue.now += ms(10);
        queue.event("a");
        assert_eq!(queue.take(), None, "not again within the delay of 200 ms");
    }
    assert_eq!(queue.wait(), Some(ms(150)));
    assert_eq!(queue.take().unwrap().1, "modified, retry", "the run has both reasons");
}

#[test]
fn frequent_events_of_a_key_without_retries_left_do_not_spin() {
    let mut queue = TimedQueue::new(QueueOptions { retries: Some(1), ..options() });
    let mut calls = 0;
    for _ in 0..1000 {
        queue.event("a");
        if queue.take().is_some() {
            calls += 1;
            queue.finish("a", Completion::Failure);
        }
        queue.now += ms(1);
    }
    assert!((3..=8).contains(&calls), "{calls} calls in a second with delays of 100 ms and more");
}

#[test]
fn a_new_requeue_replaces_a_pending_one() {
    let mut queue = running(options());
    queue.finish("a", Completion::Success(Some(ms(60_000))));
    queue.run("a", Completion::Success(Some(ms(5_000))));
    assert_eq!(queue.wait(), Some(ms(5_000)));
    assert_eq!(queue.take().unwrap().1, "requeue");
    queue.finish("a", Completion::Success(None));
    assert_eq!((queue.wait(), queue.state.known()), (None, 0));
}

#[test]
fn a_retry_after_error_sets_the_delay_and_a_permanent_one_is_not_retried() {
    let mut queue = running(options());
    assert!(queue.finish("a", Completion::FailureAfter(ms(7_000))));
    assert_eq!(queue.wait(), Some(ms(7_000)));
    assert_eq!(queue.take().unwrap().1, "retry");
    assert!(!queue.finish("a", Completion::FailureForGood));
    assert_eq!(queue.wait(), None);
}

#[test]
fn returning_a_key_reports_the_time_until_its_next_run() {
    let mut queue = TimedQueue::new(QueueOptions { resync: Some(ms(60_000)), ..options() });
    let mut next = |completion, touched| {
        queue.event("a");
        queue.take();
        if touched {
            queue.event("a");
        }
        queue.give_back("a", completion).next
    };
    assert_eq!(next(Completion::FailureAfter(ms(7_000)), false), Some(ms(7_000)));
    assert_eq!(next(Completion::Success(Some(ms(5_000))), false), Some(ms(5_000)));
    // The resync, a little earlier than its interval.
    let resync = next(Completion::FailureForGood, false).unwrap();
    assert!((ms(54_000)..=ms(60_000)).contains(&resync), "{resync:?}");
    assert_eq!(next(Completion::Success(None), true), Some(Duration::ZERO));
    assert_eq!(next(Completion::Gone, false), None);
}

#[test]
fn the_longest_delay_does_not_overflow() {
    let mut queue = TimedQueue::new(QueueOptions { resync: Some(Duration::MAX), ..options() });
    for completion in [Completion::Success(Some(Duration::MAX)), Completion::FailureAfter(Duration::MAX)] {
        queue.event("a");
        assert!(queue.take().is_some());
        queue.finish("a", completion);
    }
    queue.state.add_after(&key("b"), Duration::MAX, queue.now);
    assert_eq!(queue.wait(), None);
}

#[test]
fn a_change_runs_a_permanently_failed_key_at_once_however_often_it_failed() {
    let mut queue = TimedQueue::new(options());
    for _ in 0..20 {
        queue.event("a");
        assert!(queue.take().is_some());
        queue.finish("a", Completion::FailureForGood);
    }
}

#[test]
fn retries_of_all_keys_are_rate_limited_and_events_are_not() {
    let mut queue = TimedQueue::new(QueueOptions { retry_rate: (10, 5), ..options() });
    for n in 0..25 {
        queue.event(&n.to_string());
    }
    while let Some(name) = queue.name() {
        queue.finish(&name, Completion::Failure);
    }
    let start = queue.now;
    let mut retried = 0;
    while retried < 25 {
        queue.wait().unwrap();
        while let Some(name) = queue.name() {
            retried += 1;
            queue.finish(&name, Completion::Success(None));
        }
        queue.event("fresh");
        assert_eq!(queue.name().as_deref(), Some("fresh"));
        queue.finish("fresh", Completion::Success(None));
    }
    let took = (queue.now - start).as_millis();
    assert!((2000..=2200).contains(&took), "5 at once, then 10 a second: {took} ms");
}

#[test]
fn after_the_first_list_resyncs_are_spread_evenly_once_a_second_and_no_gap_is_longer_than_the_interval() {
    let interval = Duration::from_secs(60);
    let mut queue = TimedQueue::new(QueueOptions { resync: Some(interval), ..options() });
    let keys = 6000;
    for n in 0..keys {
        queue.add(&n.to_string(), Lane::Background, Reason::Initial);
    }
    let mut last: BTreeMap<String, Instant> = BTreeMap::new();
    while let Some(name) = queue.name() {
        last.insert(name.clone(), queue.now);
        queue.finish(&name, Completion::Success(None));
    }
    let start = queue.now;
    let mut seconds = [0u32; 300];
    let mut wakes = 0;
    loop {
        queue.wait().unwrap();
        wakes += 1;
        let second = (queue.now - start).as_secs() as usize;
        let Some(count) = seconds.get_mut(second) else { break };
        while let Some(name) = queue.name() {
            *count += 1;
            let before = last.insert(name.clone(), queue.now).unwrap();
            assert!(queue.now - before <= interval);
            queue.finish(&name, Completion::Success(None));
        }
    }
    let mean = seconds.iter().sum::<u32>() / 300;
    let max = seconds.iter().max().unwrap();
    assert!((98..=102).contains(&mean) && *max <= 2 * mean, "mean {mean}, max {max} a second");
    assert!(wakes <= 301, "{wakes}");
}

#[test]
fn an_event_postpones_the_resync() {
    let mut queue = running(QueueOptions { resync: Some(ms(10_000)), ..options() });
    queue.finish("a", Completion::Success(None));
    queue.now += ms(8_000);
    queue.run("a", Completion::Success(None));
    let wait = queue.wait().unwrap();
    assert!(wait >= ms(9_000) && wait <= ms(10_000), "{wait:?}");
}

#[test]
fn forgetting_a_key_removes_all_its_state() {
    let mut queue = running(QueueOptions { resync: Some(ms(10_000)), ..options() });
    queue.finish("a", Completion::Failure);
    let now = queue.now;
    queue.state.forget(&key("a"), now);
    assert_eq!((queue.state.known(), queue.wait()), (0, None));
}

#[test]
fn a_cleared_queue_has_no_state_and_a_late_return_does_not_add_any() {
    let mut queue = TimedQueue::new(QueueOptions { resync: Some(ms(60_000)), ..options() });
    queue.event("fails");
    queue.name();
    queue.finish("fails", Completion::Failure);
    queue.event("runs");
    queue.name();
    queue.event("waits");
    queue.state.clear(queue.now);
    assert!(!queue.finish("runs", Completion::Failure));
    assert_eq!((queue.state.known(), queue.state.next_wake(queue.now)), (0, None));
    queue.event("fails");
    assert_eq!(queue.take(), Some(("fails".to_owned(), "modified".to_owned(), 1)));
}
