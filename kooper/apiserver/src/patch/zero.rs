//! Objects before they have any field.

use serde_json::{Map, Value};

use super::schema::{Node, Schema};

/// What an object without any field is encoded as: fields that the real
/// server's types don't omit are there, with nothing in them. What a create
/// adds is told by the difference to it.
///
/// OpenAPI publishes such a field with a default of nothing (`{}`, `""`, `0`,
/// `false`), or as required where its nothing is `null`. For custom resources,
/// of which nothing is added, use [`empty`].
pub fn zero(schema: &Schema, api_version: &str, kind: &str) -> Value {
    let mut object = of_node(&schema.root(), 0);
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

/// An object with its kind alone.
pub fn empty(api_version: &str, kind: &str) -> Value {
    serde_json::json!({"apiVersion": api_version, "kind": kind})
}

fn of_node(node: &Node<'_>, depth: usize) -> Value {
    let mut object = Map::new();
    // Types that contain themselves without being optional don't exist.
    let Some(map) = node.map().filter(|_| depth < 32) else { return Value::Object(object) };
    for (name, field) in &map.fields {
        let value = match &field.default {
            Some(Value::Object(default)) if default.is_empty() => {
                node.child(name).map(|child| of_node(&child, depth + 1)).unwrap_or_default()
            }
            Some(default) if is_nothing(default) => default.clone(),
            None if field.required => Value::Null,
            _ => continue,
        };
        object.insert(name.to_string(), value);
    }
    Value::Object(object)
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
