//! Pruning: fields that a structural schema does not know are dropped, and nulls that stand for nothing.

use serde_json::Value;

/// Drops unknown fields and returns their paths, sorted.
pub(super) fn prune(object: &mut Value, schema: &Value) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(object, Some(schema), "", false, &mut dropped);
    dropped.sort();
    dropped
}

/// Without a schema, values are kept and lose all their fields; `preserved` is what a list tells its items.
fn walk(value: &mut Value, schema: Option<&Value>, path: &str, preserved: bool, dropped: &mut Vec<String>) {
    let schema = match schema.and_then(super::referred) {
        // A type of which no fields are published can hold anything.
        Some(schema) if schema.get("properties").is_none() && schema.get("additionalProperties").is_none() => return,
        Some(schema) => Some(schema),
        None => schema,
    };
    let below = |key: &str| schema.and_then(|schema| schema.get(key));
    let has = |flag: &str| below(flag).is_some_and(|value| value == true);
    // Within a preserving schema only what is specified below is looked at.
    let preserved = preserved || has("x-kubernetes-preserve-unknown-fields");
    match value {
        Value::Object(entries) => {
            let resource = path.is_empty() || has("x-kubernetes-embedded-resource");
            entries.retain(|key, value| {
                if resource && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let property = below("properties").and_then(|properties| properties.get(key));
                match (property, below("additionalProperties")) {
                    (Some(schema), _) => walk(value, Some(schema), &path, false, dropped),
                    // Just `true` allows any value, but is no schema of one.
                    (None, Some(other)) => {
                        walk(value, Some(other).filter(|other| other.is_object()), &path, false, dropped);
                    }
                    _ if preserved => {}
                    _ => {
                        dropped.push(path);
                        return false;
                    }
                }
                true
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, below("items"), &format!("{path}[{index}]"), preserved, dropped);
            }
        }
        _ => {}
    }
}

/// Drops the members that are null without being allowed to; where there is a default, they stand for it.
pub(super) fn drop_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(entries) => entries.retain(|key, value| {
            let others = || schema.get("additionalProperties").filter(|schema| schema.is_object());
            let Some(schema) = schema["properties"].get(key).or_else(others) else { return true };
            let empty = value.is_null() && schema["nullable"] != true && schema["default"].is_null();
            drop_nulls(value, schema);
            !empty
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls(item, &schema["items"])),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::prune;

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {}}}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"known": {"type": "object", "properties": {}}}},
            }},
        }});
        let mut object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}, "bogus": 1, "spec": {
            "list": [{"a": "1"}, {"b": "2"}], "map": {"k": {"a": 1, "z": 2}}, "any": {"free": 1, "known": {"not": 1}}, "no": {},
        }});
        let dropped = prune(&mut object, &schema);
        assert_eq!(dropped, ["bogus", "spec.any.known.not", "spec.list[1].b", "spec.map.k.z", "spec.no"]);
        assert_eq!(
            object["spec"],
            json!({"list": [{"a": "1"}, {}], "map": {"k": {"a": 1}}, "any": {"free": 1, "known": {}}})
        );
        assert_eq!(object["metadata"]["name"], "x");
    }
}
