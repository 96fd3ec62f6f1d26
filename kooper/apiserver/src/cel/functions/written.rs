//! Numbers and durations as Go writes them.

use crate::cel::time::in_seconds;

/// A float as `%g` of Go writes it.
pub(super) fn double(number: f64) -> String {
    if !number.is_finite() {
        return not_finite(number).to_owned();
    }
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}

pub(super) fn not_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    }
}

/// A duration as CEL writes it: in seconds.
pub(super) fn duration(nanos: i64) -> String {
    format!("{}s", in_seconds(nanos))
}
