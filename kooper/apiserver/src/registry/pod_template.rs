//! PodTemplates.

use serde_json::Value;

use super::row::Row;
use super::strategy::Strategy;
use super::warnings;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, pod};

pub(super) struct PodTemplate;

impl Strategy for PodTemplate {
    fn validate(&self, object: &FieldValue<'_>, _: Write<'_>) {
        pod::template(&object.field("template"));
    }

    fn warnings(&self, object: &Value, present: Option<&Value>) -> Vec<String> {
        warnings::of_template("template", object, present)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let [names, images] = row.containers("/template/spec/containers");
        Some(vec![row.name(), names, images, row.labels("/template/metadata/labels")])
    }
}
