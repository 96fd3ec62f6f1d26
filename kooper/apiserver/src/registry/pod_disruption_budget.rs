//! PodDisruptionBudgets.

use serde_json::{Value, json};

use super::row::{Row, plain};
use super::strategy::Strategy;
use crate::validate::field_value::FieldValue;
use crate::validate::share::{at_most_all, count_or_percent};
use crate::validate::{Write, replicas, selector};

pub(super) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn validate(&self, object: &FieldValue<'_>, _: Write<'_>) {
        let spec = object.field("spec");
        let (available, unavailable) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
        if available.is_set() && unavailable.is_set() {
            // The real server shows its own form of the spec.
            let shown = format!(
                r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
                available.value,
                spec.field("selector").value,
                unavailable.value,
                spec.field("unhealthyPodEvictionPolicy").value
            );
            spec.invalid_shown(&shown, "minAvailable and maxUnavailable cannot be both set");
        }
        for amount in [&available, &unavailable] {
            count_or_percent(amount);
            at_most_all(amount);
        }
        selector::validate(&spec.field("selector"));
        spec.field("unhealthyPodEvictionPolicy").one_of(&["AlwaysAllow", "IfHealthyBudget"]);
    }

    fn validate_status(&self, object: &FieldValue<'_>, _: &Value) {
        let status = object.field("status");
        replicas::not_negative(&status, &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]);
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let limit = |pointer: &str| {
            let limit = plain(row.at(pointer));
            json!(if limit.is_empty() { "N/A".to_owned() } else { limit })
        };
        let allowed = json!(row.number("/status/disruptionsAllowed"));
        Some(vec![row.name(), limit("/spec/minAvailable"), limit("/spec/maxUnavailable"), allowed, row.age()])
    }
}
