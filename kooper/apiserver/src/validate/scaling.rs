//! The rules of autoscalers and disruption budgets.

use serde_json::json;

use super::at::At;
use super::selector;
use super::workload::{at_most_all, count_or_percent};
use crate::form;

pub(super) fn disruption_budget(object: &At<'_>) {
    let spec = object.field("spec");
    let (available, unavailable) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if available.is_set() && unavailable.is_set() {
        // The real server shows its own form of the spec.
        let shown = format!(
            r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
            available.value,
            spec.field("selector").value,
            unavailable.value,
            spec.field("unhealthyPodEvictionPolicy").value
        );
        spec.invalid_shown(&shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for amount in [&available, &unavailable] {
        count_or_percent(amount);
        at_most_all(amount);
    }
    selector::validate(&spec.field("selector"));
    spec.field("unhealthyPodEvictionPolicy").one_of(&["AlwaysAllow", "IfHealthyBudget"]);
}

const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

pub(super) fn autoscaler(object: &At<'_>) {
    let spec = object.field("spec");
    let (least, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if least.number().is_some_and(|number| number < 1) {
        least.invalid("must be greater than or equal to 1");
    }
    let number = most.number().unwrap_or(0);
    if number == 0 {
        most.require("must be set and greater than 0");
    } else if number < 0 {
        most.invalid("must be greater than or equal to 1");
    }
    if number < least.number().unwrap_or(1) {
        most.invalid_as(&json!(number), "must be greater than or equal to `minReplicas`");
    }
    let target = spec.field("scaleTargetRef");
    for key in ["kind", "name"] {
        target.field(key).name(form::path_segment);
    }
    let version = target.field("apiVersion");
    if !version.text().contains('/') {
        version.invalid_as(&json!(version.text()), "apiVersion must specify API group");
    }
    let metrics = spec.field("metrics");
    let to_zero = |metric: &At<'_>| matches!(metric.field("type").text(), "Object" | "External");
    if least.number() == Some(0) && !metrics.items().iter().any(to_zero) {
        metrics.forbidden("must specify at least one Object or External metric to support scaling to zero replicas");
    }
    for metric in metrics.items() {
        self::metric(&metric);
    }
}

fn metric(metric: &At<'_>) {
    let kind = metric.field("type");
    let Some((_, expected)) = SOURCES.iter().find(|(name, _)| *name == kind.text()) else {
        if kind.is_empty() {
            kind.require("must specify a metric source type");
        }
        let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
        // The real server reports it twice.
        kind.not_supported(&known);
        return kind.not_supported(&known);
    };
    let given: Vec<_> = SOURCES.iter().filter(|(_, key)| metric.field(key).is_set()).collect();
    if !metric.field(expected).is_set() {
        metric.field(expected).require("must populate information for the given metric source");
    }
    if given.len() != 1 {
        for (_, key) in given.iter().filter(|(_, key)| key != expected) {
            metric.field(key).forbidden("must populate the given metric source only");
        }
    }
    if let ("resource" | "containerResource", true) = (*expected, metric.field(expected).is_set()) {
        resource(&metric.field(expected));
    }
}

fn resource(source: &At<'_>) {
    source.field("name").required("must specify a resource name");
    let target = source.field("target");
    let kind = target.field("type");
    if kind.is_empty() {
        kind.require("must specify a metric target type");
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid_as(&json!(kind.text()), "must be either Utilization, Value, or AverageValue");
    }
    for key in ["value", "averageValue"] {
        let amount = target.field(key);
        if amount.quantity().is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
            amount.invalid("must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.number().is_some_and(|number| number < 1) {
        utilization.invalid("must be greater than 0");
    }
    match (utilization.is_set(), target.field("averageValue").is_set()) {
        (false, false) => utilization.require("must set either a target raw value or a target utilization"),
        (true, true) => {
            let why = "may not set both a target raw value and a target utilization";
            target.field("averageValue").forbidden(why);
        }
        _ => {}
    }
}
