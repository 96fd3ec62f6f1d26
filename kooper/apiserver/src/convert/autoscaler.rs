//! HorizontalPodAutoscalers: `autoscaling/v1` has one metric, and annotations for what else `autoscaling/v2` has.

use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ANNOTATIONS: [&str; 4] = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR];

/// The order in which the API writes the members of what is in annotations.
const ORDER: &str = "type status lastTransitionTime reason message object pods resource containerResource external \
    kind name apiVersion target metricName metricSelector targetValue currentValue targetAverageUtilization \
    targetAverageValue currentAverageUtilization currentAverageValue selector averageValue container ScaleUp \
    ScaleDown StabilizationWindowSeconds SelectPolicy Policies Tolerance Type Value PeriodSeconds";

type Entries = Map<String, Value>;

/// Of `autoscaling/v1`, in `autoscaling/v2`.
pub(super) fn to_v2(scaler: &mut Entries) {
    let annotations = take_annotations(scaler);
    let read = |key: &str| annotations.get(key).and_then(|text| serde_json::from_str::<Value>(text.as_str()?).ok());
    let list = |key: &str| read(key).and_then(|value| value.as_array().cloned());
    let mut metrics: Vec<Value> = list(METRICS).unwrap_or_default().iter().map(spec_to_v2).collect();
    if let Some(Value::Object(spec)) = scaler.get_mut("spec") {
        if let Some(share) = spec.remove("targetCPUUtilizationPercentage") {
            metrics.push(processor("target", &json!({"type": "Utilization", "averageUtilization": share})));
        }
        if metrics.is_empty() {
            metrics.push(processor("target", &json!({"type": "Utilization", "averageUtilization": 80})));
        }
        spec.insert("metrics".to_owned(), json!(metrics));
        if let Some(behavior) = read(BEHAVIOR) {
            spec.insert("behavior".to_owned(), lower(&behavior));
        }
    }
    let current = list(CURRENT_METRICS).map(|all| all.iter().map(status_to_v2).collect::<Vec<_>>());
    let Some(Value::Object(status)) = scaler.get_mut("status") else { return };
    let share = status.remove("currentCPUUtilizationPercentage");
    let share = share.map(|share| vec![processor("current", &json!({"averageUtilization": share}))]);
    status.insert("currentMetrics".to_owned(), json!(current.or(share)));
    if let Some(conditions) = list(CONDITIONS) {
        status.insert("conditions".to_owned(), json!(conditions));
    }
}

/// Of `autoscaling/v2`, in `autoscaling/v1`.
pub(super) fn to_v1(scaler: &mut Entries) {
    take_annotations(scaler);
    let mut annotations = Vec::new();
    if let Some(Value::Object(spec)) = scaler.get_mut("spec") {
        let (own, others): (Vec<_>, Vec<_>) =
            list_of(spec.remove("metrics")).into_iter().partition(|metric| is_processor(metric, "target"));
        if let Some(metric) = own.first() {
            let share = metric["resource"]["target"]["averageUtilization"].clone();
            spec.insert("targetCPUUtilizationPercentage".to_owned(), share);
        }
        if !others.is_empty() {
            let metrics: Value = others.iter().map(|metric| to_v1_metric(metric, "target")).collect();
            annotations.push((METRICS, written(&metrics)));
        }
        if let Some(behavior) = spec.remove("behavior") {
            annotations.push((BEHAVIOR, written(&upper(&behavior))));
        }
    }
    if let Some(Value::Object(status)) = scaler.get_mut("status") {
        let current = list_of(status.remove("currentMetrics"));
        if let Some(metric) = current.iter().rev().find(|metric| is_processor(metric, "current")) {
            let share = metric["resource"]["current"]["averageUtilization"].clone();
            status.insert("currentCPUUtilizationPercentage".to_owned(), share);
        }
        if !current.is_empty() {
            let metrics: Value = current.iter().map(|metric| to_v1_metric(metric, "current")).collect();
            annotations.push((CURRENT_METRICS, written(&metrics)));
        }
        let conditions = list_of(status.remove("conditions"));
        if !conditions.is_empty() {
            annotations.push((CONDITIONS, written(&json!(conditions))));
        }
    }
    if annotations.is_empty() {
        return;
    }
    let metadata = scaler.entry("metadata").or_insert_with(|| json!({}));
    for (key, text) in annotations {
        metadata["annotations"][key] = json!(text);
    }
}

