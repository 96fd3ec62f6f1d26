//! The schemas below `allOf`, `anyOf`, `oneOf` and `not`: they restrict values, and declare nothing.

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::cel;

/// The members that declare something, and what they must be instead.
const DECLARING: [(&str, &str); 13] = [
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
];

/// Checks the pattern of a schema, and the schemas that restrict its values.
pub(super) fn check(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let first = is_int_or_string(&schema["allOf"][0]);
    check_values(schema, path, (is_int_or_string(schema), first), causes);
}

/// The two types of `x-kubernetes-int-or-string`, which may be written in `anyOf`.
fn is_int_or_string(schema: &Value) -> bool {
    schema["anyOf"] == json!([{"type": "integer"}, {"type": "string"}])
}

/// `either` is whether `anyOf` has these two types, and `first` whether that of the first schema of `allOf` has them.
fn check_values(schema: &Value, path: &str, (either, first): (bool, bool), causes: &mut Vec<Cause>) {
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && either {
            continue;
        }
        for (index, below) in schema[key].as_array().into_iter().flatten().enumerate() {
            let either = key == "allOf" && first && index == 0;
            check_nested(below, &format!("{path}.{key}[{index}]"), either, causes);
        }
    }
    if schema["not"].is_object() {
        check_nested(&schema["not"], &format!("{path}.not"), false, causes);
    }
    if let Some(why) = schema["pattern"].as_str().and_then(cel::pattern_mistake) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        causes.push(Cause::invalid(format!("{path}.pattern"), &schema["pattern"], why));
    }
}

fn check_nested(schema: &Value, path: &str, either: bool, causes: &mut Vec<Cause>) {
    check_values(schema, path, (either, false), causes);
    if schema["items"].is_object() {
        check_nested(&schema["items"], &format!("{path}.items"), false, causes);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        check_nested(below, &format!("{path}.properties[{name}]"), false, causes);
    }
    for (member, wanted) in DECLARING {
        if is_set(member, &schema[member]) {
            let why = format!("must be {wanted} to be structural");
            causes.push(Cause::forbidden(format!("{path}.{member}"), why));
        }
    }
    if !schema["properties"]["metadata"].is_null() {
        let why = "must not be specified in a nested context";
        causes.push(Cause::forbidden(format!("{path}.properties[metadata]"), why));
    }
}

/// Returns whether a member has another value than that of its type without one.
fn is_set(member: &str, value: &Value) -> bool {
    match value {
        Value::Null => false,
        _ if matches!(member, "default" | "additionalProperties") => true,
        Value::Bool(value) => *value,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Cause, check};

    fn mistakes(schema: &Value) -> Vec<String> {
        let mut causes = Vec::new();
        check(schema, "s", &mut causes);
        causes.iter().map(Cause::text).collect()
    }

    #[test]
    fn what_restricts_values_declares_nothing() {
        let alternatives =
            json!({"type": "object", "anyOf": [{"type": "object", "description": "a"}, {"required": ["b"]}]});
        let empty = "Forbidden: must be empty to be structural";
        assert_eq!(
            mistakes(&alternatives),
            [format!("s.anyOf[0].type: {empty}"), format!("s.anyOf[0].description: {empty}")]
        );
        assert_eq!(
            mistakes(
                &json!({"not": {"properties": {"a": {"default": false}}}, "oneOf": [{"items": {"nullable": true}}, {"additionalProperties": false}]})
            ),
            [
                "s.oneOf[0].items.nullable: Forbidden: must be false to be structural",
                "s.oneOf[1].additionalProperties: Forbidden: must be undefined to be structural",
                "s.not.properties[a].default: Forbidden: must be undefined to be structural"
            ]
        );
        assert_eq!(
            mistakes(&json!({"oneOf": [{"required": ["a"]}], "not": {"properties": {"a": {"minimum": 1}}}})),
            [""; 0]
        );
    }

    #[test]
    fn numbers_and_strings_may_be_alternatives_at_two_places() {
        let either = || json!([{"type": "integer"}, {"type": "string"}]);
        assert_eq!(mistakes(&json!({"x-kubernetes-int-or-string": true, "anyOf": either()})), [""; 0]);
        assert_eq!(mistakes(&json!({"allOf": [{"anyOf": either()}, {"pattern": "^a"}]})), [""; 0]);
        let found = mistakes(&json!({"allOf": [{"pattern": "^a"}, {"anyOf": either()}]}));
        assert_eq!(
            found,
            [0, 1].map(|at| format!("s.allOf[1].anyOf[{at}].type: Forbidden: must be empty to be structural"))
        );
    }
}
