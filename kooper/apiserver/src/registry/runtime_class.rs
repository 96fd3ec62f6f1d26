//! RuntimeClasses.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.text("/handler")), row.age()])
    }
}
