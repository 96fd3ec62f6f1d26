//! Pruning: fields that a structural schema does not know are dropped.

use serde_json::Value;

/// Drops unknown fields and returns their paths, sorted.
pub(super) fn prune(object: &mut Value, schema: &Value) -> Vec<String> {
    let mut dropped = Vec::new();
    members(object, schema, "", true, false, &mut dropped);
    dropped.sort();
    dropped
}

fn walk(value: &mut Value, schema: &Value, path: &str, preserved: bool, dropped: &mut Vec<String>) {
    let schema = match super::referred(schema) {
        // A type of which no fields are published can hold anything.
        Some(schema) if schema.get("properties").is_none() && schema.get("additionalProperties").is_none() => return,
        Some(schema) => schema,
        None => schema,
    };
    match value {
        Value::Object(_) => {
            let embedded = schema["x-kubernetes-embedded-resource"] == true;
            members(value, schema, path, embedded, preserved, dropped);
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, &schema["items"], &format!("{path}[{index}]"), preserved, dropped);
            }
        }
        _ => {}
    }
}

fn members(value: &mut Value, schema: &Value, path: &str, resource: bool, preserved: bool, dropped: &mut Vec<String>) {
    let Value::Object(entries) = value else { return };
    // Within a preserving schema only what is specified below is looked at.
    let preserved = schema["x-kubernetes-preserve-unknown-fields"] == true
        || preserved && schema.get("properties").is_none() && schema.get("additionalProperties").is_none();
    let properties = schema["properties"].as_object();
    let additional = schema.get("additionalProperties");
    entries.retain(|key, value| {
        if resource && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
            return true;
        }
        let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (properties.and_then(|properties| properties.get(key)), additional) {
            (Some(schema), _) => walk(value, schema, &below, false, dropped),
            (None, Some(schema)) if schema != false => {
                if schema.is_object() {
                    walk(value, schema, &below, false, dropped);
                }
            }
            _ if preserved => {}
            _ => {
                dropped.push(below);
                return false;
            }
        }
        true
    });
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
