//! Endpoints.

use serde_json::{Value, json};

use super::row::{Row, first};
use super::strategy::Strategy;
use crate::meta;
use crate::task::{SERVICE, Task};

pub(super) struct Endpoints;

impl Strategy for Endpoints {
    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        let of_server = (meta::text(object, "namespace"), meta::text(object, "name")) == ("default", SERVICE);
        (deleted && of_server).then_some(Task::Publish)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let mut all = Vec::new();
        for subset in row.items("/subsets") {
            let subset = Row(subset);
            let addresses = subset.items("/addresses").iter().map(|address| address["ip"].as_str().unwrap_or_default());
            let ports = subset.items("/ports");
            if ports.is_empty() {
                all.extend(addresses.map(ToOwned::to_owned));
                continue;
            }
            for port in ports {
                all.extend(addresses.clone().map(|address| match address.contains(':') {
                    true => format!("[{address}]:{}", port["port"]),
                    false => format!("{address}:{}", port["port"]),
                }));
            }
        }
        let shown = if row.items("/subsets").is_empty() { "<none>".to_owned() } else { first(&all, 3, ",") };
        Some(vec![row.name(), json!(shown), row.age()])
    }
}
