//! Configurations of webhooks.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;

pub(super) struct WebhookConfiguration;

impl Strategy for WebhookConfiguration {
    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.count("/webhooks")), row.age()])
    }
}
