//! ConfigMaps.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;
use crate::meta;
use crate::task::{AUTHORITY, Task};
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, data};

pub(super) struct ConfigMap;

impl Strategy for ConfigMap {
    fn encoded_data(&self) -> Option<&'static str> {
        Some("binaryData")
    }

    fn follow_up(&self, object: &Value, _: bool) -> Option<Task> {
        (meta::text(object, "name") == AUTHORITY).then(|| Task::Provision(meta::text(object, "namespace").to_owned()))
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let (texts, binary) = (object.field("data"), object.field("binaryData"));
        data::keys(&texts);
        data::keys(&binary);
        for (key, entry) in texts.entries() {
            if binary.value.get(key).is_some() {
                entry.invalid_as(&key.into(), "duplicate of key present in binaryData");
            }
        }
        let length: usize = texts.entries().iter().map(|(_, entry)| entry.text().len()).sum();
        if length + data::decoded_bytes(&binary) > data::MOST_BYTES {
            object.named("[]".to_owned()).add(data::too_long("[]"));
        }
        data::frozen(object, write.present(), &["data", "binaryData"]);
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.count("/data") + row.count("/binaryData")), row.age()])
    }
}
