//! PriorityLevelConfigurations.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let number = |pointer: &str| {
            let number = row.at(pointer);
            if number.is_null() { json!("<none>") } else { number.clone() }
        };
        let queuing = "/spec/limited/limitResponse/queuing";
        Some(vec![
            row.name(),
            json!(row.text("/spec/type")),
            number("/spec/limited/nominalConcurrencyShares"),
            number(&format!("{queuing}/queues")),
            number(&format!("{queuing}/handSize")),
            number(&format!("{queuing}/queueLengthLimit")),
            row.age(),
        ])
    }
}
