//! Times, as seconds since 1970 and as JSON has them.

use jiff::fmt::temporal::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};

/// The first second of the year 1, which stands for no time at all.
const ZERO: i64 = -62_135_596_800;
const SECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
const MICROSECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(6));

/// A time in UTC, in whole seconds or, with nanoseconds, in millionths. One after the year 9999 becomes the end of that
/// year.
pub(crate) fn write(seconds: i64, nanos: Option<i32>) -> String {
    let within = SignedDuration::from_nanos(nanos.unwrap_or_default().into());
    let time = Timestamp::from_second(seconds).and_then(|time| time.checked_add(within));
    let time = time.unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX });
    let zero = seconds == ZERO && nanos.is_none_or(|nanos| (0..1000).contains(&nanos));
    let printer = if nanos.is_some() && !zero { MICROSECONDS } else { SECONDS };
    printer.timestamp_to_string(&time)
}

/// Seconds and nanoseconds of a time in the format of RFC 3339; `None` if it is not one.
pub(crate) fn read(text: &str) -> Option<(i64, i32)> {
    let bytes = text.as_bytes();
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    // jiff reads more of ISO 8601.
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt") && is(13, b":") && is(16, b":")) || text.ends_with(']') {
        return None;
    }
    let time: Timestamp = text.parse().ok()?;
    let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
    Some(if nanos < 0 { (seconds - 1, nanos + 1_000_000_000) } else { (seconds, nanos) })
}

/// Returns `true` for Go's zero time, which means that no time is set.
pub(crate) fn is_zero(seconds: i64, nanos: i32) -> bool {
    seconds == ZERO && nanos == 0
}

#[cfg(test)]
mod tests {
    use super::{ZERO, read, write};

    #[test]
    fn times_are_written_and_read() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (-62_135_596_800, "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(write(seconds, None), text);
            assert_eq!(read(text), Some((seconds, 0)));
        }
        assert_eq!(write(0, Some(1_500)), "1970-01-01T00:00:00.000001Z");
        assert_eq!(read("1970-01-01T00:00:00.000001Z"), Some((0, 1000)));
        assert_eq!(read("1970-01-01T01:30:00.5+01:30"), Some((0, 500_000_000)));
        assert_eq!(read("1969-12-31T23:59:59.25Z"), Some((-1, 250_000_000)));
        assert_eq!(write(-1, Some(250_000_000)), "1969-12-31T23:59:59.250000Z");
        assert_eq!(write(ZERO, Some(999)), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn extreme_times_are_written() {
        for seconds in [i64::MIN, i64::MAX] {
            for nanos in [None, Some(i32::MIN), Some(i32::MAX)] {
                assert!(write(seconds, nanos).ends_with('Z'));
            }
        }
    }

    #[test]
    fn what_is_not_a_time_is_not_read() {
        for text in [
            "",
            "yesterday",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-13-02T03:04:05Z",
            "2026-02-30T03:04:05Z",
            "2026-01-02T03:04:05Z[UTC]",
            "2026-01-02T03:04:05.Zü",
            "2026-01-0é",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
