//! PriorityClasses.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;

/// The highest priority that users may give.
const MOST: i64 = 1_000_000_000;

pub(super) struct PriorityClass;

impl Strategy for PriorityClass {
    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let present = write.present();
        let name = object.field("metadata.name");
        let value = object.field("value");
        if name.text().starts_with("system-") {
            if present.is_none() && !matches!(name.text(), "system-cluster-critical" | "system-node-critical") {
                let why = "priority class names with 'system-' prefix are reserved for system use only. error: ";
                name.forbidden(format!("{why}{} is not a known system priority class", name.text()));
            }
        } else if value.number().is_some_and(|value| value > MOST) {
            value.forbidden(format!("maximum allowed value of a user defined priority is {MOST}"));
        }
        object.field("preemptionPolicy").one_of(&["PreemptLowerPriority", "Never"]);
        if let Some(present) = present {
            value.forbidden_if(value.value != &present["value"], "may not be changed in an update.");
            object.field("preemptionPolicy").immutable(&present["preemptionPolicy"]);
        }
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let (value, default) = (json!(row.number("/value")), json!(row.flag("/globalDefault")));
        Some(vec![row.name(), value, default, row.age(), json!(row.text("/preemptionPolicy"))])
    }
}
