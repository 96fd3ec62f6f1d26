//! IPAddresses.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct IpAddress;

impl Strategy for IpAddress {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let parent = row.at("/spec/parentRef");
        let shown = if parent.is_object() {
            let text = |key: &str| parent[key].as_str().unwrap_or_default();
            let group = if text("group").is_empty() { String::new() } else { format!(".{}", text("group")) };
            let namespace =
                if text("namespace").is_empty() { String::new() } else { format!("/{}", text("namespace")) };
            format!("{}{namespace}/{}", format!("{}{group}", text("resource")).to_lowercase(), text("name"))
        } else {
            "<none>".to_owned()
        };
        Some(vec![row.name(), json!(shown), row.age()])
    }
}
