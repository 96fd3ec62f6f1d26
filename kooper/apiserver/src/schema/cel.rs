//! The rules of `x-kubernetes-validations`, by the library `kube-cel`.

use std::error::Error as _;

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, compile_schema, validate_compiled};
use serde_json::{Value, json};

use crate::cause::Cause;

/// The library's parser takes as deep a rule as the API does, but a megabyte or more for it in a debug build: threads
/// of tokio and of tests have two in all.
const STACK: usize = 16 << 20;

/// Compiles the rules of a schema; `None` where it has none.
pub(super) fn compile(schema: &Value) -> Option<CompiledSchema> {
    has_rules(schema).then(|| stacker::grow(STACK, || compile_schema(&without_defaults(schema, false))))
}

/// Objects have their defaults already; those that are of another kind have none, which the library must not change.
fn without_defaults(schema: &Value, properties: bool) -> Value {
    match schema {
        Value::Object(entries) => {
            let kept = entries.iter().filter(|(key, _)| properties || *key != "default");
            let plain = |(key, below): (&String, &Value)| {
                (key.clone(), without_defaults(below, !properties && key == "properties"))
            };
            Value::Object(kept.map(plain).collect())
        }
        Value::Array(items) => items.iter().map(|item| without_defaults(item, false)).collect(),
        other => other.clone(),
    }
}

/// How deep an expression may be nested, as in cel-go; beyond it the library may end the process.
const DEPTH: usize = 250;

/// The rules of one node of a schema that cannot be compiled, by their index.
pub(crate) fn errors(node: &Value) -> Vec<(usize, String)> {
    let rules = node["x-kubernetes-validations"].as_array().into_iter().flatten().enumerate();
    rules
        .filter_map(|(index, rule)| {
            let texts = [&rule["rule"], &rule["messageExpression"]];
            if texts.iter().any(|text| depth(text.as_str().unwrap_or_default()) > DEPTH) {
                return Some((index, format!("expression recursion limit exceeded: {DEPTH}")));
            }
            let compiled = stacker::grow(STACK, || compile_schema(&json!({"x-kubernetes-validations": [rule]})));
            let error = compiled.validations.first()?.as_ref().err()?;
            let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            Some((index, format!("compilation failed: {cause}")))
        })
        .collect()
}

/// At least how deep the tree of an expression is: each bracket and each operator may add a level; what stands
/// between commas, `&&` and `||` stands side by side.
fn depth(rule: &str) -> usize {
    let (mut outer, mut here, mut deepest) = (Vec::new(), 0, 0);
    let mut bytes = rule.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' | b'\'' => {
                while let Some(inside) = bytes.next().filter(|&inside| inside != byte) {
                    if inside == b'\\' {
                        bytes.next();
                    }
                }
            }
            b'(' | b'[' | b'{' => {
                outer.push(here);
                here += 1;
            }
            b')' | b']' | b'}' => here = outer.pop().unwrap_or_default() + 1,
            b'&' | b'|' | b',' => here = outer.last().map_or(0, |outside| outside + 1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'.' | b'?' | b':' => here += 1,
            _ => {}
        }
        deepest = deepest.max(here);
    }
    deepest
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(entries) => entries.contains_key("x-kubernetes-validations") || entries.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

/// The declaration of a rule.
fn declared<'a>(schema: &'a Value, rule: &str) -> Option<&'a Value> {
    match schema {
        Value::Object(entries) => {
            let mut rules = entries.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
            let own = rules.find(|own| own["rule"] == rule);
            own.or_else(|| entries.values().find_map(|below| declared(below, rule)))
        }
        Value::Array(items) => items.iter().find_map(|below| declared(below, rule)),
        _ => None,
    }
}

fn at_path<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, key| value.get(key))
}

/// The cause for a rule that could not be evaluated: it is about the value that has the rule, also when the rule blames
/// a field of that.
fn failed(schema: &Value, object: &Value, error: &ValidationError) -> Cause {
    let rule = declared(schema, &error.rule);
    let declared = |key: &str| rule.and_then(|rule| rule[key].as_str());
    let path = &error.field_path;
    let path = path.strip_suffix(declared("fieldPath").unwrap_or_default()).unwrap_or(path).trim_matches('.');
    let kind = match at_path(object, path) {
        Some(Value::Array(_)) => "array",
        Some(Value::String(_)) => "string",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(number)) if number.is_f64() => "number",
        Some(Value::Number(_)) => "integer",
        _ => "object",
    };
    let why = error.message.strip_prefix("rule evaluation error: ").unwrap_or(&error.message);
    let why = why.replacen("No such key", "no such key", 1);
    let rule = declared("message").unwrap_or(&error.rule);
    Cause::other("FieldValueInvalid", path, format!("Invalid value: {kind:?}: {why} evaluating rule: {rule}"))
}

/// The rules that an object violates.
pub(super) fn validate(rules: &CompiledSchema, schema: &Value, object: &Value, present: Option<&Value>) -> Vec<Cause> {
    let Err(errors) = stacker::grow(STACK, || validate_compiled(rules, object, present)) else { return Vec::new() };
    errors
        .into_vec()
        .into_iter()
        .map(|error| {
            let path = error.field_path.trim_start_matches('.');
            let found = at_path(object, path);
            let message = match error.kind {
                ErrorKind::ValidationFailure => error.message,
                ErrorKind::EvaluationError => return failed(schema, object, &error),
                _ => format!("rule {:?}: {}", error.rule, error.message),
            };
            match error.reason.as_deref() {
                Some("FieldValueForbidden") => Cause::forbidden(path, message),
                Some("FieldValueRequired") => Cause::required(path, message),
                Some("FieldValueDuplicate") => Cause::duplicate(path, found.unwrap_or(&Value::Null)),
                _ => match found {
                    // The API shows scalars only.
                    Some(Value::Object(_) | Value::Array(_)) | None => {
                        Cause::other("FieldValueInvalid", path, format!("Invalid value: {message}"))
                    }
                    Some(scalar) => Cause::invalid(path, scalar, message),
                },
            }
        })
        .collect()
}
