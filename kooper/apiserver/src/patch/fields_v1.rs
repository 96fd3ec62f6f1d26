//! `fieldsV1`, the encoding of field sets in `metadata.managedFields`: an
//! object with a key for each step, `f:` field, `k:` keys, `v:` value,
//! `i:` index, and `.` for the field itself where parts of it follow.
//!
//! Source: "fieldsV1" in the API conventions and structured-merge-diff's
//! `fieldpath/serialize.go`.

use serde_json::{Map, Number, Value};

use super::fields::{Entry, FieldSet};
use super::format::html_escaped;
use super::literal::Literal;
use super::path::PathElement;

/// A field set as `fieldsV1`.
#[must_use]
pub fn encode(set: &FieldSet) -> Value {
    Value::Object(encode_below(set, false))
}

fn encode_below(set: &FieldSet, with_self: bool) -> Map<String, Value> {
    let itself = with_self.then(|| (".".to_owned(), Value::Object(Map::new())));
    let parts = set.entries().map(|(element, entry)| {
        let with_self = entry.member && !entry.below.is_empty();
        (encode_element(element), Value::Object(encode_below(&entry.below, with_self)))
    });
    itself.into_iter().chain(parts).collect()
}

fn encode_element(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Key(keys) => {
            let keys = keys.iter().map(|(name, Literal(value))| format!("{}:{}", Value::from(&**name), json(value)));
            format!("k:{{{}}}", keys.collect::<Vec<_>>().join(","))
        }
        PathElement::Value(Literal(value)) => format!("v:{}", json(value)),
        PathElement::Index(index) => format!("i:{index}"),
    }
}

/// JSON as the real server's encoder writes it, since clients compare keys as
/// strings: integral floats without a fraction, and `<`, `>` and `&` escaped.
fn json(value: &Value) -> String {
    match value {
        Value::Number(number) => json_number(number),
        Value::String(_) => html_escaped(&value.to_string()),
        other => other.to_string(),
    }
}

fn json_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float != 0.0 && !(1e-6..1e21).contains(&float.abs()) => {
            format!("{float:e}").replace('e', if float.abs() >= 1e21 { "e+" } else { "e" })
        }
        // Without an exponent, and without ".0".
        Some(float) if number.is_f64() => float.to_string(),
        _ => number.to_string(),
    }
}

/// Reads `fieldsV1`. Steps of unknown kinds are left out.
///
/// # Errors
///
/// A message if a step of a known kind can't be read.
pub fn decode(encoded: &Value) -> Result<FieldSet, String> {
    Ok(decode_entry(encoded)?.below)
}

/// Decodes the fields below a path element, and whether the element itself is a member.
fn decode_entry(encoded: &Value) -> Result<Entry, String> {
    let empty = Map::new();
    let map = match encoded {
        Value::Object(map) => map,
        Value::Null => &empty,
        _ => return Err("expected an object of fields".to_owned()),
    };
    let mut entry = Entry::default();
    for (key, value) in map {
        if key == "." {
            entry.member = true;
        } else if let Some(element) = decode_element(key)? {
            entry.below.put(element, decode_entry(value)?);
        }
    }
    entry.member |= entry.below.is_empty();
    Ok(entry)
}

fn decode_element(key: &str) -> Result<Option<PathElement>, String> {
    if key.len() < 2 {
        return Err("parsing key as path element: key must be 2 characters long:".to_owned());
    }
    let Some((kind, content)) = key.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
        return Err(format!("parsing key as path element: missing colon: {key}"));
    };
    let parsed = || serde_json::from_str::<Value>(content).map_err(|error| error.to_string());
    Ok(Some(match kind {
        "f" => PathElement::field(content),
        "v" => PathElement::Value(Literal(parsed()?)),
        "i" => PathElement::Index(content.parse().map_err(|_| format!("invalid index {content:?}"))?),
        "k" => match parsed()? {
            // The map is sorted by name.
            Value::Object(keys) => {
                PathElement::Key(keys.into_iter().map(|(name, value)| (name.into(), Literal(value))).collect())
            }
            other => return Err(format!("expected keys, got {other}")),
        },
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_that_cannot_be_read_are_errors_and_unknown_ones_are_left_out() {
        assert_eq!(decode(&json!({"x:a": {}})), Ok(FieldSet::new()));
        assert!(decode(&json!({"f": {}})).is_err_and(|error| error.contains("2 characters")));
        assert!(decode(&json!({"name": {}})).is_err_and(|error| error.contains("missing colon: name")));
        assert!(decode(&json!({"k:[]": {}})).is_err());
        assert!(decode(&json!({"i:x": {}})).is_err());
        assert!(decode(&json!([])).is_err());
    }

    #[test]
    fn values_are_written_as_the_real_server_writes_them() {
        let element = |value| encode_element(&PathElement::Value(Literal(value)));
        assert_eq!(element(json!("<&>")), r#"v:"\u003c\u0026\u003e""#);
        assert_eq!(element(json!(80.0)), "v:80");
        assert_eq!(element(json!(1e21)), "v:1e+21");
        assert_eq!(element(json!(true)), "v:true");
    }
}
