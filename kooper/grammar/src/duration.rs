//! Durations with the syntax of Go's `time.ParseDuration`, without a sign.
//!
//! A unit is required, and zero is an error, because `"0"` is usually a mistake.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The units with their nanoseconds.
pub const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The longest duration in Go, about 292 years.
const LONGEST: u128 = i64::MAX as u128;

/// Parses a duration such as `"3m"`, `"1h30m"`, `"1.5s"` or `"100ms"`.
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(kooper_grammar::duration::parse("1h30m")?, Duration::from_secs(5400));
/// # Ok::<(), kooper_grammar::duration::DurationError>(())
/// ```
///
/// # Errors
///
/// If the string is not a duration, is zero, or exceeds Go's limit.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let input = || text.to_owned();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    if text.starts_with(['-', '+']) {
        return Err(DurationError::Signed(input()));
    }
    if text.contains(char::is_whitespace) {
        return Err(DurationError::Spaced(input()));
    }
    let mut total: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_at_first(rest, |c| !(c.is_ascii_digit() || c == '.'));
        let (unit, next) = split_at_first(after, |c| c.is_ascii_digit() || c == '.');
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(DurationError::NotADuration(input()));
        }
        if unit.is_empty() {
            return Err(DurationError::NoUnit(input()));
        }
        let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(DurationError::UnknownUnit { input: input(), unit: unit.to_owned() });
        };
        let whole = if whole.is_empty() { Some(0) } else { whole.parse::<u64>().ok() };
        let Some(whole) = whole else {
            return Err(DurationError::TooLong(input()));
        };
        total += u128::from(whole) * u128::from(*scale) + part_of(fraction, *scale);
        if total > LONGEST {
            return Err(DurationError::TooLong(input()));
        }
        rest = next;
    }
    match total {
        0 => Err(DurationError::Zero(input())),
        nanos => Ok(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))),
    }
}

/// Formats a duration so that [`parse`] returns the same one: `3m`, `1h30m`, `1.5s`, `100ms`.
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(kooper_grammar::duration::format(Duration::from_millis(90_500)), "1m30.5s");
/// ```
#[must_use]
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < 1_000 {
        return format!("{nanos}ns");
    }
    if nanos < 1_000_000 {
        return decimal(nanos, 1_000, "µs");
    }
    if nanos < 1_000_000_000 {
        return decimal(nanos, 1_000_000, "ms");
    }
    let (minutes, below_a_minute) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
    let mut text = String::new();
    if minutes >= 60 {
        text += &format!("{}h", minutes / 60);
    }
    if minutes % 60 > 0 {
        text += &format!("{}m", minutes % 60);
    }
    if below_a_minute > 0 {
        text += &decimal(below_a_minute, 1_000_000_000, "s");
    }
    text
}

/// Why a string is not a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurationError {
    /// The string is empty.
    Empty,
    /// The string begins with a sign.
    Signed(String),
    /// The string has a space.
    Spaced(String),
    /// A number is missing.
    NotADuration(String),
    /// A number has no unit.
    NoUnit(String),
    /// A unit that does not exist.
    UnknownUnit {
        /// The whole string.
        input: String,
        /// The unknown unit.
        unit: String,
    },
    /// The duration is zero.
    Zero(String),
    /// The duration is longer than 292 years.
    TooLong(String),
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "an empty duration: write a number and a unit, such as \"30s\""),
            Self::Signed(input) => {
                write!(f, "the duration \"{input}\" has a sign: write it without, such as \"30s\"")
            }
            Self::Spaced(input) => {
                write!(f, "the duration \"{input}\" has a space: write it without, such as \"1h30m\"")
            }
            Self::NotADuration(input) => {
                write!(f, "\"{input}\" is not a duration: write a number and a unit, such as \"30s\" or \"1h30m\"")
            }
            Self::NoUnit(input) => write!(
                f,
                "the duration \"{input}\" has no unit: write \"{input}s\" for seconds, \"{input}m\" for minutes"
            ),
            Self::UnknownUnit { input, unit } => write!(
                f,
                "the duration \"{input}\" has the unknown unit `{unit}`: the units are ns, us, ms, s, m and h"
            ),
            Self::Zero(input) => {
                write!(f, "the duration \"{input}\" is zero: write a longer one, such as \"1s\"")
            }
            Self::TooLong(input) => {
                write!(f, "the duration \"{input}\" is too long: write one shorter than 292 years")
            }
        }
    }
}

impl Error for DurationError {}

/// Splits before the first character that satisfies the predicate.
fn split_at_first(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

/// The digits after the point, in nanoseconds; smaller parts are cut off, as in Go.
fn part_of(fraction: &str, scale: u64) -> u128 {
    let mut value: u128 = 0;
    let mut divisor: u128 = 1;
    for digit in fraction.chars().take(18).filter_map(|c| c.to_digit(10)) {
        value = value * 10 + u128::from(digit);
        divisor *= 10;
    }
    value * u128::from(scale) / divisor
}

/// `nanos` in a unit, with as many digits after the point as it needs.
fn decimal(nanos: u128, scale: u128, unit: &str) -> String {
    let (whole, below) = (nanos / scale, nanos % scale);
    if below == 0 {
        return format!("{whole}{unit}");
    }
    let width = scale.ilog10() as usize;
    let digits = format!("{below:0width$}");
    format!("{whole}.{}{unit}", digits.trim_end_matches('0'))
}
