//! Keys in the order of their priorities.

use super::*;

fn queue() -> TimedQueue {
    let mut queue = TimedQueue::new(options());
    queue.state.order_by_priority();
    queue
}

impl TimedQueue {
    /// Decides the priorities that are not known: the number that the name begins with.
    fn decide(&mut self) -> usize {
        let asked = self.state.take_unprioritized(usize::MAX);
        for key in &asked {
            let number = key.name().split('_').next().and_then(|number| number.parse().ok());
            self.state.set_priority(key, number.unwrap_or_default());
        }
        asked.len()
    }

    fn order(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.name()).collect()
    }
}

#[test]
fn keys_with_a_higher_priority_run_first_and_equal_ones_in_their_order() {
    let mut queue = queue();
    for name in ["0_a", "5_a", "-3_a", "5_b", "0_b", "7_a"] {
        queue.event(name);
    }
    assert_eq!(queue.decide(), 6);
    assert_eq!(queue.order(), ["7_a", "5_a", "5_b", "0_a", "0_b", "-3_a"]);
}

#[test]
fn the_first_list_and_resyncs_count_a_hundred_less() {
    let mut queue = queue();
    queue.add("7_listed", Lane::Background, Reason::Initial);
    queue.add("200_listed", Lane::Background, Reason::Initial);
    queue.event("0_changed");
    queue.decide();
    assert_eq!(queue.order(), ["200_listed", "0_changed", "7_listed"]);
}

#[test]
fn a_change_moves_a_key_of_the_first_list_up_however_long_it_has_waited() {
    let mut queue = queue();
    queue.add("0_listed", Lane::Background, Reason::Initial);
    queue.decide();
    queue.now += ms(60_000);
    queue.event("0_changed");
    queue.event("0_listed");
    queue.decide();
    assert_eq!(queue.state.counts().lanes, [2, 0, 0]);
    assert_eq!(queue.order(), ["0_listed", "0_changed"], "it has waited longer");
}

#[test]
fn a_new_state_of_a_waiting_key_moves_it_and_is_asked_for_once() {
    let mut queue = queue();
    queue.event("a");
    queue.event("5_b");
    assert_eq!(queue.decide(), 2);
    queue.event("a");
    queue.event("a");
    assert!(queue.state.lacks_priorities());
    assert_eq!(queue.state.take_unprioritized(9), [key("a")]);
    queue.event("a");
    queue.state.set_priority(&key("a"), 9);
    assert_eq!(queue.state.take_unprioritized(9), [key("a")], "it changed while it was decided");
    assert_eq!(queue.order(), ["a", "5_b"]);
}

#[test]
fn a_change_during_a_run_is_asked_for_afterwards() {
    let mut queue = queue();
    queue.event("5_a");
    queue.decide();
    queue.take();
    queue.event("5_a");
    queue.finish("5_a", Completion::Success(None));
    assert_eq!(queue.decide(), 1);
}

#[test]
fn a_key_keeps_its_priority_until_that_of_its_next_wait_is_decided() {
    let mut queue = queue();
    queue.event("5_a");
    queue.decide();
    queue.take();
    queue.finish("5_a", Completion::Failure);
    queue.event("7_a");
    queue.decide();
    queue.event("3_a");
    queue.decide();
    queue.wait();
    queue.now += ms(100);
    assert_eq!(queue.name().as_deref(), Some("7_a"));
    assert_eq!(queue.order(), ["5_a", "3_a"], "the retry has the priority of the first run");
}

#[test]
fn the_priority_of_a_retry_is_decided_again() {
    let mut queue = queue();
    queue.event("a");
    queue.event("5_b");
    queue.decide();
    queue.state.set_priority(&key("a"), 9);
    assert_eq!(queue.name().as_deref(), Some("a"));
    queue.finish("a", Completion::Failure);
    queue.now += ms(100);
    queue.state.wake(queue.now);
    assert_eq!(queue.state.take_unprioritized(9), [key("a")], "a change that does not count may have changed it");
    queue.state.set_priority(&key("a"), 1);
    assert_eq!(queue.order(), ["5_b", "a"]);
}

#[test]
fn a_key_that_a_worker_takes_at_once_is_not_asked_for() {
    let mut queue = queue();
    queue.event("5_a");
    assert!(!queue.state.lacks_priorities(), "no other key waits");
    assert!(queue.take().is_some() && !queue.state.lacks_priorities());
    queue.finish("5_a", Completion::Success(None));
    assert_eq!(queue.state.known(), 0);
    queue.event("5_a");
    queue.event("6_a");
    assert!(queue.state.lacks_priorities());
    queue.state.clear(queue.now);
    assert!(!queue.state.lacks_priorities());
    queue.event("0_a");
    queue.event("1_a");
    queue.decide();
    assert_eq!(queue.order(), ["1_a", "0_a"], "the order is the same after a term of leadership");
}

#[test]
fn a_key_of_low_priority_waits_at_most_ten_times_as_long() {
    let mut queue = queue();
    for number in 0..3 {
        queue.event(&format!("0_{number}"));
    }
    let mut runs = Vec::new();
    for round in 1.. {
        queue.event(&format!("9_{round}"));
        queue.decide();
        let name = queue.name().unwrap();
        if name.starts_with('0') {
            runs.push(round);
        }
        queue.finish(&name, Completion::Success(None));
        if runs.len() == 3 {
            break;
        }
    }
    assert_eq!(runs, [10, 20, 30]);
}
