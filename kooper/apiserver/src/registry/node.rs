//! Nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::row::{Row, or_none, plain};
use super::strategy::Strategy;

pub(super) struct Node;

impl Strategy for Node {
    fn field(&self, object: &Value, path: &str) -> Option<String> {
        (path == "spec.unschedulable").then(|| (object["spec"]["unschedulable"] == true).to_string())
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let ready = row.items("/status/conditions").iter().find(|condition| condition["type"] == "Ready");
        let status = ready.map_or("Unknown", |ready| if ready["status"] == "True" { "Ready" } else { "NotReady" });
        let status =
            if row.flag("/spec/unschedulable") { format!("{status},SchedulingDisabled") } else { status.to_owned() };
        let labels = row.at("/metadata/labels").as_object().into_iter().flatten();
        let roles: BTreeSet<_> = labels
            .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if key == "kubernetes.io/role" => value.as_str(),
                None => None,
            })
            .filter(|role| !role.is_empty())
            .collect();
        let address = |kind: &str| {
            let found = row.items("/status/addresses").iter().find(|address| address["type"] == kind);
            or_none(found.map(|address| plain(&address["address"])).unwrap_or_default())
        };
        let info = |name: &str| {
            let text = row.at("/status/nodeInfo")[name].as_str().unwrap_or_default();
            if text.is_empty() { "<unknown>" } else { text }
        };
        let machine = row.text("/status/nodeInfo/architecture");
        let machine = if machine.is_empty() { String::new() } else { format!(" ({machine})") };
        Some(vec![
            row.name(),
            json!(status),
            or_none(roles.into_iter().collect::<Vec<_>>().join(",")),
            row.age(),
            json!(row.text("/status/nodeInfo/kubeletVersion")),
            address("InternalIP"),
            address("ExternalIP"),
            json!(info("osImage")),
            json!(format!("{}{machine}", info("kernelVersion"))),
            json!(info("containerRuntimeVersion")),
        ])
    }
}
