//! When a task with a schedule runs, with the time as an argument.

use std::time::Duration;

use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kooper_grammar::cron::Schedule;
use kooper_runtime::internal::clock;
use parking_lot::Mutex;

/// A run that is later than this, and than a tenth of the time until the next one, has been missed, for example while
/// another replica was the leader. The timer's clock stops while a machine is suspended, so that after a long wait it may
/// be late by minutes.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// The times of a schedule, in UTC.
pub(super) struct ScheduledRuns {
    schedule: Schedule,
    /// The time of the next run, once it is known. A run that the last one has requested, or that has failed, is owed
    /// however late it is, and has the time since which it is.
    due: Mutex<Option<(Timestamp, Option<Timestamp>)>>,
    /// The term of the shard in which it was decided.
    term: Mutex<Option<u64>>,
}

impl ScheduledRuns {
    pub(super) fn new(schedule: Schedule) -> Self {
        Self { schedule, due: Mutex::default(), term: Mutex::default() }
    }

    /// Begins anew in another term, and returns `true`: the time of an earlier one may have been that of another
    /// replica's run.
    pub(super) fn begin(&self, term: Option<u64>) -> bool {
        let is_new = std::mem::replace(&mut *self.term.lock(), term) != term;
        if is_new {
            *self.due.lock() = None;
        }
        is_new
    }

    /// The time until the next run; `None` if it is due. One that was missed is skipped.
    pub(super) fn wait(&self, now: Timestamp) -> Option<Duration> {
        let mut due = self.due.lock();
        let next_but_one = self.next_but_one(now);
        let latest = |due: Timestamp| LATE.max(self.after(due).duration_since(due) / 10);
        let known = due
            .filter(|(due, owed)| owed.is_some() || now.duration_since(*due) <= latest(*due) && *due <= next_but_one);
        let (next, owed) = known.unwrap_or_else(|| (self.after(now), None));
        *due = Some((next, owed));
        // The queue has waited for an owed run. A time before that wait is one of a clock that was set back.
        (next > now && owed.is_none_or(|since| since <= now)).then(|| until(next, now))
    }

    /// A run has failed: its retry is owed.
    pub(super) fn failed(&self, now: Timestamp) {
        let mut due = self.due.lock();
        *due = Some((self.begun(*due, now), Some(now)));
    }

    /// The time until the next run after one that has ended, unless it has requested another delay.
    pub(super) fn ended(&self, now: Timestamp, requested: Option<Duration>) -> Duration {
        let mut due = self.due.lock();
        if let Some(delay) = requested {
            // The queue delays the run further if it has been requested at once many times.
            *due = now.checked_add(delay).ok().map(|at| (at, Some(now)));
            return delay;
        }
        let next = self.after(self.begun(*due, now));
        *due = Some((next, None));
        until(next, now)
    }

    /// The time that the run after one that was `due` follows. The wall clock may have been set back during the run.
    fn begun(&self, due: Option<(Timestamp, Option<Timestamp>)>, now: Timestamp) -> Timestamp {
        let due = due.map(|(due, _)| due).filter(|due| *due <= self.next_but_one(now));
        due.map_or(now, |due| due.max(now))
    }

    /// A later time than this one is that of a clock that was set back since.
    fn next_but_one(&self, now: Timestamp) -> Timestamp {
        self.after(self.after(now))
    }

    fn after(&self, time: Timestamp) -> Timestamp {
        clock::scheduled(&self.schedule, time, &TimeZone::UTC).unwrap_or(Timestamp::MAX)
    }
}

