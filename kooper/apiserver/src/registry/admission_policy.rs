//! Policies of admission.

use serde_json::{Value, json};

use super::row::{Row, plain};
use super::strategy::Strategy;

/// A ValidatingAdmissionPolicy, or a MutatingAdmissionPolicy.
pub(super) struct AdmissionPolicy {
    /// Where its rules are.
    pub(super) rules: &'static str,
}

impl Strategy for AdmissionPolicy {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let kind = row.at("/spec/paramKind");
        let kind = if kind.is_object() {
            format!("{}/{}", plain(&kind["apiVersion"]), plain(&kind["kind"]))
        } else {
            "<unset>".to_owned()
        };
        Some(vec![row.name(), json!(row.count(self.rules)), json!(kind), row.age()])
    }
}
