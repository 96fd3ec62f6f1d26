//! HorizontalPodAutoscalers. Rows are made of `autoscaling/v2`, in which they are stored.

use serde_json::{Value, json};

use super::row::{Row, first, plain};
use super::strategy::Strategy;
use crate::form;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;

const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

pub(super) struct HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    fn validate(&self, object: &FieldValue<'_>, _: Write<'_>) {
        let spec = object.field("spec");
        let (least, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
        least.invalid_if(least.number().is_some_and(|number| number < 1), "must be greater than or equal to 1");
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
        let to_zero = |metric: &FieldValue<'_>| matches!(metric.field("type").text(), "Object" | "External");
        if least.number() == Some(0) && !metrics.items().iter().any(to_zero) {
            metrics
                .forbidden("must specify at least one Object or External metric to support scaling to zero replicas");
        }
        for metric in metrics.items() {
            validate_metric(&metric);
        }
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let target = format!("{}/{}", row.text("/spec/scaleTargetRef/kind"), row.text("/spec/scaleTargetRef/name"));
        let least =
            row.at("/spec/minReplicas").as_i64().map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
        let current = row.items("/status/currentMetrics");
        let metrics: Vec<_> = row
            .items("/spec/metrics")
            .iter()
            .enumerate()
            .map(|(index, spec)| metric(spec, current.get(index)))
            .collect();
        let metrics = if metrics.is_empty() { "<none>".to_owned() } else { first(&metrics, 2, ", ") };
        Some(vec![
            row.name(),
            json!(target),
            json!(metrics),
            json!(least),
            json!(row.number("/spec/maxReplicas")),
            json!(row.number("/status/currentReplicas")),
            row.age(),
        ])
    }
}

fn validate_metric(metric: &FieldValue<'_>) {
    let kind = metric.field("type");
    let Some((_, expected)) = SOURCES.iter().find(|(name, _)| *name == kind.text()) else {
        kind.required("must specify a metric source type");
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
    if matches!(*expected, "resource" | "containerResource") && metric.field(expected).is_set() {
        resource(&metric.field(expected));
    }
}

fn resource(source: &FieldValue<'_>) {
    source.field("name").required("must specify a resource name");
    let target = source.field("target");
    let kind = target.field("type");
    kind.required("must specify a metric target type");
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
    utilization.invalid_if(utilization.number().is_some_and(|number| number < 1), "must be greater than 0");
    match (utilization.is_set(), target.field("averageValue").is_set()) {
        (false, false) => utilization.require("must set either a target raw value or a target utilization"),
        (true, true) => {
            let why = "may not set both a target raw value and a target utilization";
            target.field("averageValue").forbidden(why);
        }
        _ => {}
    }
}

/// Formats the current and the desired value of a metric.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (key, named) = match spec["type"].as_str().unwrap_or_default() {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let source = &spec[key];
    let target = &source["target"];
    let current = |field: &str| {
        let found = status.map(|status| &status[key]["current"][field]).filter(|value| !value.is_null());
        found.map_or_else(|| "<unknown>".to_owned(), plain)
    };
    let name = if named { format!("{}: ", source["name"].as_str().unwrap_or_default()) } else { String::new() };
    if !target["averageValue"].is_null() {
        let mark = if matches!(key, "external" | "object") { " (avg)" } else { "" };
        return format!("{name}{}/{}{mark}", current("averageValue"), plain(&target["averageValue"]));
    }
    if !named {
        return format!("{}/{}", current("value"), plain(&target["value"]));
    }
    let percent = |text: String| if text.starts_with('<') { text } else { format!("{text}%") };
    let wanted = target["averageUtilization"].as_i64().map_or_else(|| "<auto>".to_owned(), |share| format!("{share}%"));
    format!("{name}{}/{wanted}", percent(current("averageUtilization")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::HorizontalPodAutoscaler;
    use crate::registry::row::Row;
    use crate::registry::strategy::Strategy;

    #[test]
    fn an_autoscaler_shows_its_metrics() {
        let metric = |share: i64| json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": share}}});
        let status = json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 30}}}]);
        let scaler = json!({
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "a"}, "metrics": [metric(50), metric(60), metric(70)]},
            "status": {"currentMetrics": status}
        });
        let cells = HorizontalPodAutoscaler.cells(Row(&scaler)).expect("it has columns");
        assert_eq!(cells[1..3], ["Deployment/a", "cpu: 30%/50%, cpu: <unknown>/60% + 1 more..."]);
    }
}
