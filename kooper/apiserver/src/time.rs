//! Times as the API writes them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::Date;

/// Now, in seconds: `2026-01-02T03:04:05Z`.
pub(crate) fn now() -> String {
    at(clock())
}

/// Some seconds from now.
pub(crate) fn after(seconds: u64) -> String {
    at(clock() + Duration::from_secs(seconds.min(u64::from(u32::MAX))))
}

/// The time of the wall clock; it follows tokio's clock where a test has paused it.
pub(crate) fn clock() -> SystemTime {
    let (time, machine) = (SystemTime::now(), Instant::now());
    let tokio = tokio::time::Instant::now().into_std();
    time + tokio.saturating_duration_since(machine) - machine.saturating_duration_since(tokio)
}

/// Returns whether the current time is past a Unix time, even by a fraction of a second.
pub(crate) fn is_past(seconds: u64) -> bool {
    clock() > UNIX_EPOCH + Duration::from_secs(seconds)
}

fn at(time: SystemTime) -> String {
    written(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// Some seconds since 1970 as a time.
pub(crate) fn written(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    format!("{:.0}", time.unwrap_or(Timestamp::MAX))
}

/// A time in the format of RFC 3339; jiff reads more of ISO 8601.
fn read(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let has_form = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')]
        .into_iter()
        .all(|(at, mark)| bytes.get(at) == Some(&mark));
    let has_zone = text.ends_with(|last: char| last == 'Z' || last.is_ascii_digit());
    // Nor is there a leap second in Go.
    text.parse().ok().filter(|_| has_form && has_zone && bytes[17..19] != *b"60")
}

/// The seconds since 1970 of a time as the API writes it; fractions are dropped.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    u64::try_from(read(text)?.as_second()).ok()
}

/// The same, also for times before 1970; 0 for what is not a time.
pub(crate) fn unix_seconds(text: &str) -> i64 {
    read(text).map_or(0, Timestamp::as_second)
}

/// Returns whether the text is a day of the calendar, such as `2026-01-02`.
pub(crate) fn is_date(text: &str) -> bool {
    text.len() == 10 && text.as_bytes()[4] == b'-' && text.parse::<Date>().is_ok()
}

/// Returns the time since `created` as kubectl formats it.
pub(crate) fn age(created: &str) -> String {
    let (Some(then), Some(now)) = (seconds(created), seconds(&now())) else {
        return "<unknown>".to_owned();
    };
    // Clocks differ a little.
    if then > now + 2 {
        return "<invalid>".to_owned();
    }
    duration(now.saturating_sub(then))
}

/// A time span as kubectl shows it.
pub(crate) fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let with = |large: u64, unit: &str, small: u64, rest: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{rest}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => with(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => with(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => with(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => with(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// A time as the API writes it: in UTC, in whole seconds or in millionths; `None` where it is not a time.
pub(crate) fn canonical(text: &str, micros: bool) -> Option<String> {
    let precision = if micros { 6 } else { 0 };
    Some(format!("{:.precision$}", read(text)?))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{age, at, canonical, duration, now, seconds};

    #[tokio::test(start_paused = true)]
    async fn the_wall_clock_follows_one_that_a_test_has_paused() {
        let created = now();
        tokio::time::sleep(Duration::from_secs(3 * 86_400)).await;
        assert_eq!(age(&created), "3d");
    }

    #[test]
    fn times_are_written_in_utc() {
        for (given, micros, written) in [
            ("2026-01-02T03:04:05Z", false, Some("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05.999Z", false, Some("2026-01-02T03:04:05Z")),
            ("2026-01-02T00:04:05+01:30", false, Some("2026-01-01T22:34:05Z")),
            ("2026-01-02T03:04:05Z", true, Some("2026-01-02T03:04:05.000000Z")),
            ("2026-01-02T03:04:05.12-01:00", true, Some("2026-01-02T04:04:05.120000Z")),
            ("2026-01-02T03:04:05", false, None),
            ("2026-02-30T03:04:05Z", false, None),
            ("2026-01-02T03:04:60Z", false, None),
            ("2026-01-02 03:04:05Z", false, None),
            ("2026-01-02T03:04:05Z[UTC]", false, None),
            ("yesterday", false, None),
        ] {
            assert_eq!(canonical(given, micros).as_deref(), written, "{given}");
        }
    }

    #[test]
    fn times_are_written_and_read() {
        for (number, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(at(UNIX_EPOCH + Duration::from_secs(number)), text);
            assert_eq!(seconds(text), Some(number));
        }
    }

    #[test]
    fn ages_are_shortened_as_kubectl_shortens_them() {
        let shown: Vec<_> =
            [5, 119, 150, 600, 10_800, 11_000, 180_000, 800_000, 70_000_000].into_iter().map(duration).collect();
        assert_eq!(shown, ["5s", "119s", "2m30s", "10m", "3h", "3h3m", "2d2h", "9d", "2y80d"]);
    }
}
