//! The time: of the wall clock, and of this machine since its start. Both follow
//! tokio's clock where a test has paused it, so that a test has one clock.

use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::civil::DateTime;
use k8s_openapi::jiff::tz::TimeZone;
use kooper_grammar::cron::{Minute, Schedule};
use tokio::time::Instant;

/// A moment of a local clock: the time since its start.
pub type Moment = Duration;

/// A clock that never goes back. Timers only wake tasks; this clock decides.
pub trait Clock: Send + Sync + 'static {
    /// The time since the start of the clock.
    fn now(&self) -> Moment;
}

/// The clock of this machine. It continues while the machine is suspended, so that a
/// laptop that was asleep does not assume that it is still the leader.
#[must_use]
pub fn system() -> Arc<dyn Clock> {
    #[cfg(target_os = "linux")]
    return Arc::new(BootTime::default());
    #[cfg(not(target_os = "linux"))]
    return Arc::new(TokioTime(Instant::now()));
}

/// The time of the wall clock.
#[must_use]
pub fn wall() -> Timestamp {
    let now = Timestamp::now();
    let (ahead, behind) = offset();
    now.checked_add(ahead).and_then(|now| now.checked_sub(behind)).unwrap_or(now)
}

/// The first time of a schedule after this one.
#[must_use]
pub fn scheduled(schedule: &Schedule, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let at = zone.to_datetime(after);
    let mut at = Minute { year: at.year(), month: at.month(), day: at.day(), hour: at.hour(), minute: at.minute() };
    loop {
        at = schedule.after(at)?;
        let Minute { year, month, day, hour, minute } = at;
        let time = zone.to_timestamp(DateTime::new(year, month, day, hour, minute, 0, 0).ok()?).ok()?;
        // When clocks go back, a local time occurs twice, and the first of the two may be over.
        if time > after {
            return Some(time);
        }
    }
}

/// The time by which tokio's clock is ahead of the machine's, and the time by which
/// it is behind. Both are zero unless a test has paused it.
fn offset() -> (Duration, Duration) {
    // A caller reads its own clock first, then come these two, in this order: if
    // the thread is suspended in between, the sum is still a time between the
    // beginning and the end of the call, and no later call returns an earlier one.
    let machine = std::time::Instant::now();
    let tokio = Instant::now().into_std();
    (tokio.saturating_duration_since(machine), machine.saturating_duration_since(tokio))
}

#[cfg(target_os = "linux")]
#[derive(Default)]
struct BootTime {
    /// The last time in nanoseconds: while tokio's clock is paused, the sum of several clocks goes back by what passes
    /// between them.
    last: AtomicU64,
}

#[cfg(target_os = "linux")]
impl Clock for BootTime {
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let time = Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default());
        let (ahead, behind) = offset();
        let now = u64::try_from((time + ahead).saturating_sub(behind).as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(now.max(self.last.fetch_max(now, Ordering::Relaxed)))
    }
}

/// Tokio's clock. On Windows and macOS it may stop during a suspension.
#[cfg(any(test, not(target_os = "linux")))]
pub(crate) struct TokioTime(pub(crate) Instant);

#[cfg(any(test, not(target_os = "linux")))]
impl Clock for TokioTime {
    fn now(&self) -> Moment {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_scheduled_time_is_never_in_the_past_when_clocks_go_back() {
        // That of New York: on this day, 01:00 EST follows 01:59 EDT.
        let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").expect("a zone");
        let schedule = Schedule::parse("*/15 * * * *").expect("a schedule");
        let time = |time: &str| format!("2026-11-01T{time}Z").parse::<Timestamp>().expect(time);
        for (after, next) in
            [("05:20:00", "05:30:00"), ("05:50:00", "07:00:00"), ("06:20:00", "07:00:00"), ("07:00:00", "07:15:00")]
        {
            assert_eq!(scheduled(&schedule, time(after), &zone), Some(time(next)), "after {after}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_clock_follows_one_that_a_test_has_paused() {
        let (clock, wall_before) = (system(), wall());
        let before = clock.now();
        tokio::time::sleep(DAY).await;
        let passed = clock.now().saturating_sub(before);
        assert!(passed.abs_diff(DAY) < Duration::from_secs(1), "{passed:?}");
        let passed = wall().duration_since(wall_before).unsigned_abs();
        assert!(passed.abs_diff(DAY) < Duration::from_secs(1), "{passed:?}");
    }

    fn check_order(clock: &dyn Clock) {
        let mut last = clock.now();
        for _ in 0..100_000 {
            let next = clock.now();
            assert!(next >= last, "{next:?} after {last:?}");
            last = next;
        }
    }

    #[tokio::test]
    async fn a_clock_that_is_not_paused_is_the_machines_and_never_goes_back() {
        let (clock, now) = (system(), wall());
        assert!(now.duration_since(Timestamp::now()).unsigned_abs() < Duration::from_secs(1));
        check_order(&*clock);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_never_goes_back() {
        check_order(&*system());
    }
}
