//! The rules of lists and maps in a structural schema: what makes their items the same.

use serde_json::Value;

use crate::cause::Cause;

/// The rules of a schema's `x-kubernetes-list-type`, `-list-map-keys` and `-map-type` that it violates.
pub(super) fn check(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let text = |key: &str| schema[key].as_str().unwrap_or_default();
    let below = |key: &str| format!("{path}.{key}");
    for (key, of, known) in [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"]),
    ] {
        if !schema[key].is_string() {
            continue;
        }
        if text("type") != of {
            let why = format!("must be {of} if {key} is specified");
            causes.push(match text("type") {
                "" => Cause::required(below("type"), why),
                _ => Cause::invalid(below("type"), &schema["type"], why),
            });
        } else if text(key) == "set" {
            causes.extend(atomic(&below("items"), &schema["items"]));
        }
        if !known.contains(&text(key)) {
            causes.push(Cause::not_supported(below(key), &schema[key].to_string(), known));
        }
    }
    let keys = &schema["x-kubernetes-list-map-keys"];
    let names: Vec<&str> = keys.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let list = text("x-kubernetes-list-type");
    if !names.is_empty() && list != "map" {
        let (field, why) = (below("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty");
        causes.push(match list {
            "" => Cause::required(field, why),
            _ => Cause::invalid(field, &list.into(), why),
        });
    }
    let item = &schema["items"];
    if list == "map" {
        keyed(path, keys, &names, item, causes);
    }
    if matches!(list, "set" | "map") && item["nullable"] == true {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list}");
        causes.push(Cause::forbidden(below("items.nullable"), why));
    }
}

/// The rule of the items of a set, which are compared as a whole.
fn atomic(path: &str, item: &Value) -> Option<Cause> {
    let list = &item["x-kubernetes-list-type"];
    let (key, is_atomic) = match item["type"].as_str() {
        Some("array") => ("x-kubernetes-list-type", list.is_null() || list == "atomic"),
        Some("object") => ("x-kubernetes-map-type", item["x-kubernetes-map-type"] == "atomic"),
        _ => return None,
    };
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    // The real server shows the type of lists for objects, too.
    (!is_atomic).then(|| Cause::invalid(format!("{path}.{key}"), list, why))
}

/// The rules of a list whose items have keys.
fn keyed(path: &str, keys: &Value, names: &[&str], item: &Value, causes: &mut Vec<Cause>) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    if names.is_empty() {
        causes.push(Cause::required(format!("{path}.{KEYS}"), "must not be empty if x-kubernetes-list-type is map"));
    }
    if !item.is_object() {
        let why = "must have a schema if x-kubernetes-list-type is map";
        causes.push(Cause::required(format!("{path}.items"), why));
        return;
    }
    if item["type"] != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        let found = item["type"].as_str().unwrap_or_default();
        causes.push(Cause::invalid(format!("{path}.items.type"), &found.into(), why));
    }
    for (index, name) in names.iter().enumerate() {
        let at = format!("{path}.items.properties[{name}]");
        let is_object = item["type"] == "object";
        match item["properties"].get(*name) {
            None if is_object => {
                let why = "entries must all be names of item properties";
                causes.push(Cause::invalid(format!("{path}.{KEYS}"), keys, why));
            }
            None => {}
            Some(key) => {
                if is_object && matches!(key["type"].as_str(), Some("array" | "object")) {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    causes.push(Cause::invalid(format!("{at}.type"), &item["type"], why));
                }
                let required = item["required"].as_array().is_some_and(|all| all.iter().any(|other| other == name));
                if !required && key.get("default").is_none() {
                    let why =
                        format!("this property is in {KEYS}, so it must have a default or be a required property");
                    causes.push(Cause::required(format!("{at}.default"), why));
                }
                if key["nullable"] == true {
                    let why = format!("this property is in {KEYS}, so it cannot be nullable");
                    causes.push(Cause::forbidden(format!("{at}.nullable"), why));
                }
            }
        }
        if is_object && names[..index].contains(name) {
            causes.push(Cause::invalid(format!("{path}.{KEYS}"), keys, "must not contain duplicate entries"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Cause, check};

    #[test]
    fn the_items_of_a_set_are_compared_as_a_whole() {
        let mistakes = |items: Value| {
            let mut causes = Vec::new();
            check(&json!({"type": "array", "x-kubernetes-list-type": "set", "items": items}), "s", &mut causes);
            causes.iter().map(Cause::text).collect::<Vec<_>>()
        };
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let of_objects = format!("s.items.x-kubernetes-map-type: Invalid value: null: {why}");
        assert_eq!(mistakes(json!({"type": "object"})), [of_objects]);
        let of_sets = format!("s.items.x-kubernetes-list-type: Invalid value: \"set\": {why}");
        assert_eq!(mistakes(json!({"type": "array", "x-kubernetes-list-type": "set"})), [of_sets]);
        for items in [
            json!({"type": "string"}),
            json!({"type": "array"}),
            json!({"type": "object", "x-kubernetes-map-type": "atomic"}),
        ] {
            assert_eq!(mistakes(items), [""; 0]);
        }
    }
}
