//! ControllerRevisions.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let owner = row.items("/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
        let controller = owner.map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let text = |key: &str| owner[key].as_str().unwrap_or_default();
                let (group, kind) = (text("apiVersion").split_once('/'), text("kind").to_lowercase());
                let kind = group.map_or_else(|| kind.clone(), |(group, _)| format!("{kind}.{group}"));
                format!("{kind}/{}", text("name"))
            },
        );
        Some(vec![row.name(), json!(controller), json!(row.number("/revision")), row.age()])
    }
}
