//! Times and durations, as Go's package `time` reads and writes them.

use std::cmp::Ordering;

use kooper_grammar::duration::UNITS;

use crate::time::is_date;

/// A point in time, with the offset that it was written with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    /// Since 1970.
    seconds: i64,
    nanos: i64,
    /// Seconds east of UTC.
    offset: i64,
}

/// The first and the last second that can be written.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const SECOND: i64 = 1_000_000_000;
const OVERFLOW: &str = "timestamp overflow";

/// A date and a time of day.
#[derive(Debug, Clone, Copy)]
pub(super) struct Civil {
    pub(super) year: i64,
    /// From 1 on.
    pub(super) month: i64,
    /// From 1 on.
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) nanos: i64,
    /// Since 1970.
    days: i64,
}

impl Civil {
    /// Sunday is 0.
    pub(super) fn weekday(self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }

    /// From 0 on.
    pub(super) fn day_of_year(self) -> i64 {
        self.days - days(self.year, 1, 1)
    }
}

/// The days from 1970 to a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

impl Time {
    pub(super) fn from_seconds(seconds: i64) -> Result<Self, String> {
        Self { seconds, nanos: 0, offset: 0 }.checked()
    }

    fn checked(self) -> Result<Self, String> {
        if RANGE.contains(&self.seconds) { Ok(self) } else { Err(OVERFLOW.to_owned()) }
    }

    pub(super) fn seconds(self) -> i64 {
        self.seconds
    }

    /// The zero of Go: the first second of the year 1.
    pub(super) fn is_zero(self) -> bool {
        self.seconds == *RANGE.start() && self.nanos == 0
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }

    pub(super) fn plus(self, duration: i64) -> Result<Self, String> {
        let nanos = self.nanos + duration.rem_euclid(SECOND);
        let seconds = self.seconds + duration.div_euclid(SECOND) + nanos.div_euclid(SECOND);
        Self { seconds, nanos: nanos.rem_euclid(SECOND), offset: self.offset }.checked()
    }

    pub(super) fn minus(self, duration: i64) -> Result<Self, String> {
        // The smallest duration has no opposite.
        match duration.checked_neg() {
            Some(opposite) => self.plus(opposite),
            None => self.plus(i64::MAX).and_then(|time| time.plus(1)),
        }
    }

    /// The time since another one, which may be too long for a duration.
    pub(super) fn since(self, other: Self) -> Result<i64, String> {
        let seconds = self.seconds.checked_sub(other.seconds).and_then(|seconds| seconds.checked_mul(SECOND));
        let nanos = seconds.and_then(|seconds| seconds.checked_add(self.nanos - other.nanos));
        nanos.ok_or_else(|| "integer overflow".to_owned())
    }

    /// Date and time of day, so many seconds east of UTC.
    pub(super) fn civil(self, offset: i64) -> Civil {
        let seconds = self.seconds + offset;
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let shifted = days + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let part = (5 * of_year + 2) / 153;
        let month = if part < 10 { part + 3 } else { part - 9 };
        Civil {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: of_year - (153 * part + 2) / 5 + 1,
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            nanos: self.nanos,
            days,
        }
    }

    /// Reads a time as RFC 3339 has it, with what Go overlooks.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, String>> {
        let (date, rest) = text.split_at_checked(10)?;
        let (year, month, day) = date_of(date)?;
        let rest = rest.strip_prefix('T')?;
        // Go takes an hour of one digit.
        let (hour, rest) = rest.split_once(':')?;
        let hour = digits(hour).filter(|number| hour.len() <= 2 && *number < 24)?;
        let (minute, rest) = rest.split_at_checked(2)?;
        let (second, mut rest) = rest.strip_prefix(':')?.split_at_checked(2)?;
        let (minute, second) = (digits(minute).filter(|n| *n < 60)?, digits(second).filter(|n| *n < 60)?);
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if length == 0 {
                return None;
            }
            nanos = digits(&format!("{:0<9}", &fraction[..length])[..9])?;
            rest = &fraction[length..];
        }
        let offset = match rest {
            "Z" => 0,
            _ => {
                let (sign, rest) = rest.split_at_checked(1)?;
                let (hours, minutes) = rest.split_once(':')?;
                let both = hours.len() == 2 && minutes.len() == 2;
                let seconds = digits(hours).filter(|n| *n <= 24)? * 3_600 + digits(minutes).filter(|n| *n <= 60)? * 60;
                match sign {
                    "+" if both => seconds,
                    "-" if both => -seconds,
                    _ => return None,
                }
            }
        };
        let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
        Some(Self { seconds, nanos, offset }.checked())
    }

    /// Midnight of a date.
    pub(crate) fn of_date(text: &str) -> Option<Self> {
        let (year, month, day) = date_of(text)?;
        Some(Self { seconds: days(year, month, day) * 86_400, nanos: 0, offset: 0 })
    }

    /// As RFC 3339 has it, with as many digits of a second as needed.
    pub(super) fn written(self) -> String {
        let Civil { year, month, day, hour, minute, second, nanos, .. } = self.civil(self.offset);
        let fraction = format!(".{nanos:09}");
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        let zone = match self.offset / 60 {
            0 => "Z".to_owned(),
            minutes => {
                let sign = if minutes < 0 { '-' } else { '+' };
                format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        };
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}")
    }
}

fn digits(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) { None } else { text.parse().ok() }
}

fn date_of(text: &str) -> Option<(i64, i64, i64)> {
    let parts: Vec<_> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return None };
    let date = (digits(year)?, digits(month)?, digits(day)?);
    is_date(text).then_some(date)
}

/// Reads a duration as Go does: `1h30m`, `1.5s`, `-1µs`.
pub(crate) fn duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole: i128 = if length == 0 { 0 } else { rest[..length].parse::<u64>().ok()?.into() };
        rest = &rest[length..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let length = after.bytes().take_while(u8::is_ascii_digit).count();
            fraction = &after[..length];
            rest = &after[length..];
        }
        if length == 0 && fraction.is_empty() {
            return None;
        }
        let end = rest.find(|char: char| char == '.' || char.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..end])?;
        rest = &rest[end..];
        sum += whole * i128::from(*unit);
        if !fraction.is_empty() {
            // As many digits as an int64 holds count; Go multiplies them as floats.
            let (mut digits, mut scale) = (0_i64, 1.0_f64);
            for digit in fraction.bytes() {
                let Some(next) = digits.checked_mul(10).and_then(|digits| digits.checked_add(i64::from(digit - b'0')))
                else {
                    break;
                };
                (digits, scale) = (next, scale * 10.0);
            }
            sum += (digits as f64 * (*unit as f64 / scale)) as i128;
        }
        if sum > i128::from(i64::MAX) + 1 {
            return None;
        }
    }
    i64::try_from(if negative { -sum } else { sum }).ok()
}

/// A duration in seconds.
pub(super) fn in_seconds(duration: i64) -> f64 {
    (duration / SECOND) as f64 + (duration % SECOND) as f64 / 1e9
}

/// The seconds east of UTC of a time zone.
pub(super) fn zone(name: &str) -> Result<i64, String> {
    let Some((hours, minutes)) = name.split_once(':') else {
        return match name {
            "" | "UTC" => Ok(0),
            _ => Err(format!(
                "{}: of time zones it knows UTC and offsets such as '+02:00', and not '{name}'",
                super::LIMIT
            )),
        };
    };
    let number = |text: &str| {
        let why = format!("strconv.Atoi: parsing {text:?}: invalid syntax");
        text.strip_prefix('+').unwrap_or(text).parse::<i64>().map_err(|_| why)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    Ok(60 * if name.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes })
}
