//! The rules of the counts in a status.

use serde_json::json;

use super::field_value::FieldValue;

pub(crate) fn not_negative(status: &FieldValue<'_>, counts: &[&str]) {
    for count in counts {
        status.field(count).not_negative();
    }
}

/// Some replicas are not more than all of them, and no more are available than are ready, at this path.
pub(crate) fn at_most_all(status: &FieldValue<'_>, counts: &[&str], ready: &str) {
    let count = |name: &str| status.field(name).number().unwrap_or(0);
    for name in counts.iter().filter(|name| count(name) > count("replicas")) {
        status.field(name).invalid_as(&json!(count(name)), "cannot be greater than status.replicas");
    }
    if count("availableReplicas") > count("readyReplicas") {
        status.field("availableReplicas").invalid(format!("cannot be greater than {ready}"));
    }
}
