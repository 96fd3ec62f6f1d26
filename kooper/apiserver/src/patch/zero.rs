//! Objects before they have any field.

use serde_json::{Map, Value};

use super::schema::{Node, Schema};

/// What an object without any field is encoded as: fields that the real
/// server's types don't omit are there, with nothing in them. What a create
/// adds is the difference to it.
///
/// OpenAPI publishes such a field with a default of nothing (`{}`, `""`, `0`,
/// `false`), or as required where its nothing is `null`. Optional fields that
/// aren't omitted are published nowhere: `rules` of roles, `endpoints` and
/// `ports` of EndpointSlices and a few more lack their `null`. They are lists
/// that are replaced as a whole, so that owners come out the same.
///
/// Custom resources have nothing added: for them, use [`empty`].
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
