//! ServiceAccounts.

use serde_json::Value;

use super::strategy::Strategy;
use crate::meta;
use crate::task::Task;

pub(super) struct ServiceAccount;

impl Strategy for ServiceAccount {
    /// Each namespace has one that is called `default`.
    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        let is_default = meta::text(object, "name") == "default";
        (deleted && is_default).then(|| Task::Provision(meta::text(object, "namespace").to_owned()))
    }
}
