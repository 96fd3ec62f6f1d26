//! Schedules in cron's format, as Kubernetes' CronJobs have them.
//!
//! A schedule has no time zone: it maps minutes of a calendar to minutes.

use std::error::Error;
use std::fmt;

/// The minutes at which something begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// `true` if both days of the month and weekdays are limited, also by a step. A day then
    /// has to match only one of them.
    either_day: bool,
}

/// A minute of the Gregorian calendar, from the year 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minute {
    /// The year.
    pub year: i16,
    /// The month, from 1.
    pub month: i8,
    /// The day of the month, from 1.
    pub day: i8,
    /// The hour, up to 23.
    pub hour: i8,
    /// The minute of the hour, up to 59.
    pub minute: i8,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The fields of a schedule, with their bounds and the names of their values.
const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day of the month", least: 1, most: 31, names: &[] },
    Field { name: "month", least: 1, most: 12, names: &MONTHS },
    // Sunday is 0 and 7.
    Field { name: "day of the week", least: 0, most: 7, names: &WEEKDAYS },
];

/// The farthest day that is looked for: a 29th of February may be eight years away.
const FARTHEST_DAYS: u32 = 8 * 366;

impl Schedule {
    /// Parses five fields, such as `"30 2 * * mon-fri"`, or one of the words from `@hourly` to `@yearly`.
    ///
    /// ```
    /// use kooper_grammar::cron::{Minute, Schedule};
    ///
    /// let nightly = Schedule::parse("0 3 * * *")?;
    /// let evening = Minute { year: 2026, month: 12, day: 31, hour: 20, minute: 0 };
    /// assert_eq!(nightly.after(evening), Some(Minute { year: 2027, month: 1, day: 1, hour: 3, minute: 0 }));
    /// # Ok::<(), kooper_grammar::cron::CronError>(())
    /// ```
    ///
    /// # Errors
    /// If the string is not a schedule, or has no date.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let expression = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let parts: Vec<_> = expression.split_whitespace().collect();
        let Ok(parts) = <[&str; 5]>::try_from(parts) else { return Err(CronError::NotFiveFields(text.to_owned())) };
        let mut bits = [0; 5];
        for ((bits, part), field) in bits.iter_mut().zip(parts).zip(&FIELDS) {
            *bits = field.bits(part).ok_or_else(|| CronError::Field {
                input: text.to_owned(),
                part: part.to_owned(),
                name: field.name,
                least: field.least,
                most: field.most,
            })?;
        }
        let [minutes, hours, days, months, weekdays] = bits;
        let [_, _, of_month, _, of_week] = parts;
        let weekdays = (weekdays & 0x7f) | (weekdays >> 7);
        let schedule =
            Self { minutes, hours, days, months, weekdays, either_day: !is_any(of_month) && !is_any(of_week) };
        // Eight years that have a 29th of February.
        let any = Minute { year: 2000, month: 1, day: 1, hour: 0, minute: 0 };
        if schedule.after(any).is_none() { Err(CronError::NoDate(text.to_owned())) } else { Ok(schedule) }
    }

    /// The first minute after this one.
    #[must_use]
    pub fn after(&self, time: Minute) -> Option<Minute> {
        let mut day = time;
        for _ in 0..FARTHEST_DAYS {
            if self.is_day(day)
                && let Some(found) = self.minutes_of(day).find(|minute| *minute > time)
            {
                return Some(found);
            }
            day = day.next_day();
        }
        None
    }

    /// The minutes of a day, in order.
    fn minutes_of(&self, day: Minute) -> impl Iterator<Item = Minute> {
        let (hours, minutes) = (self.hours, self.minutes);
        (0..24).filter(move |hour| has(hours, *hour)).flat_map(move |hour| {
            let minutes = (0..60).filter(move |minute| has(minutes, *minute));
            minutes.map(move |minute| Minute { hour, minute, ..day })
        })
    }

    fn is_day(&self, at: Minute) -> bool {
        let (day, weekday) = (has(self.days, at.day), has(self.weekdays, at.weekday()));
        has(self.months, at.month) && if self.either_day { day || weekday } else { day && weekday }
    }
}

impl Minute {
    /// The day of the week; Sunday is 0.
    fn weekday(self) -> i8 {
        let (year, month, day) = (i32::from(self.year), i32::from(self.month), i32::from(self.day));
        // The year begins in March, so that the leap day is its last.
        let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
        let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
        // The 1st of March of the year 0 was a Wednesday.
        i8::try_from((days + 2).rem_euclid(7)).unwrap_or_default()
    }

    /// Any minute of the next day.
    fn next_day(self) -> Self {
        if self.day < self.days_in_month() {
            return Self { day: self.day + 1, ..self };
        }
        match self.month {
            12 => Self { year: self.year.saturating_add(1), month: 1, day: 1, ..self },
            month => Self { month: month + 1, day: 1, ..self },
        }
    }

    fn days_in_month(self) -> i8 {
        let is_leap_year = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match self.month {
            2 if is_leap_year => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

/// A field of schedules.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

impl Field {
    /// The numbers of the field, as bits.
    fn bits(&self, text: &str) -> Option<u64> {
        let mut bits = 0;
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(step.parse::<usize>().ok().filter(|step| *step > 0)?)),
                None => (part, None),
            };
            let (from, to) = match range.split_once('-') {
                _ if matches!(range.split('-').next(), Some("*" | "?")) => (self.least, self.most),
                Some((from, to)) => (self.number(from)?, self.number(to)?),
                // Sunday, as 7, would be a day of the next week.
                None if step.is_some() => (self.number(range)?, self.last()),
                None => (self.number(range)?, self.number(range)?),
            };
            if from > to {
                return None;
            }
            (from..=to).step_by(step.unwrap_or(1)).for_each(|number| bits |= 1_u64 << number);
        }
        Some(bits)
    }

    /// The last number that differs from all others.
    fn last(&self) -> u32 {
        if self.most == 7 { 6 } else { self.most }
    }

    fn number(&self, text: &str) -> Option<u32> {
        match self.names.iter().position(|name| text.eq_ignore_ascii_case(name)) {
            Some(index) => u32::try_from(index).ok().map(|index| index + self.least),
            None => text.parse().ok().filter(|number| (self.least..=self.most).contains(number)),
        }
    }
}

/// Returns `true` if a field limits nothing. A star with a longer step does, as in Kubernetes' parser.
fn is_any(text: &str) -> bool {
    text.split(',').any(|part| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        range.starts_with(['*', '?']) && step.parse::<usize>() == Ok(1)
    })
}

fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| bits & (1 << number) != 0)
}

/// Why a string is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CronError {
    /// The string does not have five fields.
    NotFiveFields(String),
    /// A field does not have its form, or a number is out of bounds.
    Field {
        /// The whole string.
        input: String,
        /// The field.
        part: String,
        /// The name of the field.
        name: &'static str,
        /// The smallest number.
        least: u32,
        /// The largest number.
        most: u32,
    },
    /// No month has such a day.
    NoDate(String),
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFiveFields(input) => write!(
                f,
                "the schedule {input:?} does not have five fields: write minute, hour, day of the month, month and day of the \
                 week, such as \"0 3 * * *\", or `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`"
            ),
            Self::Field { input, part, name, least, most } => write!(
                f,
                "the schedule {input:?} has the {name} `{part}`: write numbers from {least} to {most} such as `1,3-5`, `*` \
                 for all, or a step such as `*/2`"
            ),
            Self::NoDate(input) => {
                write!(f, "the schedule {input:?} has no date: no such month has such a day")
            }
        }
    }
}

impl Error for CronError {}
