//! Events, in both of their groups.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::Strategy;
use crate::form;
use crate::time::age;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;

/// The fields that a new Event of `events.k8s.io` leaves to the old API.
const DEPRECATED: [(&str, &str); 4] = [
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("deprecatedSource", "source"),
];

/// Of the core group, or of `events.k8s.io`.
pub(super) struct Event {
    pub(super) core: bool,
}

impl Strategy for Event {
    fn field(&self, object: &Value, path: &str) -> Option<String> {
        if path != "source" {
            return None;
        }
        let component = object["source"].get("component").or_else(|| object.get("reportingComponent"));
        Some(component.and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    fn is_cached(&self) -> bool {
        false
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let core = self.core;
        let names = if core {
            Names { regarding: "involvedObject", controller: "reportingComponent", note: "message" }
        } else {
            Names { regarding: "regarding", controller: "reportingController", note: "note" }
        };
        common(object, &names, core);
        if core || write.present().is_some() {
            return;
        }
        object.field("eventTime").require_if(!object.field("eventTime").is_set(), "");
        let kind = object.field("type");
        if !matches!(kind.text(), "Normal" | "Warning") {
            kind.invalid_as(&json!(""), format!("has invalid value: {}", kind.text()));
        }
        for (field, shown) in DEPRECATED {
            let at = object.field(field);
            if !at.is_empty() && at.number() != Some(0) {
                at.named(shown.to_owned()).invalid_as(&json!(""), "needs to be unset");
            }
        }
        let series = object.field("series");
        if series.is_set() {
            if series.field("count").number().unwrap_or(0) < 2 {
                series.field("count").invalid_as(&json!(""), "should be at least 2");
            }
            series.field("lastObservedTime").require_if(!series.field("lastObservedTime").is_set(), "");
        }
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let since = |pointer: &str| Some(row.text(pointer)).filter(|time| !time.is_empty()).map(age);
        let unknown = || "<unknown>".to_owned();
        let first = since("/firstTimestamp").or_else(|| since("/eventTime")).unwrap_or_else(unknown);
        let in_series = row.at("/series").is_object();
        let last = if in_series {
            since("/series/lastObservedTime").unwrap_or_else(unknown)
        } else {
            since("/lastTimestamp").unwrap_or_else(|| first.clone())
        };
        let count = if in_series { row.number("/series/count") } else { row.number("/count").max(1) };
        let (kind, name) = (row.text("/involvedObject/kind").to_lowercase(), row.text("/involvedObject/name"));
        let target = if name.is_empty() { kind } else { format!("{kind}/{name}") };
        let either = |first: &str, second: &str| {
            let first = row.text(first);
            if first.is_empty() { row.text(second).to_owned() } else { first.to_owned() }
        };
        let component = either("/source/component", "/reportingComponent");
        let source = match either("/source/host", "/reportingInstance") {
            host if host.is_empty() => component,
            host => format!("{component}, {host}"),
        };
        Some(vec![
            json!(last),
            json!(row.text("/type")),
            json!(row.text("/reason")),
            json!(target),
            json!(row.text("/involvedObject/fieldPath")),
            json!(source),
            json!(row.text("/message").trim()),
            json!(first),
            json!(count),
            row.name(),
        ])
    }

    fn is_counted(&self) -> bool {
        false
    }
}

/// Field names that depend on the API group of an Event.
struct Names {
    regarding: &'static str,
    controller: &'static str,
    note: &'static str,
}

fn common(object: &FieldValue<'_>, names: &Names, core: bool) {
    let namespace = object.field("metadata.namespace").text();
    let regarding = object.field(names.regarding).field("namespace").named("involvedObject.namespace".to_owned());
    let mismatch = |at: &FieldValue<'_>| at.invalid_as(&json!(at.text()), "does not match event.namespace");
    if !object.field("eventTime").is_set() {
        let about_cluster = regarding.is_empty() && matches!(namespace, "" | "default");
        if !about_cluster && regarding.text() != namespace {
            mismatch(&regarding);
        }
        return;
    }
    if regarding.is_empty() && !matches!(namespace, "default" | "kube-system") {
        mismatch(&regarding);
    }
    let shown = if core { "reportingComponent" } else { "reportingController" };
    let controller = object.field(names.controller).named(shown.to_owned());
    controller.required("");
    controller.form_even_if_empty(form::qualified);
    for key in ["reportingInstance", "action", "reason"] {
        object.field(key).required("");
        shorter(&object.field(key), 128);
    }
    shorter(&object.field(names.note).named("message".to_owned()), 1024);
}

fn shorter(at: &FieldValue<'_>, most: usize) {
    if at.text().len() > most {
        at.invalid_as(&json!(""), format!("can have at most {most} characters"));
    }
}
