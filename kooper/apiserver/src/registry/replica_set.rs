//! ReplicaSets.

use serde_json::Value;

use super::row::Row;
use super::strategy::Strategy;
use super::warnings;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, pod, replicas, selector};

pub(super) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn field(&self, object: &Value, path: &str) -> Option<String> {
        let replicas = || object["status"].get("replicas").map_or_else(|| "0".to_owned(), ToString::to_string);
        (path == "status.replicas").then(replicas)
    }

    fn counts_replicas(&self) -> bool {
        true
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let spec = object.field("spec");
        validate_spec(&spec);
        spec.field("minReadySeconds").not_negative();
        if let Some(present) = write.present() {
            spec.field("selector").immutable(&present["spec"]["selector"]);
        }
    }

    fn validate_status(&self, object: &FieldValue<'_>, _: &Value) {
        let status = object.field("status");
        replicas::not_negative(
            &status,
            &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
        );
        replicas::at_most_all(
            &status,
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
            "readyReplicas",
        );
    }

    fn warnings(&self, object: &Value, present: Option<&Value>) -> Vec<String> {
        warnings::of_workload("spec.template", object, present)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(row.replicas(row.selector("/spec/selector")))
    }
}

/// The rules that Deployments have, too.
pub(super) fn validate_spec(spec: &FieldValue<'_>) {
    spec.field("replicas").not_negative();
    let chosen = spec.field("selector");
    selector::not_empty(&chosen, "deployment");
    let template = spec.field("template");
    // The template is judged by a valid selector only.
    if chosen.is_set() && !selector::is_valid(chosen.value) {
        return chosen.invalid_shown(&selector::shown(chosen.value), "invalid label selector");
    }
    selector::matches(chosen.value, &template, true);
    pod::template(&template);
    pod::runs_for_ever(&template, "ReplicaSet");
}
