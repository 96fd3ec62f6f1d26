//! The rules of `x-kubernetes-validations`, by the library `kube-cel`.

use kube_cel::{CompiledSchema, ErrorKind, compile_schema, validate_compiled};
use serde_json::Value;

use crate::cause::Cause;

/// Compiles the rules of a schema; `None` where it has none.
pub(super) fn compile(schema: &Value) -> Option<CompiledSchema> {
    has_rules(schema).then(|| compile_schema(schema))
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(entries) => entries.contains_key("x-kubernetes-validations") || entries.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

/// The rules that an object violates.
pub(super) fn validate(rules: &CompiledSchema, object: &Value, present: Option<&Value>) -> Vec<Cause> {
    let Err(errors) = validate_compiled(rules, object, present) else { return Vec::new() };
    errors
        .into_vec()
        .into_iter()
        .map(|error| {
            let path = error.field_path.trim_start_matches('.');
            let found = path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, key| value.get(key));
            let message = match error.kind {
                ErrorKind::ValidationFailure => error.message,
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
