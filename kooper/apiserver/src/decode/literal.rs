//! Strings that stand for something else, and what Go says where they do not.

use crate::time;

/// A quantity has another form.
pub(super) const WRONG_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Why a string is not a quantity.
pub(super) fn not_a_quantity(text: &str) -> Option<&'static str> {
    let text = text.trim();
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number = rest.trim_start_matches(|char: char| char.is_ascii_digit());
    let suffix = number.strip_prefix('.').unwrap_or(number).trim_start_matches(|char: char| char.is_ascii_digit());
    let letters = suffix.trim_start_matches(|char| "eEinumkKMGTP".contains(char));
    let signed = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    if text.is_empty() || !signed.trim_start_matches(|char: char| char.is_ascii_digit()).is_empty() {
        return Some(WRONG_QUANTITY);
    }
    if rest.len() == suffix.len() {
        return Some("unable to parse numeric part of quantity");
    }
    let known = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| exponent.parse::<i32>().is_ok());
    (!known.contains(&suffix) && !exponent).then_some("unable to parse quantity's suffix")
}

/// Where a string stops being base64.
pub(super) fn not_base64(text: &str) -> Option<usize> {
    let text = text.replace(['\r', '\n'], "");
    let letters = text.trim_end_matches('=');
    let wrong = letters.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'+' && byte != b'/');
    if wrong.is_some() {
        return wrong;
    }
    let (length, padded) = (letters.len(), text.len() - letters.len());
    match (length % 4, padded) {
        (0, 0) | (2, 2) | (3, 1) => None,
        // Without padding, the last group is what is wrong.
        (rest, 0) => Some(length - rest),
        (0 | 1, _) => Some(length),
        (2, 1) => Some(text.len()),
        (rest, _) => Some(length + 4 - rest),
    }
}

/// An element of a layout of times.
enum Element {
    Text(&'static str),
    /// Its layout, how many digits it may have at least and at most, and its name with its range.
    Number(&'static str, usize, usize, Option<(&'static str, u32, u32)>),
    /// A fraction of a second, which may be left out where its layout is empty.
    Fraction(&'static str),
    Zone,
}

/// Why a string is not a time as the API writes it.
pub(super) fn not_a_time(text: &str, micros: bool) -> Option<String> {
    let (layout, fraction) = match micros {
        true => ("2006-01-02T15:04:05.000000Z07:00", ".000000"),
        false => ("2006-01-02T15:04:05Z07:00", ""),
    };
    let elements = [
        Element::Number("2006", 4, 4, None),
        Element::Text("-"),
        Element::Number("01", 2, 2, Some(("month", 1, 12))),
        Element::Text("-"),
        Element::Number("02", 2, 2, None),
        Element::Text("T"),
        Element::Number("15", 1, 2, Some(("hour", 0, 23))),
        Element::Text(":"),
        Element::Number("04", 2, 2, Some(("minute", 0, 59))),
        Element::Text(":"),
        Element::Number("05", 2, 2, Some(("second", 0, 59))),
        Element::Fraction(fraction),
        Element::Zone,
    ];
    let mut rest = text;
    let unparsed = |rest: &str, element: &str| {
        Some(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"))
    };
    let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
    for element in elements {
        match element {
            Element::Text(expected) => match rest.strip_prefix(expected) {
                Some(after) => rest = after,
                None => return unparsed(rest, expected),
            },
            Element::Number(name, least, most, range) => {
                let length = digits(rest).min(most);
                if length < least {
                    return unparsed(rest, name);
                }
                let number: u32 = rest[..length].parse().unwrap_or_default();
                rest = &rest[length..];
                if let Some((name, least, most)) = range
                    && !(least..=most).contains(&number)
                {
                    return Some(format!("parsing time {text:?}: {name} out of range"));
                }
            }
            Element::Fraction("") => {
                if let Some(after) = rest.strip_prefix(['.', ','])
                    && digits(after) > 0
                {
                    rest = &after[digits(after)..];
                }
            }
            Element::Fraction(name) => match rest.strip_prefix(['.', ',']) {
                Some(after) if digits(after) >= 6 => rest = &after[6..],
                _ => return unparsed(rest, name),
            },
            Element::Zone => {
                if let Some(after) = rest.strip_prefix('Z') {
                    rest = after;
                    continue;
                }
                match rest.as_bytes() {
                    [b'+' | b'-', a, b, b':', c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()) => {
                        rest = &rest[6..];
                    }
                    _ => return unparsed(rest, "Z07:00"),
                }
            }
        }
    }
    if !rest.is_empty() {
        return Some(format!("parsing time {text:?}: extra text: {rest:?}"));
    }
    (!time::is_date(&text[..10])).then(|| format!("parsing time {text:?}: day out of range"))
}

#[cfg(test)]
mod tests {
    use super::{not_a_quantity, not_a_time, not_base64};

    #[test]
    fn a_string_that_is_not_a_quantity_is_refused_with_a_reason() {
        for text in ["1", "0.5", "1e3", "12E-3", "5Gi", "-1m", "+1", ".5", "1.", " 1 "] {
            assert_eq!(not_a_quantity(text), None, "{text}");
        }
        for (text, why) in
            [("1x", "must match"), ("", "must match"), ("1KiB", "must match"), ("1mm", "suffix"), ("k", "numeric")]
        {
            assert!(not_a_quantity(text).is_some_and(|found| found.contains(why)), "{text}");
        }
    }

    #[test]
    fn a_string_that_is_not_base64_is_wrong_somewhere() {
        for text in ["", "YQ==", "YWI=", "YWJj", "YW\nJj"] {
            assert_eq!(not_base64(text), None, "{text}");
        }
        for (text, at) in [("!", 0), ("YQ", 0), ("YWJjYQ", 4), ("YQ=", 3), ("Y=", 1), ("YWI==", 4), ("YW!j", 2)] {
            assert_eq!(not_base64(text), Some(at), "{text}");
        }
    }

    #[test]
    fn a_string_that_is_not_a_time_is_refused_with_a_reason() {
        for text in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+01:00", "2026-01-02T3:04:05Z"] {
            assert_eq!(not_a_time(text, false), None, "{text}");
        }
        assert_eq!(not_a_time("2026-01-02T03:04:05.123456Z", true), None);
        for (text, why) in [
            ("x", r#"as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#),
            ("2026-1-02", r#"cannot parse "1-02" as "01""#),
            ("2026-13-02T03:04:05Z", ": month out of range"),
            ("2026-02-30T03:04:05Z", ": day out of range"),
            ("2026-01-02", r#"cannot parse "" as "T""#),
            ("2026-01-02T03:04:05", r#"cannot parse "" as "Z07:00""#),
            ("2026-01-02T03:04:05Zx", r#": extra text: "x""#),
        ] {
            assert!(not_a_time(text, false).is_some_and(|found| found.ends_with(why)), "{text}: {why}");
        }
    }
}
