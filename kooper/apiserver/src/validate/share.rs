//! A count, or a share in percent.

use serde_json::Value;

use super::field_value::FieldValue;

/// A count that is not negative, or a percentage.
pub(crate) fn count_or_percent(at: &FieldValue<'_>) {
    let Value::String(text) = at.value else { return at.not_negative() };
    let digits = text.strip_suffix('%').unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        at.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used \
             for validation is '[0-9]+%')",
        );
    }
}

/// A share that is not more than all.
pub(crate) fn at_most_all(at: &FieldValue<'_>) {
    at.invalid_if(at.value.is_string() && amount(at) > 100, "must not be greater than 100%");
}

/// The number of a count or a percentage.
pub(crate) fn amount(at: &FieldValue<'_>) -> i64 {
    match at.value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        value => value.as_i64().unwrap_or(0),
    }
}
