//! Values as text: how Go writes numbers, and the method `format`.

use std::fmt::Write as _;

use super::convert::convert;
use super::written::{duration, not_finite};
use crate::cel::value::Value;
use crate::escape::quote;

/// A value in an error.
pub(in crate::cel) fn shown(value: &Value) -> String {
    match convert("string", value) {
        Ok(Value::String(text)) => text.to_string(),
        _ => value.type_name().to_owned(),
    }
}

/// A part of a format.
#[derive(Debug)]
pub(in crate::cel) enum Part {
    Text(String),
    Clause { verb: char, precision: Option<usize> },
}

/// The parts of a format for so many values.
pub(in crate::cel) fn parts(format: &str, values: usize) -> Result<Vec<Part>, String> {
    let (mut parts, mut text, mut used) = (Vec::new(), String::new(), 0);
    let mut chars = format.chars().peekable();
    while let Some(char) = chars.next() {
        if char != '%' || chars.next_if_eq(&'%').is_some() {
            text.push(char);
            continue;
        }
        if used >= values {
            return Err(format!("index {used} out of range"));
        }
        used += 1;
        parts.push(Part::Text(std::mem::take(&mut text)));
        let failed = |why: &str| format!("could not parse formatting clause: {why}");
        let mut precision = None;
        if chars.next_if_eq(&'.').is_some() {
            let digits: String = std::iter::from_fn(|| chars.next_if(char::is_ascii_digit)).collect();
            if chars.peek().is_none() {
                return Err(failed("error while parsing precision: could not find end of precision specifier"));
            }
            let why = format!(
                "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \
                 {digits:?}: invalid syntax"
            );
            precision = Some(digits.parse().map_err(|_| failed(&why))?);
        }
        let verb = chars.next().ok_or("unexpected end of string")?;
        if !"sdfebxXo".contains(verb) {
            return Err(failed(&format!("unrecognized formatting clause \"{verb}\"")));
        }
        parts.push(Part::Clause { verb, precision });
    }
    parts.push(Part::Text(text));
    Ok(parts)
}

/// The error for a value that a verb is not for.
pub(in crate::cel) fn unfit(verb: char, given: &str) -> String {
    let why = match verb {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        'o' => "octal clause can only be used on integers",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
             timestamps"
        }
    };
    format!("error during formatting: {why}, was given {given}")
}

/// The result of `format`.
pub(super) fn format(format: &str, values: &[Value]) -> Result<String, String> {
    let mut text = String::new();
    let mut values = values.iter();
    for part in parts(format, values.len())? {
        match part {
            Part::Text(part) => text.push_str(&part),
            Part::Clause { verb, precision } => {
                let Some(value) = values.next() else { break };
                text.push_str(&clause(verb, precision.unwrap_or(6), value)?);
            }
        }
    }
    Ok(text)
}

fn clause(verb: char, precision: usize, value: &Value) -> Result<String, String> {
    let unfit = || unfit(verb, value.type_name());
    let special = |text: &str| match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    };
    Ok(match (verb, value) {
        ('s', value) => return text(value).ok_or_else(unfit),
        ('d', Value::Int(number)) => number.to_string(),
        ('d', Value::Uint(number)) => number.to_string(),
        ('f', Value::Double(number)) => fixed(*number, precision),
        ('f', Value::String(text)) => fixed(special(text).ok_or_else(unfit)?, precision),
        // The precision is read, and has no effect in cel-go.
        ('e', Value::Double(number)) => scientific(*number, 6),
        ('e', Value::String(text)) => scientific(special(text).ok_or_else(unfit)?, 6),
        ('b', Value::Int(number)) => signed(*number, |number| format!("{number:b}")),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('b', Value::Bool(flag)) => u8::from(*flag).to_string(),
        ('x', Value::Int(number)) => signed(*number, |number| format!("{number:x}")),
        ('X', Value::Int(number)) => signed(*number, |number| format!("{number:X}")),
        ('x', Value::Uint(number)) => format!("{number:x}"),
        ('X', Value::Uint(number)) => format!("{number:X}"),
        ('x' | 'X', Value::String(text)) => hex(text.as_bytes(), verb),
        ('x' | 'X', Value::Bytes(data)) => hex(data, verb),
        ('o', Value::Int(number)) => signed(*number, |number| format!("{number:o}")),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        _ => return Err(unfit()),
    })
}

fn signed(number: i64, digits: fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

fn hex(data: &[u8], verb: char) -> String {
    let mut text = String::new();
    for byte in data {
        let _ = if verb == 'x' { write!(text, "{byte:02x}") } else { write!(text, "{byte:02X}") };
    }
    text
}

/// A number in the locale `en_US`.
fn fixed(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return localized(number).to_owned();
    }
    let text = format!("{:.precision$}", number.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{fraction}")
}

fn localized(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "∞"
    } else {
        "-∞"
    }
}

fn scientific(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return localized(number).to_owned();
    }
    let text = format!("{number:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let raised: String = format!("{digits:0>2}")
        .chars()
        .map(|digit| match digit {
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
        })
        .collect();
    format!("{mantissa}×10{sign}{raised}")
}

/// A value by the verb `s`.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("null".to_owned()),
        Value::List(list) => {
            let items: Option<Vec<_>> = list.items.iter().map(inner).collect();
            Some(format!("[{}]", items?.join(", ")))
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.iter() {
                entries.push((inner(&key.value())?, inner(value)?));
            }
            entries.sort();
            let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            Some(format!("{{{}}}", entries.join(", ")))
        }
        Value::Type(name) => Some(name.to_string()),
        Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_) => match convert("string", value) {
            Ok(Value::String(text)) => Some(text.to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// A value within a list or map.
fn inner(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => quoted(text),
        Value::Bytes(data) => format!("b{}", quoted(std::str::from_utf8(data).ok()?)),
        Value::Double(number) if number.is_finite() => format!("{number:.6}"),
        Value::Double(number) => quoted(not_finite(*number)),
        Value::Timestamp(time) => format!("timestamp({})", quoted(&time.written())),
        Value::Duration(nanos) => format!("duration({})", quoted(&duration(*nanos))),
        other => text(other)?,
    })
}

/// A text as `%q` of Go writes it.
fn quoted(text: &str) -> String {
    quote(text, |char, out| {
        if char.is_ascii_control() {
            let _ = write!(out, "\\x{:02x}", u32::from(char));
        } else {
            out.push(char);
        }
    })
}
