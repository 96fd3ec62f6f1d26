//! Numbers by their type and format: which values they can hold.

use serde_json::Value;

use crate::crd::integers::bounds;

/// The bits of an integer, and whether it has a sign.
fn width(format: &str) -> Option<(bool, u32)> {
    let (signed, bits) = match format.strip_prefix("uint") {
        Some(bits) => (false, bits),
        None => (true, format.strip_prefix("int")?),
    };
    let bits = if bits.is_empty() { 64 } else { bits.parse().ok()? };
    Some((signed, bits))
}

/// Returns `true` if the limit is the bound of the integer format of the schema.
pub(super) fn is_bound(schema: &Value, limit: &str, is: f64) -> bool {
    let (least, most) = schema["format"].as_str().map(bounds).unwrap_or_default();
    match limit {
        "minimum" => least == Some(is),
        "maximum" => most == Some(is),
        _ => false,
    }
}

/// Returns `true` if the new number format includes every value of the old one.
pub(super) fn widens(old: &Value, new: &Value) -> bool {
    let Some(is) = new["format"].as_str() else { return true };
    let Some(was) = old["format"].as_str() else {
        // A width only documents the type that the number had before.
        return matches!(is, "int64" | "double");
    };
    match (width(was), width(is)) {
        (Some((signed, bits)), Some((true, wide))) => wide > bits || (signed && wide == bits),
        (Some((signed, bits)), Some((false, wide))) => !signed && wide >= bits,
        // A floating-point number holds integers, too.
        (Some(_), None) => new["type"] == "number" && matches!(is, "float" | "double"),
        _ => was == is || (was, is) == ("float", "double"),
    }
}
