//! FlowSchemas.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct FlowSchema;

impl Strategy for FlowSchema {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let dangling = row.items("/status/conditions").iter().find(|condition| condition["type"] == "Dangling");
        Some(vec![
            row.name(),
            json!(row.text("/spec/priorityLevelConfiguration/name")),
            json!(row.number("/spec/matchingPrecedence")),
            row.text_or("/spec/distinguisherMethod/type", "<none>"),
            row.age(),
            json!(dangling.map_or("?", |condition| condition["status"].as_str().unwrap_or_default())),
        ])
    }
}
