//! The formats of `format`: what the API server demands of a string or a number that has one.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::{cel, form, time};

type Check = fn(&str) -> bool;

/// The formats of strings, without hyphens, which do not count.
static FORMATS: &[(&str, Check)] = &[
    ("byte", |text| !text.is_empty() && !text.contains(['\r', '\n']) && cel::bytes(text).is_some()),
    ("cidr", is_cidr),
    ("date", time::is_date),
    ("datetime", is_date_time),
    ("duration", is_duration),
    // The real server also refuses what Go cannot read.
    ("email", |text| text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())),
    ("hexcolor", |text| fits(text, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$")),
    ("hostname", is_hostname),
    ("ipv4", |text| text.contains('.') && (is_ipv4(text) || is_ipv6(text))),
    ("ipv6", |text| text.contains(':') && text.parse::<Ipv6Addr>().is_ok()),
    ("k8slongname", |text| form::dns_subdomain(text).is_empty()),
    ("k8sshortname", |text| form::dns_label(text).is_empty()),
    ("mac", is_mac),
    ("uri", |text| is_named(text, "uri")),
    ("uuid", |text| is_named(text, "uuid")),
    ("uuid3", |text| is_uuid(text, '3', false)),
    ("uuid4", |text| is_uuid(text, '4', true)),
    ("uuid5", |text| is_uuid(text, '5', true)),
];

/// Formats that are known and not checked. The real server checks all but `password`.
static UNCHECKED: [&str; 8] = ["bsonobjectid", "creditcard", "isbn", "isbn10", "isbn13", "password", "rgbcolor", "ssn"];

fn named(name: &str) -> Option<Check> {
    let name = name.replace('-', "");
    let checked = FORMATS.iter().find(|(format, _)| *format == name).map(|(_, check)| *check);
    checked.or_else(|| UNCHECKED.contains(&&*name).then_some(|_| true))
}

/// The format of a schema, if it is one that the type can have; others are without effect.
pub(super) fn of(schema: &Value) -> Option<&str> {
    let format = schema["format"].as_str()?;
    let known = match schema["type"].as_str() {
        None | Some("string") => named(format).is_some(),
        Some("integer") => matches!(format, "int32" | "int64"),
        Some("number") => matches!(format, "float" | "double"),
        Some(_) => false,
    };
    known.then_some(format)
}

/// Returns whether a string has a format.
pub(super) fn has(text: &str, format: &str) -> bool {
    named(format).is_none_or(|check| check(text))
}

/// Returns whether a type and its format can hold a number.
pub(super) fn holds(number: &Value, of: &str, format: Option<&str>) -> bool {
    match (of, format) {
        ("integer", Some("int32")) => whole(number).is_some_and(|number| i32::try_from(number).is_ok()),
        ("integer", _) => whole(number).is_some(),
        ("number", Some("float")) => number.as_f64().is_none_or(|number| (number as f32).is_finite()),
        _ => true,
    }
}

fn whole(number: &Value) -> Option<i64> {
    /// The first whole number that is too large.
    const END: f64 = 9_223_372_036_854_775_808.0;
    number.as_i64().or_else(|| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0 && (-END..END).contains(number))?;
        Some(number as i64)
    })
}

fn is_named(text: &str, format: &str) -> bool {
    cel::Format::named(format).is_some_and(|format| format.violations(text).is_empty())
}

