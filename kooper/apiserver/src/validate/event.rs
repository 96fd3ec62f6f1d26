//! The rules of Events, in both of their groups.

use serde_json::{Value, json};

use super::at::At;
use crate::form;

/// The fields that a new Event of `events.k8s.io` leaves to the old API.
const DEPRECATED: [(&str, &str); 4] = [
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("deprecatedSource", "source"),
];

/// What the real server calls the fields of an Event, whatever its group.
struct Names {
    regarding: &'static str,
    controller: &'static str,
    note: &'static str,
}

pub(super) fn event(object: &At<'_>, group: &str, present: Option<&Value>) {
    let core = group.is_empty();
    let names = if core {
        Names { regarding: "involvedObject", controller: "reportingComponent", note: "message" }
    } else {
        Names { regarding: "regarding", controller: "reportingController", note: "note" }
    };
    common(object, &names, core);
    if core || present.is_some() {
        return;
    }
    if !object.field("eventTime").is_set() {
        object.field("eventTime").require("");
    }
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
        if !series.field("lastObservedTime").is_set() {
            series.field("lastObservedTime").require("");
        }
    }
}

fn common(object: &At<'_>, names: &Names, core: bool) {
    let namespace = object.field("metadata.namespace").text();
    let regarding = object.field(names.regarding).field("namespace").named("involvedObject.namespace".to_owned());
    let mismatch = |at: &At<'_>| at.invalid_as(&json!(at.text()), "does not match event.namespace");
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

fn shorter(at: &At<'_>, most: usize) {
    if at.text().len() > most {
        at.invalid_as(&json!(""), format!("can have at most {most} characters"));
    }
}
