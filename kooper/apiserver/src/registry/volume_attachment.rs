//! VolumeAttachments.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![
            row.name(),
            json!(row.text("/spec/attacher")),
            json!(row.text("/spec/source/persistentVolumeName")),
            json!(row.text("/spec/nodeName")),
            json!(row.flag("/status/attached")),
            row.age(),
        ])
    }
}
