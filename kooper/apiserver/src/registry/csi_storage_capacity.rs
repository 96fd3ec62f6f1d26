//! CSIStorageCapacities.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.text("/storageClassName")), row.text_or("/capacity", "<unset>")])
    }
}
