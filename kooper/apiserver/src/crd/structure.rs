//! The rules of the schemas of a definition, in the order of the real server: their structure, then their defaults,
//! then what else a schema may not have.

use serde_json::Value;

use super::lists;
use crate::cause::Cause;
use crate::schema;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The rules that the schema of a version violates.
pub(super) fn check(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut found = Vec::new();
    if schema.get("additionalProperties").is_some() {
        found.push(Cause::forbidden(format!("{path}.additionalProperties"), "must not be used at the root"));
    }
    check_structure(schema, path, &mut found);
    found.sort_by_key(Cause::text);
    if found.is_empty() {
        check_defaults(schema, path, &mut found);
    }
    causes.extend(found);
    check_members(schema, path, causes);
}

/// The schemas of the parts of a value, with their paths and what they are for.
fn parts<'a>(schema: &'a Value, path: &str) -> Vec<(String, &'a Value, &'static str)> {
    let others = schema.get("additionalProperties").filter(|below| below.is_object());
    let others = others.map(|below| (format!("{path}.additionalProperties"), below, "object fields"));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let properties = properties.map(|(name, below)| (format!("{path}.properties[{name}]"), below, "object fields"));
    let items = schema.get("items").map(|below| (format!("{path}.items"), below, "array items"));
    others.into_iter().chain(properties).chain(items).collect()
}

/// Every part has a type, and every list has items.
fn check_structure(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    if schema["type"] == "array" && schema.get("items").is_none() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    for (path, below, place) in parts(schema, path) {
        let any = below["x-kubernetes-int-or-string"] == true || below["x-kubernetes-preserve-unknown-fields"] == true;
        if !any && below["type"].as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(format!("{path}.type"), format!("must not be empty for specified {place}")));
        }
        check_structure(below, &path, causes);
    }
}

/// Every default is valid. The real server does not look below `additionalProperties`.
fn check_defaults(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    causes.extend(schema::default_mistakes(schema, path));
    if let Some(items) = schema.get("items") {
        check_defaults(items, &format!("{path}.items"), causes);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        check_defaults(below, &format!("{path}.properties[{name}]"), causes);
    }
}

/// The members of a schema that exclude each other, have a wrong value, or are not supported.
fn check_members(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let kind = schema["type"].as_str().unwrap_or_default();
    if !kind.is_empty() && !TYPES.contains(&kind) {
        causes.push(Cause::not_supported(format!("{path}.type"), &format!("{kind:?}"), &TYPES));
    }
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(format!("{path}.uniqueItems"), why));
    }
    let others = schema.get("additionalProperties").filter(|others| **others != true);
    if others.is_some() && schema["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
        let why = "additionalProperties and properties are mutual exclusive";
        causes.push(Cause::forbidden(format!("{path}.additionalProperties"), why));
    }
    for (path, below, _) in parts(schema, path) {
        check_members(below, &path, causes);
    }
    lists::check(schema, path, causes);
}
