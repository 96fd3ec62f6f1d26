//! CustomResourceDefinitions.

use serde_json::Value;

use super::strategy::{Allocation, Reset, Strategy, Update};
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::task::Task;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;
use crate::{crd, meta};

pub(super) struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn reset(&self, subresource: &str) -> Option<Reset> {
        (subresource == "status").then_some(Reset::Fields(&[&["spec"]]))
    }

    fn prepare_for_create(&self, _: &Kind, object: &mut Value, _: Allocation) -> Result<(), StatusError> {
        crd::prepare(object, None);
        Ok(())
    }

    fn prepare_for_update(&self, _: &Kind, object: &mut Value, update: Update<'_>) -> Result<(), StatusError> {
        if !update.status {
            crd::prepare(object, Some(update.present));
        }
        Ok(())
    }

    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        let name = meta::text(object, "name").to_owned();
        Some(match (deleted, meta::is_deleting(object)) {
            (true, _) => Task::DropDefinition(name),
            (false, true) => Task::CleanUpDefinition(name),
            (false, false) => Task::Establish(name),
        })
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        crd::validate(object.value, write.present()).into_iter().for_each(|cause| object.add(cause));
    }
}
