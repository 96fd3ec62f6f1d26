//! The rules of the data of ConfigMaps and Secrets.

use serde_json::Value;

use super::field_value::FieldValue;
use crate::cause::Cause;
use crate::form;

/// The bytes that all values may have together.
pub(crate) const MOST_BYTES: usize = 1 << 20;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub(crate) fn keys(data: &FieldValue<'_>) {
    for (key, entry) in data.entries() {
        for why in form::config_key(key) {
            entry.invalid_as(&key.into(), why);
        }
    }
}

/// The size of what base64 stands for.
pub(crate) fn decoded_bytes(data: &FieldValue<'_>) -> usize {
    data.entries().iter().map(|(_, entry)| entry.text().trim_end_matches('=').len() * 3 / 4).sum()
}

pub(crate) fn too_long(field: &str) -> Cause {
    Cause::other("FieldValueTooLong", field, format!("Too long: may not be more than {MOST_BYTES} bytes"))
}

/// Reports changes of an immutable object.
pub(crate) fn frozen(object: &FieldValue<'_>, present: Option<&Value>, fields: &[&str]) {
    let Some(present) = present.filter(|present| present["immutable"] == true) else { return };
    object.field("immutable").forbidden_if(!object.field("immutable").is_true(), FROZEN);
    for field in fields {
        object.field(field).forbidden_if(object.field(field).value != &present[field], FROZEN);
    }
}

/// The data that an immutable object lacks, and that a client has sent empty.
pub(crate) fn frozen_empty(present: &Value, empty: Option<&'static str>) -> Option<Cause> {
    let added = empty.filter(|field| present["immutable"] == true && present[*field].is_null());
    added.map(|field| Cause::forbidden(field, FROZEN))
}