fn until(next: Timestamp, now: Timestamp) -> Duration {
    next.duration_since(now).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-11-26T{time}Z").parse().expect(time)
    }

    fn hourly() -> ScheduledRuns {
        ScheduledRuns::new(Schedule::parse("0 * * * *").expect("a schedule"))
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_task_waits_for_its_time_and_runs_once() {
        let ticks = hourly();
        assert_eq!(ticks.wait(at("10:20:00")), Some(40 * MINUTE));
        assert_eq!(ticks.wait(at("10:59:59.999")), Some(Duration::from_millis(1)), "a timer was early");
        assert_eq!(ticks.wait(at("11:00:00")), None);
        assert_eq!(ticks.ended(at("11:05:00"), None), 55 * MINUTE);
        assert_eq!(ticks.wait(at("11:30:00")), Some(30 * MINUTE));
        assert_eq!(ticks.wait(at("12:00:20")), None, "a busy machine was late");
    }

    #[test]
    fn missed_runs_are_skipped() {
        let ticks = hourly();
        assert_eq!(ticks.wait(at("10:20:00")), Some(40 * MINUTE));
        assert_eq!(ticks.wait(at("13:10:00")), Some(50 * MINUTE), "while another replica was the leader");
        assert_eq!(ticks.wait(at("14:00:00")), None);
        assert_eq!(ticks.ended(at("16:40:00"), None), 20 * MINUTE, "during a long run");
    }

    #[test]
    fn a_run_that_is_late_after_a_long_wait_is_not_skipped() {
        let ticks = ScheduledRuns::new(Schedule::parse("0 3 * * *").expect("a schedule"));
        assert_eq!(ticks.wait(at("02:00:00")), Some(60 * MINUTE));
        assert_eq!(ticks.wait(at("03:05:00")), None, "the machine was suspended for five minutes");
        ticks.ended(at("03:06:00"), None);
        let next = "2026-11-27T08:00:00Z".parse().expect("a time");
        assert_eq!(ticks.wait(next), Some(19 * 60 * MINUTE), "it was suspended for hours");
    }

    #[test]
    fn the_times_of_another_term_are_those_of_another_replica() {
        let ticks = hourly();
        assert!(ticks.begin(Some(1)));
        assert_eq!(ticks.wait(at("10:20:00")), Some(40 * MINUTE));
        assert!(!ticks.begin(Some(1)));
        assert_eq!(ticks.wait(at("10:59:00")), Some(MINUTE));
        ticks.failed(at("11:00:10"));
        assert!(ticks.begin(Some(3)), "although an earlier run has failed here");
        assert_eq!(ticks.wait(at("11:00:20")), Some(60 * MINUTE - Duration::from_secs(20)));
    }

    #[test]
    fn a_run_can_request_another_delay() {
        let ticks = hourly();
        assert_eq!(ticks.wait(at("10:20:00")), Some(40 * MINUTE));
        assert_eq!(ticks.wait(at("11:00:00")), None);
        assert_eq!(ticks.ended(at("11:00:10"), Some(10 * MINUTE)), 10 * MINUTE);
        assert_eq!(ticks.wait(at("11:10:10")), None);
        assert_eq!(ticks.ended(at("11:10:10"), None), 50 * MINUTE - Duration::from_secs(10));
    }

    #[test]
    fn a_run_that_was_requested_at_once_is_not_skipped_after_a_longer_back_off() {
        let ticks = hourly();
        assert_eq!(ticks.wait(at("10:20:00")), Some(40 * MINUTE));
        assert_eq!(ticks.wait(at("11:00:00")), None);
        assert_eq!(ticks.ended(at("11:00:10"), Some(Duration::ZERO)), Duration::ZERO);
        assert_eq!(ticks.wait(at("11:10:10")), None);
        assert_eq!(ticks.ended(at("11:10:20"), None), 50 * MINUTE - Duration::from_secs(20));
        assert_eq!(ticks.wait(at("12:10:00")), Some(50 * MINUTE), "the next one is at a time of the schedule");
    }

    #[test]
    fn a_long_run_that_met_a_conflict_is_repeated() {
        let ticks = hourly();
        assert_eq!(ticks.wait(at("10:20:00")), Some(40 * MINUTE));
        assert_eq!(ticks.wait(at("11:00:00")), None);
        ticks.failed(at("11:03:00"));
        assert_eq!(ticks.wait(at("11:03:00.005")), None);
        assert_eq!(ticks.ended(at("11:06:00"), None), 54 * MINUTE);
    }

    #[test]
    fn a_wall_clock_that_is_set_back_by_hours_does_not_delay_a_run_as_long() {
        let ticks = hourly();
        assert_eq!(ticks.wait(at("18:20:00")), Some(40 * MINUTE));
        assert_eq!(ticks.wait(at("10:30:00")), Some(30 * MINUTE));
    }

    #[test]
    fn a_wall_clock_that_is_set_back_by_hours_during_a_run_does_not_delay_the_next_one_as_long() {
        let ticks = hourly();
        assert_eq!(ticks.wait(at("18:20:00")), Some(40 * MINUTE));
        assert_eq!(ticks.wait(at("19:00:00")), None);
        assert_eq!(ticks.ended(at("10:30:00"), None), 30 * MINUTE);
    }

    #[test]
    fn a_run_that_is_owed_does_not_wait_until_a_clock_that_was_set_back_shows_its_time() {
        let ticks = hourly();
        assert_eq!(ticks.wait(at("18:20:00")), Some(40 * MINUTE));
        assert_eq!(ticks.wait(at("19:00:00")), None);
        assert_eq!(ticks.ended(at("19:00:10"), Some(10 * MINUTE)), 10 * MINUTE);
        assert_eq!(ticks.wait(at("10:10:10")), None, "it was requested");
        ticks.failed(at("10:11:00"));
        assert_eq!(ticks.wait(at("09:11:00")), None, "it met a conflict");
        assert_eq!(ticks.ended(at("09:12:00"), None), 108 * MINUTE);
    }

    #[test]
    fn a_wall_clock_that_is_set_back_does_not_repeat_a_run() {
        let ticks = hourly();
        assert_eq!(ticks.wait(at("10:20:00")), Some(40 * MINUTE));
        assert_eq!(ticks.wait(at("11:00:00")), None);
        assert_eq!(ticks.ended(at("10:59:00"), None), 61 * MINUTE);
    }
}
