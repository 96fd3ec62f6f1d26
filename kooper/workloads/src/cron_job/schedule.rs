//! Schedules in cron's format.

use k8s_openapi::jiff::civil::DateTime;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{Timestamp, ToSpan as _};

/// The minutes at which a job begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// `true` if both days of the month and weekdays are limited. A day then has to match
    /// only one of them.
    either_day: bool,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The farthest time that is looked for: a 29th of February may be eight years away.
const FARTHEST_DAYS: u32 = 8 * 366;

impl Schedule {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let parts: Vec<_> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts.as_slice() else { return None };
        let weekday_bits = field(weekdays, 0, 7, &WEEKDAYS, 0)?;
        Some(Self {
            minutes: field(minutes, 0, 59, &[], 0)?,
            hours: field(hours, 0, 23, &[], 0)?,
            days: field(days, 1, 31, &[], 0)?,
            months: field(months, 1, 12, &MONTHS, 1)?,
            // Sunday is 0 and 7.
            weekdays: (weekday_bits & 0x7f) | (weekday_bits >> 7),
            either_day: !is_any(days) && !is_any(weekdays),
        })
    }

    /// The first time after this one.
    pub(super) fn after(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut at = zone.to_datetime(time);
        at = at.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(1.minute()).ok()?;
        for _ in 0..FARTHEST_DAYS {
            if !self.is_day(at) {
                at = at.with().hour(0).minute(0).build().ok()?.checked_add(1.day()).ok()?;
                continue;
            }
            let day = at.date();
            while at.date() == day {
                if !has(self.hours, at.hour()) {
                    at = at.with().minute(0).build().ok()?.checked_add(1.hour()).ok()?;
                } else if has(self.minutes, at.minute()) {
                    return zone.to_timestamp(at).ok();
                } else {
                    at = at.checked_add(1.minute()).ok()?;
                }
            }
        }
        None
    }

    fn is_day(&self, at: DateTime) -> bool {
        let (day, weekday) = (has(self.days, at.day()), has(self.weekdays, at.weekday().to_sunday_zero_offset()));
        has(self.months, at.month()) && if self.either_day { day || weekday } else { day && weekday }
    }
}

fn is_any(text: &str) -> bool {
    text.starts_with(['*', '?'])
}

fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| bits & (1 << number) != 0)
}

/// The numbers of a field, as bits.
fn field(text: &str, least: u32, most: u32, names: &[&str], first: u32) -> Option<u64> {
    let number = |text: &str| -> Option<u32> {
        let named = names.iter().position(|name| text.eq_ignore_ascii_case(name));
        match named {
            Some(index) => u32::try_from(index).ok().map(|index| index + first),
            None => text.parse().ok().filter(|number| (least..=most).contains(number)),
        }
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<usize>().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if is_any(range) => (least, most),
            Some((from, to)) => (number(from)?, number(to)?),
            None if step.is_some() => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return None;
        }
        (from..=to).step_by(step.unwrap_or(1)).for_each(|number| bits |= 1_u64 << number);
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let schedule = Schedule::parse(schedule).unwrap();
        schedule.after(after.parse().unwrap(), &TimeZone::UTC).unwrap().to_string()
    }

    #[test]
    fn the_next_time_is_found() {
        assert_eq!(next("*/15 * * * *", "2026-03-01T10:07:30Z"), "2026-03-01T10:15:00Z");
        assert_eq!(next("* * * * *", "2026-03-01T10:07:00Z"), "2026-03-01T10:08:00Z");
        assert_eq!(next("30 2 * * *", "2026-03-01T10:07:30Z"), "2026-03-02T02:30:00Z");
        assert_eq!(next("0 0 29 2 *", "2026-03-01T00:00:00Z"), "2028-02-29T00:00:00Z");
        assert_eq!(next("0 9 * * mon-fri", "2026-03-06T10:00:00Z"), "2026-03-09T09:00:00Z");
        assert_eq!(next("@monthly", "2026-12-31T23:59:59Z"), "2027-01-01T00:00:00Z");
        assert_eq!(next("0 0 13 * 5", "2026-03-01T00:00:00Z"), "2026-03-06T00:00:00Z", "either day is enough");
        assert_eq!(next("0 0 */2 * 1", "2026-03-01T00:00:00Z"), "2026-03-09T00:00:00Z", "a step of all limits no day");
        assert_eq!(next("? * ? * ?", "2026-03-01T10:07:00Z"), "2026-03-01T10:08:00Z");
        assert_eq!(next("5/20 4,6 * jan,jul 7", "2026-03-01T00:00:00Z"), "2026-07-05T04:05:00Z");
    }

    #[test]
    fn what_is_not_a_schedule_is_refused() {
        for text in ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "*/0 * * * *", "5-1 * * * *", "@reboot"] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