fn fits(text: &str, pattern: &str) -> bool {
    regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A UUID whose version is this digit; of some versions, the variant is checked, too.
fn is_uuid(text: &str, version: char, variant: bool) -> bool {
    let digits = text.replace('-', "");
    is_named(text, "uuid")
        && digits.chars().nth(12) == Some(version)
        && (!variant || digits.chars().nth(16).is_some_and(|digit| "89abAB".contains(digit)))
}

/// Go overlooks leading zeros here.
fn is_ipv4(text: &str) -> bool {
    let is_byte = |part: &str| is_number(part) && part.parse::<u32>().is_ok_and(|number| number < 256);
    text.split('.').count() == 4 && text.split('.').all(is_byte)
}

/// An address that may end with one of IPv4, whose leading zeros are overlooked.
fn is_ipv6(text: &str) -> bool {
    match text.rsplit_once(':') {
        Some((before, last)) if last.contains('.') => {
            is_ipv4(last) && format!("{before}:{}", Ipv4Addr::LOCALHOST).parse::<Ipv6Addr>().is_ok()
        }
        _ => text.parse::<Ipv6Addr>().is_ok(),
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = if is_ipv4(address) { 32 } else { 128 };
    let known = is_ipv4(address) || is_ipv6(address);
    known && is_number(length) && length.parse::<u32>().is_ok_and(|length| length <= most)
}

/// 6, 8 or 20 bytes: in pairs of digits with colons or hyphens, in groups of four with dots, or without anything.
fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let groups: Vec<&str> = match (bytes.get(2), bytes.get(4)) {
        (Some(b':'), _) => text.split(':').collect(),
        (Some(b'-'), _) => text.split('-').collect(),
        (_, Some(b'.')) => text.split('.').collect(),
        _ => vec![text],
    };
    let digits: usize = groups.iter().map(|group| group.len()).sum();
    let same = groups.iter().all(|group| groups.first().is_some_and(|first| first.len() == group.len()));
    same && matches!(digits, 12 | 16 | 40)
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A name of one label has at most one hyphen, its second character; that of a longer one ends with letters.
fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    if text.len() > 255 || labels.iter().any(|label| label.len() > 63) || fits(text, r"[^a-zA-Z0-9\p{S}\p{L}.-]") {
        return false;
    }
    match labels.as_slice() {
        [] => false,
        [label] => {
            let mut rest = label.chars();
            let starts = rest.next().is_some_and(|first| first != '-');
            let rest = rest.as_str();
            starts && !rest.strip_prefix('-').unwrap_or(rest).contains('-')
        }
        [labels @ .., top] => {
            let is_label = |label: &&str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
            labels.iter().all(is_label) && top.chars().count() > 1 && !fits(top, r"[^a-zA-Z\p{L}]")
        }
    }
}

/// A date and a time, between whose seconds and their fraction any character may be.
fn is_date_time(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let below = |text: &str, end: u32| {
        text.len() == 2 && is_number(text) && text.parse::<u32>().is_ok_and(|number| number < end)
    };
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    let clock: Vec<&str> = clock.split(':').collect();
    let [hour, minute, second] = clock.as_slice() else { return false };
    let offset = || {
        let (rest, zone) = rest.split_at_checked(rest.len().checked_sub(6)?)?;
        let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
        (below(hours, 100) && below(minutes, 100)).then_some(rest)
    };
    let Some(fraction) = rest.strip_suffix('z').or_else(offset) else { return false };
    let mut fraction = fraction.chars();
    time::is_date(date)
        && below(hour, 24)
        && below(minute, 60)
        && below(second, 60)
        && (fraction.next().is_none() || is_number(fraction.as_str()))
}

/// A duration of Go's, or a text with a number and a unit somewhere.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const WORDS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    if cel::duration(text).is_some() {
        return true;
    }
    let (mut rest, mut found) = (text, false);
    while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
        let number = &rest[start..];
        let unit = number.trim_start_matches(|char: char| char.is_ascii_digit());
        let digits = &number[..number.len() - unit.len()];
        let unit = unit.trim_start_matches(|char: char| char.is_ascii_whitespace());
        rest = unit.trim_start_matches(|char: char| char.is_ascii_alphabetic() || char == 'µ');
        let unit = unit[..unit.len() - rest.len()].to_ascii_lowercase();
        if unit.is_empty() {
            continue;
        }
        // A number that is too large is one too many, whatever the others are.
        if digits.parse::<i64>().is_err() {
            return false;
        }
        found |= UNITS.contains(&unit.as_str()) || WORDS.iter().any(|word| unit.starts_with(word));
    }
    found
}

#[cfg(test)]
mod tests;
