//! The rules of label selectors.

use serde_json::{Value, json};

use super::field_value::FieldValue;
use crate::form;
use crate::select::LabelSelector;

pub(crate) fn validate(selector: &FieldValue<'_>) {
    super::labels(&selector.field("matchLabels"));
    for term in selector.field("matchExpressions").items() {
        let values = term.field("values");
        match term.field("operator").text() {
            "In" | "NotIn" => drop(values.required("must be specified when `operator` is 'In' or 'NotIn'")),
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
                }
            }
            other => term.field("operator").invalid_as(&json!(other), "not a valid selector operator"),
        }
        term.field("key").form_even_if_empty(form::qualified);
        for value in values.items() {
            value.form_even_if_empty(form::label_value);
        }
    }
}

/// The rules of a selector that is required and selects something.
pub(crate) fn not_empty(selector: &FieldValue<'_>, owner: &str) {
    if !selector.is_set() {
        selector.require("");
        return;
    }
    validate(selector);
    if selector.field("matchLabels").is_empty() && selector.field("matchExpressions").is_empty() {
        selector.invalid_shown(&shown(selector.value), format!("empty selector is invalid for {owner}"));
    }
}

/// Returns whether a selector can be evaluated.
pub(crate) fn is_valid(selector: &Value) -> bool {
    let causes = super::field_value::Causes::default();
    validate(&FieldValue::root(selector, &causes));
    causes.into_inner().is_empty()
}

/// A selector as the API shows it.
pub(crate) fn shown(selector: &Value) -> String {
    let parts = ["matchLabels", "matchExpressions"].iter().filter_map(|key| {
        let value = selector.get(key)?;
        Some(format!("{key:?}:{value}"))
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

/// A selector matches the labels of a template.
pub(crate) fn matches(selector: &Value, template: &FieldValue<'_>, empty_matches: bool) {
    let labels = template.field("metadata.labels");
    // Of a wrong selector only that is reported.
    let unlimited = selector.is_object() && LabelSelector(selector).is_empty();
    if !is_valid(selector) || empty_matches && unlimited {
        return;
    }
    labels.invalid_if(!LabelSelector(selector).matches(labels.value), "`selector` does not match template `labels`");
}
