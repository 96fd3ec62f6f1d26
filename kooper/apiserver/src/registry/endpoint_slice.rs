//! EndpointSlices.

use serde_json::{Value, json};

use super::row::{Row, first, plain};
use super::strategy::Strategy;
use crate::meta;
use crate::task::{SERVICE, Task};

pub(super) struct EndpointSlice;

impl Strategy for EndpointSlice {
    /// The labels of a slice are about its endpoints.
    fn counted_metadata(&self) -> &'static [&'static str] {
        &["labels", "annotations"]
    }

    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        let of_server = (meta::text(object, "namespace"), meta::text(object, "name")) == ("default", SERVICE);
        (deleted && of_server).then_some(Task::Publish)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let ports: Vec<_> = row
            .items("/ports")
            .iter()
            .map(|port| match (&port["port"], &port["name"]) {
                (Value::Null, Value::String(name)) => name.clone(),
                (Value::Null, _) => "*".to_owned(),
                (number, _) => number.to_string(),
            })
            .collect();
        let addresses =
            row.items("/endpoints").iter().filter_map(|endpoint| endpoint["addresses"].as_array()).flatten();
        let addresses: Vec<_> = addresses.map(plain).collect();
        let shown = |all: &[String]| {
            let text = first(all, 3, ",");
            json!(if text.is_empty() { "<unset>".to_owned() } else { text })
        };
        Some(vec![row.name(), json!(row.text("/addressType")), shown(&ports), shown(&addresses), row.age()])
    }
}
