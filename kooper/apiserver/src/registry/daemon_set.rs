//! DaemonSets.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::{Allocation, Strategy, Update};
use super::warnings;
use crate::defaults::TEMPLATE_GENERATION;
use crate::kinds::Kind;
use crate::meta;
use crate::status::StatusError;
use crate::validate::field_value::FieldValue;
use crate::validate::share::{amount, at_most_all, count_or_percent};
use crate::validate::{Write, pod, selector};

pub(super) struct DaemonSet;

impl Strategy for DaemonSet {
    fn prepare_for_create(&self, _: &Kind, object: &mut Value, _: Allocation) -> Result<(), StatusError> {
        count_templates(object, None);
        Ok(())
    }

    fn prepare_for_update(&self, _: &Kind, object: &mut Value, update: Update<'_>) -> Result<(), StatusError> {
        count_templates(object, Some(update.present));
        Ok(())
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let spec = object.field("spec");
        let chosen = spec.field("selector");
        selector::validate(&chosen);
        let template = spec.field("template");
        if chosen.is_set() {
            selector::matches(chosen.value, &template, false);
            if chosen.field("matchLabels").is_empty() && chosen.field("matchExpressions").is_empty() {
                chosen.invalid("empty selector is invalid for daemonset");
            }
        } else {
            template.field("metadata.labels").invalid("`selector` does not match template `labels`");
        }
        pod::template(&template);
        pod::runs_for_ever(&template, "DaemonSet");
        spec.field("minReadySeconds").not_negative();
        spec.field("revisionHistoryLimit").not_negative();
        let rolling = spec.field("updateStrategy.rollingUpdate");
        if spec.field("updateStrategy.type").text() == "RollingUpdate" && rolling.is_set() {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            for at in [&unavailable, &surge] {
                count_or_percent(at);
                at_most_all(at);
            }
            match (amount(&unavailable) != 0, amount(&surge) != 0) {
                (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero"),
                (false, false) if unavailable.is_set() && surge.is_set() => {
                    unavailable.require("cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        if let Some(present) = write.present() {
            spec.field("selector").immutable(&present["spec"]["selector"]);
        }
    }

    fn warnings(&self, object: &Value, present: Option<&Value>) -> Vec<String> {
        let is_new = present.is_none_or(|present| present["spec"]["template"] != object["spec"]["template"]);
        if is_new { warnings::of_pods("spec.template", object) } else { Vec::new() }
    }

    /// Rows have none of the annotations that stand for fields.
    fn printed(&self, object: &Value) -> Option<Value> {
        let mut object = object.clone();
        drop_template_generation(&mut object);
        Some(object)
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let mut cells = vec![row.name()];
        for count in [
            "/status/desiredNumberScheduled",
            "/status/currentNumberScheduled",
            "/status/numberReady",
            "/status/updatedNumberScheduled",
            "/status/numberAvailable",
        ] {
            cells.push(json!(row.number(count)));
        }
        cells.extend([row.labels("/spec/template/spec/nodeSelector"), row.age()]);
        cells.extend(row.containers("/spec/template/spec/containers"));
        cells.push(row.selector("/spec/selector"));
        Some(cells)
    }
}

/// Counts the templates of a DaemonSet.
fn count_templates(set: &mut Value, present: Option<&Value>) {
    let counted = |set: &Value| {
        set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().and_then(|count| count.parse::<i64>().ok())
    };
    let generation = match present {
        None => counted(set).filter(|count| *count > 0).unwrap_or(1),
        Some(present) => {
            let changed = set["spec"]["template"] != present["spec"]["template"];
            counted(present).unwrap_or(1) + i64::from(changed)
        }
    };
    annotate(set, TEMPLATE_GENERATION, &generation.to_string());
}

/// Removes the annotation that stands for the field.
fn drop_template_generation(set: &mut Value) {
    let metadata = meta::of(set);
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove(TEMPLATE_GENERATION);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

fn annotate(object: &mut Value, key: &str, value: &str) {
    let annotations = meta::of(object).entry("annotations").or_insert_with(|| json!({}));
    annotations[key] = json!(value);
}
