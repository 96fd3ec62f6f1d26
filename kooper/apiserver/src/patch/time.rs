//! Times of `managedFields`.

/// The seconds since 1970 of an RFC 3339 time; 0 for what isn't one.
pub(crate) fn unix_seconds(time: &str) -> i64 {
    parse(time).unwrap_or_default()
}

fn parse(time: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| time.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let zone = time.get(19..)?.trim_start_matches(|char: char| char == '.' || char.is_ascii_digit());
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), ..] => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    // Days since 1970, counting years from March so that leap days come last.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years.div_euclid(4) - years.div_euclid(100)
        + years.div_euclid(400)
        + (153 * months + 2) / 5
        + day
        - 1
        - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

#[cfg(test)]
mod tests {
    use super::unix_seconds;

    #[test]
    fn times_are_read_in_any_zone() {
        assert_eq!(unix_seconds("1970-01-01T00:00:00Z"), 0);
        assert_eq!(unix_seconds("2024-02-29T12:30:15.123456Z"), 1_709_209_815);
        assert_eq!(unix_seconds("2024-02-29T13:30:15+01:00"), 1_709_209_815);
        assert_eq!(unix_seconds("2024-02-29T07:00:15-05:30"), 1_709_209_815);
        assert_eq!(unix_seconds("yesterday"), 0);
        assert_eq!(unix_seconds(""), 0);
    }
}
