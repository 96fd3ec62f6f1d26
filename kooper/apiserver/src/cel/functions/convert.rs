//! Conversions between types.

use super::written::{double, duration};
use super::{Evaluated, net};
use crate::cel::time::{self, Time};
use crate::cel::value::Value;

/// Converts a value to the type of this name.
pub(super) fn convert(to: &str, value: &Value) -> Evaluated {
    let fails = || {
        let name = |name| match name {
            "duration" => "google.protobuf.Duration",
            "timestamp" => "google.protobuf.Timestamp",
            other => other,
        };
        Err(format!("type conversion error from '{}' to '{}'", value.type_name(), name(to)))
    };
    let overflow = || "integer overflow".to_owned();
    Ok(match (to, value) {
        ("bool", Value::Bool(_))
        | ("bytes", Value::Bytes(_))
        | ("double", Value::Double(_))
        | ("duration", Value::Duration(_))
        | ("int", Value::Int(_))
        | ("string", Value::String(_))
        | ("timestamp", Value::Timestamp(_))
        | ("uint", Value::Uint(_)) => value.clone(),
        ("bool", Value::String(text)) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Value::Bool(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Value::Bool(false),
            _ => return fails(),
        },
        ("bytes", Value::String(text)) => Value::Bytes(text.as_bytes().into()),
        ("double", Value::Int(number)) => Value::Double(*number as f64),
        ("double", Value::Uint(number)) => Value::Double(*number as f64),
        ("double", Value::String(text)) => match float(text) {
            Some(number) => Value::Double(number),
            None => return fails(),
        },
        ("duration", Value::Int(nanos)) => Value::Duration(*nanos),
        ("duration", Value::String(text)) => match time::duration(text) {
            Some(nanos) => Value::Duration(nanos),
            None => return fails(),
        },
        ("int", Value::Double(number)) => {
            // The last float before the end of the range is not in it for cel-go.
            let fits = *number > i64::MIN as f64 && *number < i64::MAX as f64;
            Value::Int(fits.then_some(*number as i64).ok_or_else(overflow)?)
        }
        ("int", Value::Duration(nanos)) => Value::Int(*nanos),
        ("int", Value::String(text)) => match text.parse() {
            Ok(number) => Value::Int(number),
            Err(_) => return fails(),
        },
        ("int", Value::Timestamp(time)) => Value::Int(time.seconds()),
        ("int", Value::Uint(number)) => Value::Int(i64::try_from(*number).map_err(|_| overflow())?),
        ("uint", Value::Double(number)) => {
            let fits = *number >= 0.0 && *number < u64::MAX as f64;
            Value::Uint(fits.then_some(*number as u64).ok_or("unsigned integer overflow")?)
        }
        ("uint", Value::Int(number)) => Value::Uint(u64::try_from(*number).map_err(|_| "unsigned integer overflow")?),
        ("uint", Value::String(text)) => match text.parse() {
            Ok(number) if !text.starts_with('+') => Value::Uint(number),
            _ => return fails(),
        },
        ("timestamp", Value::Int(seconds)) => Value::Timestamp(Time::from_seconds(*seconds)?),
        ("timestamp", Value::String(text)) => match Time::parse(text) {
            Some(time) => Value::Timestamp(time?),
            None => return fails(),
        },
        ("string", Value::Bool(flag)) => flag.to_string().into(),
        ("string", Value::Int(number)) => number.to_string().into(),
        ("string", Value::Uint(number)) => number.to_string().into(),
        ("string", Value::Double(number)) => double(*number).into(),
        ("string", Value::Duration(nanos)) => duration(*nanos).into(),
        ("string", Value::Timestamp(time)) => time.written().into(),
        ("string", Value::Bytes(data)) => match std::str::from_utf8(data) {
            Ok(text) => text.into(),
            Err(_) => return Err("invalid UTF-8 in bytes, cannot convert to string".to_owned()),
        },
        ("string", other) => return net::call("string", std::slice::from_ref(other)),
        _ => return fails(),
    })
}

/// Reads a float as Go does, which takes names, hexadecimal digits and, in literals of its own, underscores.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    if matches!(unsigned.as_str(), "inf" | "infinity" | "nan") {
        return (unsigned != "nan" || unsigned.len() == text.len()).then(|| text.to_ascii_lowercase().parse().ok())?;
    }
    let plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'+' | b'-');
    let number: f64 = unsigned.bytes().all(plain).then(|| text.parse().ok())??;
    number.is_finite().then_some(number)
}
