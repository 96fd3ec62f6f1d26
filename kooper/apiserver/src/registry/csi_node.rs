//! CSINodes.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct CsiNode;

impl Strategy for CsiNode {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.count("/spec/drivers")), row.age()])
    }
}
