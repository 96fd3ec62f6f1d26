//! ResourceClaims.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct ResourceClaim;

impl Strategy for ResourceClaim {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let allocated = row.at("/status/allocation").is_object();
        let states: Vec<_> = [
            ("deleted", row.is_deleting()),
            ("pending", !allocated && !row.is_deleting()),
            ("allocated", allocated),
            ("reserved", allocated && row.count("/status/reservedFor") > 0),
        ]
        .into_iter()
        .filter_map(|(state, holds)| holds.then_some(state))
        .collect();
        Some(vec![row.name(), json!(states.join(",")), row.age()])
    }
}
