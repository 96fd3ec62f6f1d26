//! The times of a CronJob.

use std::iter::successors;

use k8s_openapi::api::batch::v1::CronJobSpec;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::tz::TimeZone;

use kooper_grammar::cron::Schedule;
use kooper_grammar::duration;
use kooper_runtime::Result;
use kooper_runtime::internal::clock;

pub(super) enum Times {
    /// So many seconds after the last time.
    Every(i64),
    At(Schedule, TimeZone),
}

impl Times {
    /// The times of a CronJob; `None` if its schedule has none.
    pub(super) fn of(spec: &CronJobSpec) -> Result<Option<Self>> {
        if let Some(interval) = spec.schedule.strip_prefix("@every ") {
            let seconds = duration::parse(interval).ok().and_then(|every| i64::try_from(every.as_secs()).ok());
            // As Kubernetes: whole seconds, and at least one.
            return Ok(seconds.map(|seconds| Self::Every(seconds.max(1))));
        }
        let Ok(schedule) = Schedule::parse(&spec.schedule) else { return Ok(None) };
        let zone = spec.time_zone.as_deref().map_or(Ok(TimeZone::UTC), TimeZone::get)?;
        Ok(Some(Self::At(schedule, zone)))
    }

    /// The first time after this one.
    pub(super) fn after(&self, at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(seconds) => Timestamp::from_second(at.as_second().checked_add(*seconds)?).ok(),
            Self::At(schedule, zone) => clock::scheduled(schedule, at, zone),
        }
    }

    /// The last time after `since` that is not after `now`, however many there are.
    pub(super) fn last(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let first = self.after(since).filter(|first| *first <= now)?;
        if let Self::Every(seconds) = self {
            let passed = now.as_second() - first.as_second();
            return Timestamp::from_second(now.as_second() - passed % seconds).ok();
        }
        // The last one is looked for in a period before now that gets longer: there may be very many before it.
        let mut period = self.after(first).map_or(now, |second| second.min(now)).duration_since(first).unsigned_abs();
        loop {
            let begin = now.checked_sub(period).ok().filter(|begin| *begin > first);
            let times = successors(self.after(begin.unwrap_or(first)), |at| self.after(*at));
            match (times.take_while(|at| *at <= now).last(), begin) {
                (None, Some(_)) => period = period.saturating_mul(2),
                (last, _) => return last.or(Some(first)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(schedule: &str, since: &str, now: &str) -> Option<String> {
        let spec = CronJobSpec { schedule: schedule.to_owned(), ..CronJobSpec::default() };
        let times = Times::of(&spec).expect("a time zone").expect(schedule);
        let time = |text: &str| text.parse::<Timestamp>().expect(text);
        times.last(time(since), time(now)).map(|last| last.to_string())
    }

    #[test]
    fn the_last_time_is_found_however_many_were_missed() {
        let created = "2026-01-01T00:00:30Z";
        for (schedule, now, expected) in [
            ("* * * * *", "2026-01-01T00:00:59Z", None),
            ("* * * * *", "2026-01-01T00:01:00Z", Some("2026-01-01T00:01:00Z")),
            ("* * * * *", "2026-12-31T12:00:10Z", Some("2026-12-31T12:00:00Z")),
            // On a Sunday, long after the last time.
            ("0 9-17 * * mon-fri", "2026-03-08T12:00:00Z", Some("2026-03-06T17:00:00Z")),
            ("0-5 0 1 1 *", "2028-12-31T00:00:00Z", Some("2028-01-01T00:05:00Z")),
            ("0 0 1 1 *", "2027-06-01T00:00:00Z", Some("2027-01-01T00:00:00Z")),
            ("@every 10m", "2026-01-01T00:10:29Z", None),
            ("@every 10m", "2026-01-02T00:00:00Z", Some("2026-01-01T23:50:30Z")),
            ("@every 1ms", "2026-01-01T00:01:00.5Z", Some("2026-01-01T00:01:00Z")),
        ] {
            assert_eq!(last(schedule, created, now).as_deref(), expected, "{schedule} at {now}");
        }
    }

    #[test]
    fn a_schedule_that_is_none_has_no_times() {
        for schedule in ["@every soon", "@never", "61 * * * *"] {
            let spec = CronJobSpec { schedule: schedule.to_owned(), ..CronJobSpec::default() };
            assert!(Times::of(&spec).expect("a time zone").is_none(), "{schedule}");
        }
    }
}
