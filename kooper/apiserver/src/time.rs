//! Times as the API writes them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// Whether it is later than some seconds since 1970, by however little.
pub(crate) fn is_past(seconds: u64) -> bool {
    clock() > UNIX_EPOCH + Duration::from_secs(seconds)
}

fn at(time: SystemTime) -> String {
    written(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// Some seconds since 1970 as a time.
pub(crate) fn written(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a number of days since 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    // Days since the first of March of the year 0, in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (year + era * 400, month, date)
}

/// The seconds since 1970 of a time as the API writes it; fractions are dropped.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let shifted = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let (era, of_era) = (shifted.0 / 400, shifted.0 % 400);
    let of_year = (153 * shifted.1 + 2) / 5 + day.checked_sub(1)?;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(days.checked_sub(719_468)? * 86_400 + hour * 3600 + minute * 60 + second)
}

/// How long ago a time was, as kubectl shows it.
pub(crate) fn age(created: &str) -> String {
    let (Some(then), Some(now)) = (seconds(created), seconds(&now())) else {
        return "<unknown>".to_owned();
    };
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
    let tail = text.get(19..).filter(|_| text.as_bytes().get(10) == Some(&b'T'))?;
    let (fraction, zone) = match tail.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("", tail),
    };
    let offset = match zone.as_bytes() {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let part = |range: std::ops::Range<usize>| zone.get(range)?.parse::<i64>().ok();
            let seconds = part(1..3)? * 3600 + part(4..6)? * 60;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    let since = i64::try_from(seconds(text)?).ok()? - offset;
    let written = at(UNIX_EPOCH + Duration::from_secs(u64::try_from(since).ok()?));
    if !micros {
        return Some(written);
    }
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(6).collect();
    Some(format!("{}.{digits}Z", written.trim_end_matches('Z')))
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
