//! Defaulting: absent fields get the defaults of a structural schema.

use serde_json::Value;

/// Returns whether any part of a schema has a default.
pub(super) fn has_any(schema: &Value) -> bool {
    let below = |key: &str| schema[key].as_object().into_iter().flatten().any(|(_, schema)| has_any(schema));
    schema.get("default").is_some()
        || below("properties")
        || schema.get("items").is_some_and(has_any)
        || schema.get("additionalProperties").is_some_and(has_any)
}

/// Fills in the defaults, from the outside in.
pub(super) fn fill(value: &mut Value, schema: &Value) {
    let schema = super::resolved(schema);
    match value {
        Value::Object(entries) => {
            for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(default) = schema.get("default") {
                    let absent = match entries.get(key) {
                        None => true,
                        // A null stands for the default where it is not a value of its own.
                        Some(Value::Null) => schema["nullable"] != true,
                        Some(_) => false,
                    };
                    if absent {
                        entries.insert(key.clone(), default.clone());
                    }
                }
                if let Some(value) = entries.get_mut(key) {
                    fill(value, schema);
                }
            }
            let properties = &schema["properties"];
            if let Some(schema) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
                let others = entries.iter_mut().filter(|(key, _)| properties.get(key.as_str()).is_none());
                for (_, value) in others {
                    fill_null(value, schema);
                    fill(value, schema);
                }
            }
        }
        Value::Array(items) => {
            let schema = &schema["items"];
            for item in items {
                fill_null(item, schema);
                fill(item, schema);
            }
        }
        _ => {}
    }
}

/// A null stands for the default where it is not a value of its own.
fn fill_null(value: &mut Value, schema: &Value) {
    if value.is_null()
        && schema["nullable"] != true
        && let Some(default) = schema.get("default")
    {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{fill, has_any};

    #[test]
    fn defaults_are_filled_in_below_defaults() {
        let schema = json!({"properties": {"spec": {"default": {}, "properties": {
            "size": {"default": "small"},
            "null": {"default": 1, "nullable": true},
            "set": {"default": 1},
            "items": {"items": {"properties": {"a": {"default": 7}}}},
            "nulls": {"items": {"default": "d"}},
            "map": {"additionalProperties": {"properties": {"b": {"default": 8}}}},
        }}}});
        assert!(has_any(&schema));
        let mut object = json!({});
        fill(&mut object, &schema);
        assert_eq!(object, json!({"spec": {"size": "small", "null": 1, "set": 1}}));
        let mut object =
            json!({"spec": {"null": null, "set": null, "items": [{}], "nulls": [null, "e"], "map": {"x": {}}}});
        fill(&mut object, &schema);
        let filled = json!({
            "size": "small", "null": null, "set": 1, "items": [{"a": 7}], "nulls": ["d", "e"], "map": {"x": {"b": 8}},
        });
        assert_eq!(object["spec"], filled);
    }
}
