//! Namespaces.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::{Allocation, Reset, Strategy, Update};
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::task::Task;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;
use crate::{form, meta};

pub(super) struct Namespace;

impl Strategy for Namespace {
    fn name_form(&self) -> form::Check {
        form::dns_label
    }

    fn keeps_spec(&self) -> bool {
        true
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        (subresource == "finalize").then_some(Reset::Fields(&[&["status"]]))
    }

    fn prepare_for_create(&self, _: &Kind, object: &mut Value, _: Allocation) -> Result<(), StatusError> {
        let mut finalizers = object["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
            finalizers.push(json!("kubernetes"));
        }
        object["spec"]["finalizers"] = json!(finalizers);
        object["status"] = json!({"phase": "Active"});
        name_label(object);
        Ok(())
    }

    fn prepare_for_update(&self, _: &Kind, object: &mut Value, _: Update<'_>) -> Result<(), StatusError> {
        name_label(object);
        Ok(())
    }

    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        let name = meta::text(object, "name").to_owned();
        match (deleted, meta::is_deleting(object)) {
            (true, _) => None,
            (false, true) => Some(Task::Namespace(name)),
            (false, false) => Some(Task::Provision(name)),
        }
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let finalizers = object.field("spec.finalizers");
        // Only a new namespace brings some here.
        for finalizer in finalizers.items().iter().filter(|_| write.present().is_none()) {
            mistakes(finalizer.text()).into_iter().for_each(|why| finalizers.invalid_as(finalizer.value, why));
        }
    }

    fn validate_status(&self, object: &FieldValue<'_>, _: &Value) {
        for finalizer in object.field("spec.finalizers").items() {
            mistakes(finalizer.text()).into_iter().for_each(|why| finalizer.invalid(why));
        }
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        Some(vec![row.name(), json!(row.text("/status/phase")), row.age()])
    }
}

/// The rules that the name of a finalizer violates.
fn mistakes(finalizer: &str) -> Vec<String> {
    let mut found = form::qualified(finalizer);
    if !finalizer.contains('/') && !meta::STANDARD_FINALIZERS.contains(&finalizer) {
        found.push("name is neither a standard finalizer name nor is it fully qualified".to_owned());
    }
    found
}

/// A namespace has its name as a label.
fn name_label(namespace: &mut Value) {
    let name = meta::text(namespace, "name").to_owned();
    let labels = meta::of(namespace).entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/metadata.name"] = json!(name);
}
