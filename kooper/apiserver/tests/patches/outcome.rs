//! In what an outcome differs from that which the real server gave a request.

use std::collections::BTreeSet;

use kooper_apiserver::patch::apply::ApplyError;
use kooper_apiserver::patch::conflict::Conflict;
use serde_json::{Value, json};

use super::Step;

/// A status code, a message and the causes.
pub(crate) type Failure = (u16, String, Value);

/// Returns the response to a refused apply.
pub(crate) fn failure(error: &ApplyError) -> Failure {
    let (code, causes) = match error {
        ApplyError::BadRequest(_) => (400, Value::Null),
        ApplyError::Mismatch(_) => (500, Value::Null),
        ApplyError::Conflict(conflicts) => {
            let cause = |conflict: &Conflict| json!({"reason": "FieldManagerConflict", "message": conflict.message(), "field": conflict.path.to_string()});
            (409, conflicts.iter().map(cause).collect())
        }
    };
    (code, error.to_string(), causes)
}

/// Returns whether the step failed after the patch, in validation.
pub(crate) fn is_later(step: &Step) -> bool {
    let message = step.answer["message"].as_str().unwrap_or_default();
    step.code == 422 || (step.code == 400 && message.ends_with("name must be provided"))
}

/// In what a failure differs from the real answer.
pub(crate) fn different_failure((code, message, causes): &Failure, step: &Step) -> Vec<String> {
    let mut real_causes = step.answer["details"]["causes"].as_array().cloned().unwrap_or_default();
    let mut causes = causes.as_array().cloned().unwrap_or_default();
    let key = |cause: &Value| (cause["message"].to_string(), cause["field"].to_string());
    real_causes.sort_by_cached_key(key);
    causes.sort_by_cached_key(key);
    // Of several mistakes, the real server reports any first.
    let lines = |message: &str| -> BTreeSet<String> { message.lines().map(str::to_owned).collect() };
    let same_message = lines(step.answer["message"].as_str().unwrap_or_default()) == lines(message);
    if *code == step.code && same_message && (causes.is_empty() || causes == real_causes) {
        return Vec::new();
    }
    vec![format!("fails with {code} {message:?}, but should be {} {}", step.code, step.answer)]
}

/// Fields that the real server sets otherwise than asked.
const SERVER_SET: [&str; 6] =
    ["managedFields", "resourceVersion", "creationTimestamp", "generation", "uid", "selfLink"];

/// Fields that get the same default again when they are removed.
const DEFAULTED: [&str; 11] = [
    "strategy",
    "rollingUpdate",
    "terminationGracePeriodSeconds",
    "replicas",
    "internalTrafficPolicy",
    "maxSurge",
    "maxUnavailable",
    "sessionAffinity",
    "type",
    "targetPort",
    "protocol",
];

/// Returns the fields that only our object has, and those that only the real
/// one has kept.
pub(crate) fn different_fields(ours: &Value, step: &Step, base: Option<&Value>, kind: &str) -> Vec<String> {
    let clean = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|name, _| !SERVER_SET.contains(&name.as_str()));
        }
        let untouched: &[&str] = match (kind, step.subresource.as_str()) {
            ("ConfigMap", _) => &[],
            (_, "status") => &["spec", "metadata"],
            _ => &["status"],
        };
        if let Some(object) = object.as_object_mut() {
            object.retain(|name, _| !untouched.contains(&name.as_str()));
        }
        object
    };
    let mut found = Vec::new();
    let real = clean(&step.answer);
    // Nothing is added to these but the default of a port's protocol.
    if matches!(kind, "Widget" | "ConfigMap") && step.subresource.is_empty() {
        for field in ["spec", "data"] {
            let (ours, real) = (without_protocols(&ours[field]), without_protocols(&step.answer[field]));
            let none = |value: &Value| value.is_null() || *value == json!({});
            if ours != real && !(kind == "ConfigMap" && none(&ours) && none(&real)) {
                found.push(format!(".{field} is {ours}, should be {real}"));
            }
        }
    }
    compare(&clean(ours), &real, base.map(clean).as_ref(), "", &mut found);
    found
}

fn compare(ours: &Value, real: &Value, base: Option<&Value>, path: &str, found: &mut Vec<String>) {
    match (ours, real) {
        (Value::Object(ours), Value::Object(real)) => {
            // Directives in what is added as it is are dropped in decoding.
            for (name, value) in ours.iter().filter(|(name, _)| !name.starts_with('$')) {
                if value.is_null() && DEFAULTED.contains(&name.as_str()) {
                    continue;
                }
                let path = format!("{path}.{name}");
                let nothing = value.is_null()
                    || value == &json!({})
                    || value == &json!([])
                    || value == ""
                    || value == false
                    || value == 0;
                match real.get(name) {
                    Some(real) => compare(value, real, base.and_then(|base| base.get(name)), &path, found),
                    None if nothing => {}
                    None => found.push(format!("{path} is {value}, should be absent")),
                }
            }
            for (name, value) in real.iter().filter(|(name, _)| !ours.contains_key(*name)) {
                if !DEFAULTED.contains(&name.as_str()) && base.and_then(|base| base.get(name)) == Some(value) {
                    found.push(format!("{path}.{name} is absent, should be {value}"));
                }
            }
        }
        (Value::Array(ours), Value::Array(real)) if ours.len() == real.len() => {
            for (index, (ours, real)) in ours.iter().zip(real).enumerate() {
                compare(ours, real, None, &format!("{path}[{index}]"), found);
            }
        }
        (ours, real) if ours == real || (ours.is_null() && base.is_none()) => {}
        (ours, real) => found.push(format!("{path} is {ours}, should be {real}")),
    }
}

fn without_protocols(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let others = map.iter().filter(|(name, _)| *name != "protocol");
            Value::Object(others.map(|(name, value)| (name.clone(), without_protocols(value))).collect())
        }
        Value::Array(items) => items.iter().map(without_protocols).collect(),
        scalar => scalar.clone(),
    }
}
