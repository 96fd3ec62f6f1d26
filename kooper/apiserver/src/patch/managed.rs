//! `metadata.managedFields`: who owns which fields of an object.
//!
//! Source: "Field management" of the server-side apply reference
//! (<https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management>)
//! and `managedfields/internal/managedfields.go` of apimachinery.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::FieldSet;
use super::fields_v1;
use crate::time::unix_seconds;

/// The identity of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// The name that the client gave, or the first part of its User-Agent.
    pub name: String,
    /// Operation that wrote the fields.
    pub operation: Operation,
    /// The version in which the fields were written; empty for those that were
    /// applied, of which each manager has one entry.
    pub api_version: String,
    /// The subresource through which they were written, or empty.
    pub subresource: String,
}

/// Operation of a `managedFields` entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By a server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl Manager {
    /// As the real server writes it to sort managers: the JSON of an entry
    /// without fields and time.
    pub(crate) fn identifier(&self) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let parts = [
            ("manager", self.name.as_str()),
            ("operation", self.operation.name()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        let present = parts.iter().filter(|(_, text)| !text.is_empty());
        let parts: Vec<_> = present.map(|(name, text)| format!("\"{name}\":{}", quoted(text))).collect();
        format!("{{{}}}", parts.join(","))
    }
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The fields.
    pub set: FieldSet,
    /// The version that the paths are of.
    pub api_version: String,
    /// When the entry was last changed, in RFC 3339.
    pub time: Option<String>,
}

/// The owners of an object's fields.
pub type Owners = BTreeMap<Manager, Owned>;

/// Reads `metadata.managedFields`.
///
/// # Errors
///
/// The real server's message if an entry isn't valid.
pub fn decode(entries: &Value) -> Result<Owners, String> {
    let mut owners = Owners::new();
    for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let operation = match entry["operation"].as_str() {
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => return Err(format!("invalid fieldsType \"{other}\" in managed fields entry {index}")),
        }
        let set = fields_v1::decode(&entry["fieldsV1"])
            .map_err(|error| format!("error decoding versioned set from {entry}: error decoding set: {error}"))?;
        let manager = Manager {
            name: text("manager"),
            operation,
            api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
            subresource: text("subresource"),
        };
        let time = entry["time"].as_str().map(str::to_owned);
        owners.insert(manager, Owned { set, api_version, time });
    }
    Ok(owners)
}

/// The entries of `metadata.managedFields`, in the order of the real server:
/// by operation, time, manager, version and subresource.
#[must_use]
pub fn encode(owners: &Owners) -> Vec<Value> {
    let mut sorted: Vec<_> = owners.iter().collect();
    sorted.sort_by_cached_key(|(manager, owned)| {
        let seconds = owned.time.as_deref().map_or(0, unix_seconds);
        let Manager { name, operation, subresource, .. } = manager;
        (*operation, seconds, name.clone(), owned.api_version.clone(), subresource.clone())
    });
    sorted.into_iter().map(|(manager, owned)| encode_entry(manager, owned)).collect()
}

fn encode_entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = json!({
        "operation": manager.operation.name(),
        "apiVersion": owned.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields_v1::encode(&owned.set),
    });
    let time = owned.time.as_deref().unwrap_or_default();
    for (name, text) in [("manager", &*manager.name), ("subresource", &*manager.subresource), ("time", time)] {
        if !text.is_empty() {
            entry[name] = text.into();
        }
    }
    entry
}

/// `metadata.managedFields` of an object.
pub(crate) fn of(object: &Value) -> &Value {
    &object["metadata"]["managedFields"]
}

/// Replaces `metadata.managedFields`; an empty list is left out.
pub(crate) fn set(object: &mut Value, entries: Vec<Value>) {
    let Some(object) = object.as_object_mut() else { return };
    if entries.is_empty() {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        return;
    }
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_the_order_of_the_real_server() {
        let entry = |manager: &str, operation: &str, time: &str| {
            json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}})
        };
        let sorted = [
            entry("z", "Apply", "2026-01-01T00:00:00Z"),
            entry("b", "Update", "2026-01-01T00:00:00Z"),
            entry("a", "Update", "2026-01-01T02:00:00+01:00"),
            entry("c", "Update", "2026-01-01T01:00:00Z"),
        ];
        let shuffled = json!([sorted[3], sorted[1], sorted[0], sorted[2]]);
        let owners = decode(&shuffled).expect("they are valid");
        assert_eq!(encode(&owners), sorted);
    }

    #[test]
    fn entries_that_are_not_valid_are_refused_with_the_real_message() {
        let entry = json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
        let with = |name: &str, value: Value| {
            let mut entry = entry.clone();
            entry[name] = value;
            decode(&json!([entry])).expect_err("it is refused")
        };
        assert_eq!(with("operation", json!("Create")), "operation must be `Apply` or `Update`");
        assert_eq!(with("apiVersion", json!("")), "apiVersion must not be empty");
        assert_eq!(with("fieldsType", json!("")), "missing fieldsType in managed fields entry 0");
        assert_eq!(with("fieldsType", json!("V2")), "invalid fieldsType \"V2\" in managed fields entry 0");
        assert!(with("fieldsV1", json!({"x": {}})).contains("error decoding set"));
    }
}
