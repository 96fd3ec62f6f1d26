//! Read access to the state of each key.

use super::*;
use crate::queue::writes::CacheRef;
use crate::queue::{ForbiddenKey, Lane, Run, Timer, Waiting};

impl TimedQueue {
    /// The state of a key, and the reasons of its next call.
    fn view(&self, name: &str) -> (Waiting, String) {
        let view = self.state.view(&key(name), self.now).expect("the key is known");
        assert_eq!(view.key, key(name));
        (view.waiting, view.reasons.to_string())
    }

    fn waiting(&self, name: &str) -> Waiting {
        self.view(name).0
    }

    /// The number of waiting keys in each lane, counted.
    pub(super) fn lanes(&self) -> [usize; 3] {
        let mut lanes = [0; 3];
        for entry in self.state.entries.iter().filter(|entry| entry.queued().is_some()) {
            lanes[entry.lane as usize] += 1;
        }
        lanes
    }
}

fn queue() -> TimedQueue {
    let backoff = Backoff { initial: ms(4_000), max: ms(60_000) };
    TimedQueue::new(QueueOptions { backoff, resync: Some(ms(3_600_000)), retry_rate: (1, 1), ..options() })
}

#[test]
fn a_key_waits_for_a_worker_runs_and_waits_for_a_change() {
    let mut queue = queue();
    queue.add("a", Lane::Background, Reason::Initial);
    queue.now += ms(1_000);
    queue.event("a");
    queue.now += ms(500);
    let queued = Waiting { queued: Some((ms(1_500), Lane::Event)), ..Waiting::default() };
    assert_eq!(queue.view("a"), (queued, "initial, modified".to_owned()));
    queue.take();
    assert_eq!(queue.view("a"), (Waiting { run: Some(Run::Last), ..Waiting::default() }, String::new()));
    queue.event("a");
    let again = Waiting { run: Some(Run::MayFollow), ..Waiting::default() };
    assert_eq!(queue.view("a"), (again, "modified".to_owned()));
    queue.finish("a", Completion::Success(None));
    queue.take();
    queue.finish("a", Completion::Success(None));
    let idle = queue.waiting("a");
    assert!(idle.resync.is_some_and(|resync| resync > ms(3_000_000)), "{idle:?}");
    assert_eq!(Waiting { resync: None, ..idle }, Waiting::default());
    queue.state.add_after(&key("a"), ms(7_000), queue.now);
    assert_eq!(queue.waiting("a").timer, Some((ms(7_000), Timer::Requeue)));
}

#[test]
fn a_failed_key_waits_for_its_retry_and_for_the_common_rate() {
    let mut queue = queue();
    for name in ["a", "b", "gives-up"] {
        queue.event(name);
        queue.take();
        let never = name == "gives-up";
        queue.finish(name, if never { Completion::FailureForGood } else { Completion::Failure });
    }
    let retry = |time, failures| (Some((ms(time), Timer::Retry)), Some(failures));
    let state = |queue: &TimedQueue, name: &str| (queue.waiting(name).timer, queue.waiting(name).failures);
    assert_eq!(state(&queue, "a"), retry(4_000, 1));
    assert_eq!(state(&queue, "gives-up"), (None, Some(1)));
    assert!(queue.waiting("gives-up").resync.is_some());
    queue.now += ms(4_000);
    assert_eq!(queue.name().as_deref(), Some("a"), "it has the only token");
    assert_eq!(state(&queue, "b"), retry(0, 1), "it waits for the rate");
    queue.finish("a", Completion::Failure);
    assert_eq!(state(&queue, "a"), retry(8_000, 2));
    assert_eq!(queue.waiting("a").resync, None, "the retry comes first");
    queue.event("a");
    assert_eq!(queue.waiting("a").queued, Some((ms(0), Lane::Event)), "the first change runs it at once");
    queue.take();
    queue.finish("a", Completion::Failure);
    queue.event("a");
    let (waiting, reasons) = queue.view("a");
    assert_eq!((waiting.timer, waiting.failures, &*reasons), (Some((ms(10_000), Timer::Held)), Some(3), "modified"));
}

#[test]
fn of_the_keys_that_lack_a_permission_one_is_tried() {
    let mut queue = queue();
    for name in ["a", "b"] {
        queue.run(name, Completion::Forbidden(7));
    }
    let forbidden = |is_first, probe| Some(ForbiddenKey { is_first, probe });
    assert_eq!(queue.waiting("a").forbidden, forbidden(true, Some(ms(4_000))));
    assert_eq!(queue.waiting("b").forbidden, forbidden(false, Some(ms(4_000))));
    queue.now += ms(4_000);
    assert_eq!(queue.name().as_deref(), Some("a"));
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.waiting("b").forbidden.map(|forbidden| forbidden.probe), Some(None), "it has been granted");
}

#[test]
fn a_key_waits_until_the_caches_have_its_writes() {
    let mut queue = queue();
    queue.event("a");
    queue.take();
    let write = Revision { object: (CacheRef::Primary, key("a")), uid: "u".to_owned(), version: Some("9".to_owned()) };
    queue.state.record_write(&key("a"), &write, WriteOrigin::Own, queue.now);
    queue.event("a");
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.lanes(), [1, 0, 0]);
    assert_eq!(queue.name(), None);
    assert_eq!(queue.waiting("a").parked, Some(ms(5_000)));
    assert_eq!((queue.lanes(), queue.state.counts().lanes), ([0; 3], [0; 3]));
    queue.state.cache_reached(&write, queue.now);
    assert_eq!((queue.lanes(), queue.state.counts().lanes), ([1, 0, 0], [1, 0, 0]));
    assert!(queue.waiting("a").queued.is_some() && queue.waiting("a").parked.is_none());
}

#[test]
fn keys_are_counted_and_those_that_run_next_come_first() {
    let mut queue = queue();
    for (name, lane) in [("low", Lane::Background), ("mid", Lane::Retry), ("b", Lane::Event), ("a", Lane::Event)] {
        queue.add(name, lane, Reason::External);
    }
    queue.event("idle");
    queue.state.add_after(&key("later"), ms(1_000), queue.now);
    assert_eq!(queue.state.counts(), QueueCounts { lanes: [3, 1, 1], delayed: 1, retries: 0, known: 6 });
    // It moves up, and is counted once.
    queue.event("low");
    assert_eq!(queue.state.counts().lanes, [4, 1, 0]);
    let names = |queue: &TimedQueue, most| {
        queue.state.upcoming(most).into_iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&queue, 100), ["b", "a", "idle", "low", "mid", "later"]);
    assert_eq!(names(&queue, 2), ["b", "a"]);
    queue.state.clear(queue.now);
    assert_eq!(queue.state.counts(), QueueCounts::default());
}
