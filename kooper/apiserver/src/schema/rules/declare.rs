//! The types that a schema declares for its rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cel::{self, Struct, Type};

/// The type of values of a schema; `root` is that of a whole object. `None` where rules cannot read such values.
pub(super) fn declare(schema: &Value, root: bool) -> Option<Type> {
    typed(schema, root, "selfType")
}

fn typed(schema: &Value, root: bool, name: &str) -> Option<Type> {
    if schema["x-kubernetes-int-or-string"] == true {
        return Some(Type::Dyn);
    }
    let below = |schema: &Value, name: &str| typed(schema, schema["x-kubernetes-embedded-resource"] == true, name);
    let others = schema.get("additionalProperties").filter(|others| others.is_object());
    Some(match schema["type"].as_str()? {
        "array" => Type::list(below(schema.get("items")?, &format!("{name}.@idx"))?),
        "object" if others.is_some() => Type::map(Type::String, below(others?, &format!("{name}.@elem"))?),
        "object" => {
            let mut fields = BTreeMap::new();
            for (key, schema) in with_meta(schema, root).as_object().into_iter().flatten() {
                let of = below(schema, &format!("{name}.{key}"));
                fields.extend(escaped(key).zip(of));
            }
            Type::Struct(Arc::new(Struct { name: name.to_owned(), fields }))
        }
        "string" => match schema["format"].as_str() {
            Some("byte") => Type::Bytes,
            Some("duration") => Type::Duration,
            Some("date" | "date-time") => Type::Timestamp,
            _ => Type::String,
        },
        "boolean" => Type::Bool,
        "number" => Type::Double,
        "integer" => Type::Int,
        _ => return None,
    })
}

/// The properties of an object; a whole one has those that all kinds have.
pub(super) fn with_meta(schema: &Value, root: bool) -> Value {
    let mut properties = schema["properties"].clone();
    if root {
        let text = json!({"type": "string"});
        properties["kind"] = text.clone();
        properties["apiVersion"] = text.clone();
        let known = &properties["metadata"]["properties"];
        if known["name"]["type"] != "string" || known["generateName"]["type"] != "string" {
            properties["metadata"] = json!({"type": "object", "properties": {"name": text, "generateName": text}});
        }
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
