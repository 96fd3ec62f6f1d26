//! StorageClasses.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct StorageClass;

impl Strategy for StorageClass {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![
            row.marked("storageclass.kubernetes.io/is-default-class"),
            json!(row.text("/provisioner")),
            row.text_or("/reclaimPolicy", "Delete"),
            row.text_or("/volumeBindingMode", "Immediate"),
            json!(row.flag("/allowVolumeExpansion")),
            row.age(),
        ])
    }
}
