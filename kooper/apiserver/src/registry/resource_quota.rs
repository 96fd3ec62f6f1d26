//! ResourceQuotas.

use serde_json::{Value, json};

use super::row::{Row, plain};
use super::strategy::Strategy;
use crate::task::Task;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, resources};
use crate::{form, meta};

/// Objects whose number a quota limits.
const COUNTED: [&str; 9] = [
    "pods",
    "services",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "services.nodeports",
    "services.loadbalancers",
];

pub(super) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        (!deleted).then(|| Task::Quotas(meta::text(object, "namespace").to_owned()))
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let present = write.present();
        let spec = object.field("spec");
        for (name, amount) in spec.field("hard").entries() {
            for why in form::qualified(name) {
                amount.invalid_as(&json!(name), why);
            }
            let counted = COUNTED.contains(&name);
            let measured = resources::is_measured(name) || name == "requests.storage";
            if !name.contains('/') && !counted && !measured && !name.contains("hugepages-") {
                amount.invalid_as(&json!(name), "must be a standard resource type or fully qualified");
                amount.invalid_as(&json!(name), "must be a standard resource for quota");
            }
            resources::quantity(name, &amount);
            if counted && amount.quantity().is_some_and(|amount| !amount.is_whole()) {
                amount.invalid("must be an integer");
            }
        }
        let scopes = spec.field("scopes");
        if let Some(present) = present
            && scopes.value != &present["spec"]["scopes"]
        {
            scopes.invalid("field is immutable");
        }
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in row.at("/status/hard").as_object().into_iter().flatten() {
            let used = row.at("/status/used")[resource.as_str()].as_str().unwrap_or("0");
            let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
            column.push(format!("{resource}: {used}/{}", plain(hard)));
        }
        Some(vec![row.name(), json!(requests.join(", ")), json!(limits.join(", ")), row.age()])
    }
}
