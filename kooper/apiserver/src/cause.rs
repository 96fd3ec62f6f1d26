//! Causes: the rules that an object violates, in the words of the API.

use std::fmt::Display;

use serde_json::Value;

/// One violated rule of an object.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: String,
}

impl Cause {
    pub(crate) fn required(field: impl Into<String>, why: impl Display) -> Self {
        let why = why.to_string();
        let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self { reason: "FieldValueRequired", message, field: field.into() }
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: impl Display) -> Self {
        let message = format!("Invalid value: {}: {why}", shown(value));
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    pub(crate) fn type_invalid(field: impl Into<String>, value: &Value, why: impl Display) -> Self {
        let message = format!("Invalid value: {}: {why}", shown(value));
        Self { reason: "FieldValueTypeInvalid", message, field: field.into() }
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: impl Display) -> Self {
        Self { reason: "FieldValueForbidden", message: format!("Forbidden: {why}"), field: field.into() }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            message: format!("Duplicate value: {}", shown(value)),
            field: field.into(),
        }
    }

    pub(crate) fn not_supported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }

    /// A cause whose reason and message are made elsewhere.
    pub(crate) fn other(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), field: field.into() }
    }

    /// The causes as one message.
    pub(crate) fn list(causes: &[Self]) -> String {
        aggregate(&distinct(causes.iter().map(Self::text)))
    }

    /// The cause in one line, with its field.
    pub(crate) fn text(&self) -> String {
        if self.field.is_empty() { self.message.clone() } else { format!("{}: {}", self.field, self.message) }
    }
}

/// Several errors as one, as Go's aggregates are written.
pub(crate) fn aggregate(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Each error once.
pub(crate) fn distinct(errors: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut distinct = Vec::new();
    for error in errors {
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    distinct
}

/// A value as the API shows it in a message.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}
