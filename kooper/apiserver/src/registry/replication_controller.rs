//! ReplicationControllers.

use serde_json::Value;

use super::row::Row;
use super::strategy::Strategy;
use super::warnings;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, pod};

pub(super) struct ReplicationController;

impl Strategy for ReplicationController {
    fn field(&self, object: &Value, path: &str) -> Option<String> {
        let replicas = || object["status"].get("replicas").map_or_else(|| "0".to_owned(), ToString::to_string);
        (path == "status.replicas").then(replicas)
    }

    fn selects_by_labels(&self) -> bool {
        true
    }

    fn counts_replicas(&self) -> bool {
        true
    }

    fn validate(&self, object: &FieldValue<'_>, _: Write<'_>) {
        object.field("spec.replicas").not_negative();
        if object.field("spec.template").is_set() {
            pod::template(&object.field("spec.template"));
        }
    }

    fn warnings(&self, object: &Value, present: Option<&Value>) -> Vec<String> {
        warnings::of_workload("spec.template", object, present)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(row.replicas(row.labels("/spec/selector")))
    }
}
