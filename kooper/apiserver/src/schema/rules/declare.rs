//! The types and sizes that a schema declares for its rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cel::{self, Extent, Struct, Type};

/// The type of values of a schema, and the sizes that they may have.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) of: Type,
    pub(super) extent: Extent,
}

/// The longest JSON of a duration or a time, and the length of that of a date.
const LONGEST_TIME: u64 = 32;
const DATE: u64 = 12;

/// The values of a schema; `root` means whole objects. `None` where rules cannot read such values.
pub(super) fn declare(schema: &Value, root: bool) -> Option<Declared> {
    typed(schema, root, "selfType")
}

fn typed(schema: &Value, root: bool, name: &str) -> Option<Declared> {
    let limit = |key: &str| schema[key].as_i64().map(|most| u64::try_from(most).unwrap_or(0));
    // A character has up to four bytes.
    let longest = || limit("maxLength").map(|most| most.saturating_mul(4));
    if schema["x-kubernetes-int-or-string"] == true {
        return Some(Declared { of: Type::Dyn, extent: Extent::int_or_string(longest()) });
    }
    let below = |schema: &Value, name: &str| typed(schema, schema["x-kubernetes-embedded-resource"] == true, name);
    let others = schema.get("additionalProperties").filter(|others| others.is_object());
    let (of, extent) = match schema["type"].as_str()? {
        "array" => {
            let items = below(schema.get("items")?, &format!("{name}.@idx"))?;
            (Type::list(items.of), Extent::list(items.extent, limit("maxItems")))
        }
        "object" if others.is_some() => {
            let values = below(others?, &format!("{name}.@elem"))?;
            (Type::map(Type::String, values.of), Extent::map(values.extent, limit("maxProperties")))
        }
        "object" => {
            let (mut types, mut extents, mut shortest) = (BTreeMap::new(), BTreeMap::new(), 2);
            let required =
                |key: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == key));
            for (key, schema) in with_meta(schema, root).as_object().into_iter().flatten() {
                let Some(Declared { of, extent }) = below(schema, &format!("{name}.{key}")) else { continue };
                if required(key) && schema["default"].is_null() {
                    shortest += key.len() as u64 + extent.shortest + 4;
                }
                if let Some(key) = escaped(key) {
                    types.insert(key.clone(), of);
                    extents.insert(key, extent);
                }
            }
            let of = Type::Struct(Arc::new(Struct { name: name.to_owned(), fields: types }));
            (of, Extent::object(extents, shortest))
        }
        "string" => match schema["format"].as_str() {
            Some("byte") => (Type::Bytes, Extent::text(limit("maxLength"))),
            Some("duration") => (Type::Duration, Extent::plain(LONGEST_TIME, 3)),
            Some("date") => (Type::Timestamp, Extent::plain(DATE, DATE)),
            Some("date-time") => (Type::Timestamp, Extent::plain(LONGEST_TIME, 21)),
            _ => {
                let texts = || schema["enum"].as_array().filter(|all| !all.is_empty());
                let named = || texts().map(|all| all.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0));
                let longest = longest().or_else(|| named().map(|most| most as u64));
                (Type::String, Extent::text(longest))
            }
        },
        "boolean" => (Type::Bool, Extent::plain(0, 4)),
        "number" => (Type::Double, Extent::plain(0, 1)),
        "integer" => (Type::Int, Extent::plain(0, 1)),
        _ => return None,
    };
    Some(Declared { of, extent })
}

/// The properties of an object. A whole one has those that all kinds have, with their own limits only if it declares
/// all of them.
pub(super) fn with_meta(schema: &Value, root: bool) -> Value {
    let mut properties = schema["properties"].clone();
    let is_text = |pointer: &str| schema["properties"].pointer(pointer).is_some_and(|of| of["type"] == "string");
    let declared = ["/kind", "/apiVersion", "/metadata/properties/name", "/metadata/properties/generateName"];
    if root && !declared.into_iter().all(is_text) {
        let text = json!({"type": "string"});
        properties["kind"] = text.clone();
        properties["apiVersion"] = text.clone();
        properties["metadata"] = json!({"type": "object", "properties": {"name": text, "generateName": text}});
    }
    properties
}

/// The name of a field in expressions; `None` where it has none.
pub(super) fn escaped(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|char: char| char.is_ascii_digit()) {
        return None;
    }
    if cel::is_keyword(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::new();
    let mut rest = name;
    while let Some(char) = rest.chars().next() {
        let length = if rest.starts_with("__") { 2 } else { char.len_utf8() };
        match char {
            '_' if length == 2 => escaped.push_str("__underscores__"),
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            '_' => escaped.push('_'),
            char if char.is_ascii_alphanumeric() => escaped.push(char),
            _ => return None,
        }
        rest = &rest[length..];
    }
    Some(escaped)
}
