//! VolumeAttributesClasses.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.text("/driverName")), row.age()])
    }
}
