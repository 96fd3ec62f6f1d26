//! The rules of the schemas of a definition, in the order of the real server: their structure, then their defaults,
//! then what else a schema may not have.

use serde_json::Value;

use super::{lists, nested};
use crate::cause::Cause;
use crate::schema;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The members that the real server decodes, and rejects.
const UNSUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

const PRESERVING: &str = "x-kubernetes-preserve-unknown-fields";

/// The rules that the schema of a version violates.
pub(super) fn check(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    if schema["nullable"] == true {
        causes.push(Cause::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    // A schema with these is not examined any further by the real server, either.
    if !has_unsupported(schema) {
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
    }
    check_members(schema, path, causes);
}

/// The members of a schema that are not supported.
fn unsupported(schema: &Value) -> impl Iterator<Item = &'static str> {
    UNSUPPORTED.into_iter().filter(|member| schema.get(member).is_some())
}

/// Returns `true` if a schema, or one within it, has a member that is not supported, or that may only be `true`.
fn has_unsupported(schema: &Value) -> bool {
    let own = unsupported(schema).next().is_some() || schema[PRESERVING] == false;
    own || within(schema, "").iter().any(|(_, below)| has_unsupported(below))
}

/// All schemas in a schema, also those that only restrict values, with their paths, in the order of the real server.
fn within<'a>(schema: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let not = schema.get("not").map(|below| (format!("{path}.not"), below));
    let restrictions = ["allOf", "oneOf", "anyOf"].into_iter().flat_map(|key| {
        let listed = schema[key].as_array().into_iter().flatten().enumerate();
        listed.map(move |(index, below)| (format!("{path}.{key}[{index}]"), below))
    });
    let mut all: Vec<_> = parts(schema, path).into_iter().map(|(path, below, _)| (path, below)).collect();
    // Before the items, which are the last part.
    let at = all.len() - usize::from(schema.get("items").is_some());
    drop(all.splice(at..at, not.into_iter().chain(restrictions)));
    all
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

/// Every part has a type, every list has items, every pattern is one, and restrictions declare nothing.
fn check_structure(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    if schema["type"] == "array" && schema.get("items").is_none() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    nested::check(schema, path, causes);
    for (path, below, place) in parts(schema, path) {
        let any = below["x-kubernetes-int-or-string"] == true || below[PRESERVING] == true;
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
    for member in unsupported(schema) {
        causes.push(Cause::forbidden(format!("{path}.{member}"), format!("{member} is not supported")));
    }
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(format!("{path}.uniqueItems"), why));
    }
    if schema[PRESERVING] == false {
        let why = "must be true or undefined";
        causes.push(Cause::invalid(format!("{path}.{PRESERVING}"), &schema[PRESERVING], why));
    }
    let others = schema.get("additionalProperties").filter(|others| **others != true);
    if others.is_some() && schema["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
        let why = "additionalProperties and properties are mutual exclusive";
        causes.push(Cause::forbidden(format!("{path}.additionalProperties"), why));
    }
    for (path, below) in within(schema, path) {
        check_members(below, &path, causes);
    }
    lists::check(schema, path, causes);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Cause, check};

    fn mistakes(pattern: &str) -> Vec<String> {
        let items = json!({"type": "string", "pattern": pattern});
        let mut causes = Vec::new();
        check(&json!({"type": "object", "properties": {"names": {"type": "array", "items": items}}}), "s", &mut causes);
        causes.iter().map(Cause::text).collect()
    }

    #[test]
    fn members_that_are_not_supported_are_rejected_and_nothing_else_is_examined() {
        let schema = json!({"type": "object", "properties": {
            "rooms": {"type": "object", "patternProperties": {"^[0-9]+$": {"type": "string"}}, "additionalProperties": false},
            "size": {"anyOf": [{"additionalItems": true}]},
        }});
        let mut causes = Vec::new();
        check(&schema, "s", &mut causes);
        let found: Vec<_> = causes.iter().map(Cause::text).collect();
        let expected = [
            "s.properties[rooms].patternProperties: Forbidden: patternProperties is not supported",
            "s.properties[size].anyOf[0].additionalItems: Forbidden: additionalItems is not supported",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_pattern_that_go_cannot_read_is_rejected() {
        for (pattern, why) in [
            ("^(?=a)", "invalid or unsupported Perl syntax: "),
            ("(?<!a)b", "invalid named capture: "),
            (r"(a)\1", "invalid escape sequence: "),
            ("[a", "missing closing ]"),
        ] {
            let found = mistakes(pattern);
            let shown = format!(
                "s.properties[names].items.pattern: Invalid value: {pattern:?}: must be a valid regular expression, but \
                 isn't: error parsing regexp: {why}"
            );
            assert!(found.len() == 1 && found[0].starts_with(&shown), "{found:?}");
        }
        // Of `\B`, it is not known here what it means.
        for pattern in ["^[a-z]+$", "a{b", r"a\B", r"[\w-.]", r"[a\ b]", "[[:]", "(?<name>a)"] {
            assert_eq!(mistakes(pattern), [""; 0], "{pattern}");
        }
    }
}
