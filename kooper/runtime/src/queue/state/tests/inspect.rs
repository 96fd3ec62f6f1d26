//! The state of each key on the status page.

use super::*;
use crate::queue::Lane;
use crate::queue::writes::CacheRef;

impl TimedQueue {
    /// The state of a key as shown, and the reasons of its next call.
    fn waiting(&self, name: &str) -> (String, String) {
        let id = self.state.id_of(&key(name)).expect("the key is known");
        let view = self.state.view(id, self.now).expect("the key is known");
        assert_eq!(view.key, key(name));
        (view.waiting.to_string(), view.reasons.to_string())
    }

    fn why(&self, name: &str) -> String {
        self.waiting(name).0
    }

    /// The number of waiting keys in each lane, counted.
    pub(super) fn lanes(&self) -> [usize; 3] {
        let mut lanes = [0; 3];
        for entry in self.state.entries.iter().filter(|entry| entry.place.is_some()) {
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
    let expected =
        ("it has waited 1.5s for a worker, in the lane of events".to_owned(), "initial, modified".to_owned());
    assert_eq!(queue.waiting("a"), expected);
    queue.take();
    assert_eq!(queue.waiting("a"), ("it is running".to_owned(), String::new()));
    queue.event("a");
    let expected = "it is running, and runs once more afterwards unless all changes since then are its own writes";
    assert_eq!(queue.waiting("a"), (expected.to_owned(), "modified".to_owned()));
    queue.finish("a", Completion::Success(None));
    queue.take();
    queue.finish("a", Completion::Success(None));
    assert!(queue.why("a").starts_with("it waits for a change, or for its resync in 5"), "{}", queue.why("a"));
    queue.state.add_after(&key("a"), ms(7_000), queue.now);
    assert_eq!(queue.why("a"), "its requeue is due in 7.0s");
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
    assert_eq!(queue.why("a"), "it is retried in 4.0s, after 1 failure");
    assert!(queue.why("gives-up").starts_with("it is not retried: it waits for a change, or for its resync in "));
    queue.now += ms(4_000);
    assert_eq!(queue.name().as_deref(), Some("a"), "it has the only token");
    assert_eq!(queue.why("b"), "its retry is due, and waits for the shared retry rate");
    queue.finish("a", Completion::Failure);
    assert_eq!(queue.why("a"), "it is retried in 8.0s, after 2 failures");
    queue.event("a");
    assert!(queue.why("a").starts_with("it has waited 0.0s for a worker"), "the first change runs it at once");
    queue.take();
    queue.finish("a", Completion::Failure);
    queue.event("a");
    let (why, reasons) = queue.waiting("a");
    assert_eq!((&*why, &*reasons), ("it has changed, and is called in 10s, after 3 failures", "modified"));
}

#[test]
fn of_the_keys_that_lack_a_permission_one_is_tried() {
    let mut queue = queue();
    for name in ["a", "b"] {
        queue.event(name);
        queue.take();
        queue.finish(name, Completion::Forbidden(7));
    }
    assert_eq!(queue.why("a"), "it lacks a permission: it is retried in 4.0s");
    let behind = "it lacks a permission: another object that lacks it is retried in 4.0s, and this one after that";
    assert!(queue.why("b").starts_with(behind), "{}", queue.why("b"));
    queue.now += ms(4_000);
    assert_eq!(queue.name().as_deref(), Some("a"));
    queue.finish("a", Completion::Success(None));
    let granted = "it lacks a permission: it has been granted for another object, so this one is retried, at the \
                   shared retry rate";
    assert_eq!(queue.why("b"), granted);
}

#[test]
fn a_key_waits_until_the_caches_have_its_writes() {
    let mut queue = queue();
    queue.event("a");
    queue.take();
    let write =
        Revision { view: CacheRef::Primary, object: key("a"), uid: "u".to_owned(), version: Some("9".to_owned()) };
    queue.state.record_write(&key("a"), &write, WriteOrigin::Own, queue.now);
    queue.event("a");
    queue.finish("a", Completion::Success(None));
    assert_eq!(queue.lanes(), [1, 0, 0]);
    assert_eq!(queue.name(), None);
    assert_eq!(queue.why("a"), "it waits until the caches contain the writes of its last call, for at most 5.0s");
    assert_eq!((queue.lanes(), queue.state.counts().lanes), ([0; 3], [0; 3]));
    queue.state.cache_reached(&write, queue.now);
    assert_eq!((queue.lanes(), queue.state.counts().lanes), ([1, 0, 0], [1, 0, 0]));
    assert!(queue.why("a").contains("for a worker"), "{}", queue.why("a"));
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
        let ids = queue.state.upcoming(most).into_iter();
        ids.filter_map(|id| Some(queue.state.key_of(id)?.name().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(names(&queue, 100), ["b", "a", "idle", "low", "mid", "later"]);
    assert_eq!(names(&queue, 2), ["b", "a"]);
    queue.state.clear(queue.now);
    assert_eq!(queue.state.counts(), QueueCounts::default());
}
