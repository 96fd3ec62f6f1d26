//! Bindings of policies of admission.

use serde_json::{Value, json};

use super::row::{Row, plain, selector_text};
use super::strategy::Strategy;

pub(super) struct AdmissionPolicyBinding;

impl Strategy for AdmissionPolicyBinding {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let param = row.at("/spec/paramRef");
        let param = if !param.is_object() {
            "<unset>".to_owned()
        } else if !plain(&param["name"]).is_empty() {
            let namespace = if param["namespace"].is_string() { plain(&param["namespace"]) } else { "*".to_owned() };
            format!("{namespace}/{}", plain(&param["name"]))
        } else if param["selector"].is_object() {
            selector_text(&param["selector"])
        } else {
            "<unset>".to_owned()
        };
        Some(vec![row.name(), json!(row.text("/spec/policyName")), json!(param), row.age()])
    }
}
