//! Pods.

mod quality;
mod summary;
mod update;
mod usage;

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::{Allocation, Reset, Strategy, Update, keep};
use super::warnings;
use crate::amounts::Amounts;
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::task::Task;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, pod};
use crate::{meta, time};

pub(super) struct Pod;

impl Strategy for Pod {
    fn field(&self, object: &Value, path: &str) -> Option<String> {
        match path {
            "status.podIPs" => {
                let ips = object["status"]["podIPs"].as_array().into_iter().flatten();
                Some(ips.filter_map(|ip| ip["ip"].as_str()).collect::<Vec<_>>().join(","))
            }
            "spec.hostNetwork" => Some((object["spec"]["hostNetwork"] == true).to_string()),
            _ => None,
        }
    }

    fn ends_gracefully(&self) -> bool {
        true
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        match subresource {
            "status" => {
                Some(Reset::Fields(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]))
            }
            "ephemeralcontainers" => Some(Reset::AllBut(&[&["spec", "ephemeralContainers"]])),
            "resize" => Some(Reset::AllBut(&[
                &["spec", "containers", "*", "resources"],
                &["spec", "containers", "*", "resizePolicy"],
                &["spec", "initContainers", "*", "resources"],
                &["spec", "initContainers", "*", "resizePolicy"],
            ])),
            _ => None,
        }
    }

    fn prepare_for_create(&self, _: &Kind, object: &mut Value, _: Allocation) -> Result<(), StatusError> {
        set_status(object);
        Ok(())
    }

    fn prepare_for_update(&self, _: &Kind, object: &mut Value, update: Update<'_>) -> Result<(), StatusError> {
        if update.status {
            keep_owners_and_quality(object, update.present);
        }
        Ok(())
    }

    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        let has_ended = deleted || matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        has_ended.then(|| Task::Claims(meta::text(object, "namespace").to_owned()))
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        match write {
            Write::Create | Write::Status(_) => validate_new(object),
            Write::Update(present) => update::update(object, present),
            Write::EphemeralContainers(present) => update::update_ephemeral(object, present),
            Write::Resize(present) => update::resize(object, present),
        }
    }

    fn validate_status(&self, object: &FieldValue<'_>, present: &Value) {
        update::status(&object.field("status"), &present["status"]);
    }

    fn warnings(&self, object: &Value, present: Option<&Value>) -> Vec<String> {
        // Updates of pods are too many for warnings.
        if present.is_none() { warnings::of_workload("", object, None) } else { Vec::new() }
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(summary::cells(row))
    }

    fn conditions(&self, row: Row<'_>) -> Option<Value> {
        summary::conditions(row)
    }

    fn counts_for(&self, name: &str) -> bool {
        usage::is_counted(name)
    }

    fn add_usage(&self, object: &Value, used: &mut Amounts) {
        usage::add(object, used);
    }

    /// The resources of a pod are changed by its own subresource.
    fn may_change_usage(&self, object: &Value, present: &Value) -> bool {
        usage::is_terminating(object) != usage::is_terminating(present) || object["spec"] != present["spec"]
    }

    fn is_in_scope(&self, object: &Value, scope: &str, operator: &str, values: &Value) -> bool {
        usage::is_in_scope(object, scope, operator, values)
    }

    fn unnamed_usage(&self, object: &Value, limited: &[&str]) -> Option<String> {
        usage::unnamed(object, limited)
    }
}

/// Readies a new pod.
fn set_status(pod: &mut Value) {
    pod["status"] = json!({"phase": "Pending", "qosClass": quality::of(pod)});
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": time::now()
        }]);
    }
}

/// Takes over what a write of the status cannot change.
fn keep_owners_and_quality(pod: &mut Value, present: &Value) {
    keep(&mut pod["metadata"], &present["metadata"], "ownerReferences");
    if !pod["status"]["qosClass"].is_string()
        && let Some(class) = present["status"].get("qosClass")
    {
        pod["status"]["qosClass"] = class.clone();
    }
}

/// The rules of a new pod.
fn validate_new(object: &FieldValue<'_>) {
    let spec = object.field("spec");
    pod::spec(&spec);
    if !spec.field("ephemeralContainers").is_empty() {
        spec.field("ephemeralContainers").forbidden("cannot be set on create");
    }
    if !spec.field("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
        spec.field("nodeName").forbidden("cannot be set until all schedulingGates have been cleared");
    }
    validate_pods(&spec);
}

/// Validates rules for pods that do not apply to templates: images have no surrounding whitespace,
/// and service account tokens need an account.
fn validate_pods(spec: &FieldValue<'_>) {
    if spec.field("serviceAccountName").is_empty() {
        for source in spec.field("volumes").items().iter().flat_map(|volume| volume.field("projected.sources").items())
        {
            let why = "must not be specified when serviceAccountName is not set";
            source.field("serviceAccountToken").forbidden_if_set(why);
        }
    }
    for list in ["containers", "initContainers"] {
        for container in spec.field(list).items() {
            let image = container.field("image");
            image.invalid_if(image.text().trim() != image.text(), "must not have leading or trailing whitespace");
        }
    }
}
