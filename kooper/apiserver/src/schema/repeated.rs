//! The items that lists of a custom object have twice, where their schema forbids that.

use serde_json::{Map, Value};

use super::validate::keys;
use crate::cause::Cause;

/// The causes to reject an object because of them.
pub(super) fn check(object: &Value, schema: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    find(object, schema, "", &mut causes);
    causes
}

fn find(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let (schema, path) = match (schema["properties"].get(key), schema.get("additionalProperties")) {
                    (Some(schema), _) if path.is_empty() => (schema, key.clone()),
                    (Some(schema), _) => (schema, format!("{path}.{key}")),
                    (None, Some(others)) => (others, format!("{path}[{key}]")),
                    (None, None) => continue,
                };
                find(value, schema, &path, causes);
            }
        }
        Value::Array(items) => {
            let keys = keys(schema);
            if !keys.is_empty() {
                match items.iter().position(|item| !item.is_object() && !item.is_null()) {
                    Some(index) => {
                        let why = "must be an object for an array of list-type map";
                        causes.push(Cause::invalid(format!("{path}[{index}]"), &items[index], why));
                    }
                    None => compare(&items.iter().map(|item| key_of(item, &keys)).collect::<Vec<_>>(), path, causes),
                }
            } else if schema["x-kubernetes-list-type"] == "set" {
                compare(items, path, causes);
            }
            for (index, item) in items.iter().enumerate() {
                find(item, &schema["items"], &format!("{path}[{index}]"), causes);
            }
        }
        _ => {}
    }
}

/// The members of an item that identify it.
fn key_of(item: &Value, keys: &[&str]) -> Value {
    let members = keys.iter().filter_map(|key| Some(((*key).to_owned(), item.get(key)?.clone())));
    Value::Object(members.collect::<Map<_, _>>())
}

/// Reports what occurs again, once.
fn compare(all: &[Value], path: &str, causes: &mut Vec<Cause>) {
    for (index, one) in all.iter().enumerate() {
        if all[..index].iter().filter(|other| *other == one).count() == 1 {
            causes.push(Cause::duplicate(format!("{path}[{index}]"), one));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Cause, check};

    #[test]
    fn an_item_that_a_list_has_again_is_reported_once() {
        let map = |keys: &[&str]| {
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
                   "items": {"type": "object"}})
        };
        let set = json!({"type": "array", "x-kubernetes-list-type": "set"});
        let schema = json!({"properties": {
            "sets": {"additionalProperties": set},
            "named": map(&["name"]),
            "ports": map(&["port", "protocol"]),
            "wrong": map(&["name"]),
        }});
        let object = json!({
            "sets": {"a": ["x", "y", "x", "x"]},
            "named": [{"name": "a"}, {"name": "a", "size": 1}, {}, {}],
            "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}, {"port": 1}],
            "wrong": [1, 1],
        });
        let found: Vec<_> = check(&object, &schema).iter().map(Cause::text).collect();
        let expected = [
            "named[1]: Duplicate value: {\"name\":\"a\"}",
            "named[3]: Duplicate value: {}",
            "ports[2]: Duplicate value: {\"port\":1}",
            "sets[a][2]: Duplicate value: \"x\"",
            "wrong[0]: Invalid value: 1: must be an object for an array of list-type map",
        ];
        assert_eq!(found, expected);
    }
}
