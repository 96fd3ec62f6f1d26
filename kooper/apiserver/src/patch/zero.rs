//! Objects before they have any field.

use serde_json::{Map, Value};

use super::schema::{Node, Schema};

/// Returns the encoding of an object without any field. Fields that the real
/// server's types don't omit are present with zero values. The fields that a
/// create adds are the difference to this object.
///
/// OpenAPI publishes such a field with a zero value as its default (`{}`, `""`,
/// `0`, `false`), or as required if its zero value is `null`. It doesn't show
/// optional fields that aren't omitted: `rules` of roles, `endpoints` and
/// `ports` of EndpointSlices and a few more lack their `null`. These are lists
/// that are replaced as a whole, so their owners are the same.
///
/// Custom resources have no such fields: for them, use [`empty`].
#[must_use]
pub fn zero(schema: &Schema, api_version: &str, kind: &str) -> Value {
    let mut object = of_node(&schema.root(), 0);
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

/// An object with its kind alone.
#[must_use]
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::schema::Types;
    use super::*;

    #[test]
    fn fields_that_are_not_omitted_are_there_with_nothing_in_them() {
        let types = Types::new(|name| match name {
            "Kind" => Some(json!({"type": "object", "required": ["list", "selector"], "properties": {
                "spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}], "default": {}},
                "list": {"type": "array", "items": {"type": "string"}},
                "selector": {"allOf": [{"$ref": "#/components/schemas/Spec"}]},
                "optional": {"type": "string"},
                "protocol": {"type": "string", "default": "TCP"},
            }})),
            "Spec" => Some(json!({"type": "object", "properties": {"count": {"type": "integer", "default": 0}}})),
            _ => None,
        });
        let schema = Schema::named(&types, "Kind").expect("it is defined");
        let real = json!({"apiVersion": "v1", "kind": "Kind", "spec": {"count": 0}, "list": null, "selector": null});
        assert_eq!(zero(&schema, "v1", "Kind"), real);
    }
}