/// Removes the annotations that stand for fields.
fn take_annotations(scaler: &mut Entries) -> Entries {
    let mut taken = Map::new();
    let Some(Value::Object(metadata)) = scaler.get_mut("metadata") else { return taken };
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        for key in ANNOTATIONS {
            taken.extend(annotations.remove(key).map(|value| (key.to_owned(), value)));
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    taken
}

fn list_of(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// The metric of the processor's use.
fn processor(part: &str, value: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", part: value}})
}

fn is_processor(metric: &Value, part: &str) -> bool {
    let resource = &metric["resource"];
    metric["type"] == "Resource" && resource["name"] == "cpu" && !resource[part]["averageUtilization"].is_null()
}

/// Where the source of a metric is, and what it has.
fn source(metric: &Value) -> Option<(&'static str, &Value)> {
    let keys = ["object", "pods", "resource", "containerResource", "external"];
    keys.into_iter().find_map(|key| metric.get(key).map(|source| (key, source)))
}

/// Members that are not `null`.
fn members<const N: usize>(all: [(&str, Value); N]) -> Value {
    all.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
}

fn with_source(metric: &Value, key: &str, source: &Value) -> Value {
    json!({"type": metric["type"], key: source})
}

/// `part` is where the values are: `target` in the spec, `current` in the status.
fn to_v1_metric(metric: &Value, part: &str) -> Value {
    let Some((key, source)) = source(metric) else { return metric.clone() };
    let (values, about) = (&source[part], &source["metric"]);
    let [value, average, share] = ["Value", "AverageValue", "AverageUtilization"].map(|name| format!("{part}{name}"));
    let or_zero = |value: &Value| if value.is_null() { json!("0") } else { value.clone() };
    let current = |value: &Value| if part == "current" { or_zero(value) } else { value.clone() };
    let source = match key {
        "object" => members([
            ("target", source["describedObject"].clone()),
            ("metricName", about["name"].clone()),
            (&*value, or_zero(&values["value"])),
            ("selector", about["selector"].clone()),
            ("averageValue", values["averageValue"].clone()),
        ]),
        "pods" => members([
            ("metricName", about["name"].clone()),
            (&*average, or_zero(&values["averageValue"])),
            ("selector", about["selector"].clone()),
        ]),
        "external" => members([
            ("metricName", about["name"].clone()),
            ("metricSelector", about["selector"].clone()),
            (&*value, current(&values["value"])),
            (&*average, values["averageValue"].clone()),
        ]),
        _ => members([
            ("name", source["name"].clone()),
            ("container", source["container"].clone()),
            (&*share, values["averageUtilization"].clone()),
            (&*average, current(&values["averageValue"])),
        ]),
    };
    with_source(metric, key, &source)
}

fn spec_to_v2(metric: &Value) -> Value {
    let Some((key, source)) = source(metric) else { return metric.clone() };
    let about =
        |selector: &str| members([("name", source["metricName"].clone()), ("selector", source[selector].clone())]);
    let target = |kind: &str, value: &Value, average: &Value, share: &Value| {
        members([
            ("type", json!(kind)),
            ("value", value.clone()),
            ("averageValue", average.clone()),
            ("averageUtilization", share.clone()),
        ])
    };
    let none = &Value::Null;
    let (value, average, share) =
        (&source["targetValue"], &source["targetAverageValue"], &source["targetAverageUtilization"]);
    let source = match key {
        "object" => {
            let average = &source["averageValue"];
            let (kind, value) = match (average.is_null(), value == "0") {
                (true, _) => ("Value", value),
                (false, true) => ("AverageValue", none),
                (false, false) => ("AverageValue", value),
            };
            json!({
                "describedObject": source["target"],
                "metric": about("selector"),
                "target": target(kind, value, average, none)
            })
        }
        "pods" => json!({"metric": about("selector"), "target": target("AverageValue", none, average, none)}),
        "external" => {
            let kind = if value.is_null() { "AverageValue" } else { "Value" };
            json!({"metric": about("metricSelector"), "target": target(kind, value, average, none)})
        }
        _ => {
            let kind = if share.is_null() { "AverageValue" } else { "Utilization" };
            members([
                ("name", source["name"].clone()),
                ("container", source["container"].clone()),
                ("target", target(kind, none, average, share)),
            ])
        }
    };
    with_source(metric, key, &source)
}

fn status_to_v2(metric: &Value) -> Value {
    let Some((key, source)) = source(metric) else { return metric.clone() };
    let about =
        |selector: &str| members([("name", source["metricName"].clone()), ("selector", source[selector].clone())]);
    let (value, average) = (source["currentValue"].clone(), source["currentAverageValue"].clone());
    let source = match key {
        "object" => json!({
            "describedObject": source["target"],
            "metric": about("selector"),
            "current": members([("value", value), ("averageValue", source["averageValue"].clone())])
        }),
        "pods" => json!({"metric": about("selector"), "current": members([("averageValue", average)])}),
        "external" => json!({
            "metric": about("metricSelector"),
            "current": members([("value", value), ("averageValue", average)])
        }),
        _ => members([
            ("name", source["name"].clone()),
            ("container", source["container"].clone()),
            (
                "current",
                members([
                    ("averageValue", average),
                    ("averageUtilization", source["currentAverageUtilization"].clone()),
                ]),
            ),
        ]),
    };
    with_source(metric, key, &source)
}

/// Behaviour as the annotation has it: with the names of Go, and `null` for what is absent.
fn upper(behavior: &Value) -> Value {
    let rules = |rules: &Value| {
        if rules.is_null() {
            return Value::Null;
        }
        let policies = rules["policies"].as_array().map(|all| {
            let policy = |one: &Value| json!({"Type": one["type"], "Value": one["value"], "PeriodSeconds": one["periodSeconds"]});
            all.iter().map(policy).collect::<Vec<_>>()
        });
        json!({
            "StabilizationWindowSeconds": rules["stabilizationWindowSeconds"],
            "SelectPolicy": rules["selectPolicy"],
            "Policies": policies,
            "Tolerance": rules["tolerance"]
        })
    };
    json!({"ScaleUp": rules(&behavior["scaleUp"]), "ScaleDown": rules(&behavior["scaleDown"])})
}

/// Reverts [`upper`]: restores the field names of the API.
fn lower(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let named = entries.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
                let mut key = key.clone();
                if let Some(first) = key.get_mut(..1) {
                    first.make_ascii_lowercase();
                }
                (key, lower(value))
            });
            named.collect()
        }
        Value::Array(items) => items.iter().map(lower).collect(),
        other => other.clone(),
    }
}

/// JSON with its members in the order of the API's types.
fn written(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            let rank = |key: &str| ORDER.split(' ').position(|other| other == key).unwrap_or(usize::MAX);
            entries.sort_by_key(|(key, _)| rank(key));
            let members: Vec<_> =
                entries.iter().map(|(key, value)| format!("{}:{}", json!(key), written(value))).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
