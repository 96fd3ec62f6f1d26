//! Times, as seconds since 1970 and as JSON has them.

/// The first second of the year 1, which stands for no time at all.
const ZERO: i64 = -62_135_596_800;
const DAY: i64 = 86_400;

/// A time in UTC, in whole seconds or, with nanoseconds, in millionths.
pub(crate) fn write(seconds: i64, nanos: Option<i32>) -> String {
    let nanos_in_second = i64::from(nanos.unwrap_or_default());
    let seconds = seconds.saturating_add(nanos_in_second.div_euclid(1_000_000_000));
    if seconds == ZERO && nanos_in_second.rem_euclid(1_000_000_000) / 1000 == 0 {
        return "0001-01-01T00:00:00Z".to_owned();
    }
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let mut text = String::with_capacity("2006-01-02T15:04:05.000000Z".len());
    if (0..=9999).contains(&year) {
        digits(&mut text, year, 4);
    } else {
        text = format!("{year:04}");
    }
    for (mark, number) in [('-', month), ('-', day), ('T', hour), (':', minute), (':', second)] {
        text.push(mark);
        digits(&mut text, number, 2);
    }
    if nanos.is_some() {
        text.push('.');
        digits(&mut text, nanos_in_second.rem_euclid(1_000_000_000) / 1000, 6);
    }
    text.push('Z');
    text
}

/// Appends the last digits of a number that is not negative.
fn digits(text: &mut String, number: i64, count: u32) {
    for place in (0..count).rev() {
        let digit = number / 10_i64.pow(place) % 10;
        text.push(char::from(b'0' + digit as u8));
    }
}

/// Seconds and nanoseconds of a time in the format of RFC 3339; `None` if it is not one.
pub(crate) fn read(text: &str) -> Option<(i64, i32)> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    };
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut at = 19;
    let mut nanos = 0;
    if is(at, b".") {
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let shown = digits.min(9);
        nanos = i32::try_from(number(at + 1, at + 1 + shown)?).ok()? * 10_i32.pow(9 - u32::try_from(shown).ok()?);
        at += 1 + digits;
    }
    let offset = match bytes.get(at..)? {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let seconds = number(at + 1, at + 3)? * 3600 + number(at + 4, at + 6)? * 60;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    Some((days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset, nanos))
}

/// Whether it is the time that stands for none.
pub(crate) fn is_zero(seconds: i64, nanos: i32) -> bool {
    seconds == ZERO && nanos == 0
}

/// Year, month and day of a number of days since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day is the last one; eras have 400 years.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (year + era * 400, month, date)
}

/// The number of days since 1970.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::{read, write};

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
            "2026-01-02T03:04:05.Zü",
            "2026-01-0é",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
