//! Objects as the values that rules read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::declare::{escaped, with_meta};
use crate::cel::{self, Key, List, ListKind, Time};

fn invalid(why: impl Into<String>) -> cel::Value {
    cel::Value::Invalid(why.into().into())
}

/// The value of a schema; `root` is a whole object.
pub(super) fn data(value: &Value, schema: &Value, root: bool) -> cel::Value {
    match value {
        Value::Null if schema["nullable"] == true => return cel::Value::Null,
        Value::Null => return invalid("invalid data, got null for schema with nullable=false"),
        _ => {}
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return match value {
            Value::String(text) => text.as_str().into(),
            _ => value.as_i64().map_or_else(
                || invalid("invalid data, expected XIntOrString value to be either a string or integer"),
                cel::Value::Int,
            ),
        };
    }
    match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(entries)) => object(entries, schema, root),
        (Some("array"), Value::Array(items)) => list(items, schema),
        (Some("string"), Value::String(text)) => string(text, schema),
        (Some("boolean"), Value::Bool(flag)) => cel::Value::Bool(*flag),
        (Some("number"), Value::Number(number)) => cel::Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        (Some("integer"), Value::Number(number)) => {
            number.as_i64().map_or_else(|| invalid("invalid data, expected int, got float64"), cel::Value::Int)
        }
        (None, value) if schema["x-kubernetes-preserve-unknown-fields"] == true => preserved(value),
        (kind, _) => invalid(format!("invalid data, expected {}", kind.unwrap_or("a type"))),
    }
}

fn preserved(value: &Value) -> cel::Value {
    cel::Value::Preserved(Arc::new(value.clone()))
}

fn object(entries: &serde_json::Map<String, Value>, schema: &Value, root: bool) -> cel::Value {
    let properties = with_meta(schema, root);
    let others = schema.get("additionalProperties").filter(|others| others.is_object());
    let mut map = BTreeMap::new();
    for (name, value) in entries {
        let embedded = |schema: &Value| schema["x-kubernetes-embedded-resource"] == true;
        match (properties.get(name), others) {
            // A field that is null is not there.
            (Some(_), _) if value.is_null() => {}
            (Some(schema), _) => {
                if let Some(name) = escaped(name) {
                    map.insert(Key::String(name.into()), data(value, schema, embedded(schema)));
                }
            }
            (None, Some(schema)) if !properties.is_object() => {
                map.insert(Key::String(name.as_str().into()), data(value, schema, embedded(schema)));
            }
            // It counts where two objects are compared, and no expression can name it.
            _ => {
                map.insert(Key::String(format!("\0{name}").into()), preserved(value));
            }
        }
    }
    cel::Value::Map(Arc::new(map))
}

fn list(items: &[Value], schema: &Value) -> cel::Value {
    let of_items = &schema["items"];
    let root = of_items["x-kubernetes-embedded-resource"] == true;
    let kind = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            ListKind::Map(keys.filter_map(Value::as_str).filter_map(escaped).collect())
        }
        _ => ListKind::Atomic,
    };
    let items = items.iter().map(|item| data(item, of_items, root)).collect();
    cel::Value::List(Arc::new(List { items, kind }))
}

fn string(text: &str, schema: &Value) -> cel::Value {
    match schema["format"].as_str() {
        Some("duration") => cel::duration(text).map_or_else(
            || invalid(format!("Invalid duration {text}: unable to parse {text:?} as duration")),
            cel::Value::Duration,
        ),
        Some("date") => Time::of_date(text)
            .map_or_else(|| invalid(format!("Invalid date formatted string {text}")), cel::Value::Timestamp),
        Some("date-time") => match Time::parse(text) {
            Some(Ok(time)) => cel::Value::Timestamp(time),
            _ => invalid(format!("Invalid date-time formatted string {text}")),
        },
        Some("byte") => cel::bytes(text).map_or_else(
            || invalid(format!("Invalid byte formatted string {text}")),
            |data| cel::Value::Bytes(data.into()),
        ),
        _ => text.into(),
    }
}
