//! The rows of the kinds that run pods, and of those that scale and protect them.

use serde_json::{Value, json};

use super::row::{Row, between, first, plain, selector_text};
use crate::time::age;

pub(super) fn deployment(row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers("/spec/template/spec/containers");
    vec![
        row.name(),
        json!(format!("{}/{}", row.number("/status/readyReplicas"), row.number("/spec/replicas"))),
        json!(row.number("/status/updatedReplicas")),
        json!(row.number("/status/availableReplicas")),
        row.age(),
        names,
        images,
        json!(selector_text(row.at("/spec/selector"))),
    ]
}

/// ReplicaSets, and ReplicationControllers, whose selector is a map of labels.
pub(super) fn replica_set(row: Row<'_>, by_labels: bool) -> Vec<Value> {
    let [names, images] = row.containers("/spec/template/spec/containers");
    vec![
        row.name(),
        json!(row.number("/spec/replicas")),
        json!(row.number("/status/replicas")),
        json!(row.number("/status/readyReplicas")),
        row.age(),
        names,
        images,
        if by_labels { row.labels("/spec/selector") } else { row.selector("/spec/selector") },
    ]
}

pub(super) fn stateful_set(row: Row<'_>) -> Vec<Value> {
    let ready = format!("{}/{}", row.number("/status/readyReplicas"), row.number("/spec/replicas"));
    let [names, images] = row.containers("/spec/template/spec/containers");
    vec![row.name(), json!(ready), row.age(), names, images]
}

pub(super) fn daemon_set(row: Row<'_>) -> Vec<Value> {
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
    cells
}

pub(super) fn job(row: Row<'_>) -> Vec<Value> {
    let succeeded = row.number("/status/succeeded");
    let parallelism = row.number("/spec/parallelism");
    let completions = match row.at("/spec/completions").as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let (start, end) = (row.text("/status/startTime"), row.text("/status/completionTime"));
    let lasted = match (start, end) {
        ("", _) => String::new(),
        (_, "") => age(start),
        _ => between(start, end),
    };
    let known = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let status = if let Some(end) = ["Complete", "Failed"].into_iter().find(|end| row.has_condition(end)) {
        end
    } else if row.is_deleting() {
        "Terminating"
    } else {
        known.into_iter().find(|state| row.has_condition(state)).unwrap_or("Running")
    };
    let mut cells = vec![row.name(), json!(status), json!(completions), json!(lasted), row.age()];
    cells.extend(row.containers("/spec/template/spec/containers"));
    cells.push(row.selector("/spec/selector"));
    cells
}

pub(super) fn cron_job(row: Row<'_>) -> Vec<Value> {
    let last = row.text("/status/lastScheduleTime");
    let suspended = match row.at("/spec/suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let mut cells = vec![
        row.name(),
        json!(row.text("/spec/schedule")),
        row.text_or("/spec/timeZone", "<none>"),
        json!(suspended),
        json!(row.count("/status/active")),
        json!(if last.is_empty() { "<none>".to_owned() } else { age(last) }),
        row.age(),
    ];
    cells.extend(row.containers("/spec/jobTemplate/spec/template/spec/containers"));
    cells.push(row.selector("/spec/jobTemplate/spec/selector"));
    cells
}

pub(super) fn pod_template(row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers("/template/spec/containers");
    vec![row.name(), names, images, row.labels("/template/metadata/labels")]
}

pub(super) fn controller_revision(row: Row<'_>) -> Vec<Value> {
    let owner = row.items("/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
    let controller = owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let text = |key: &str| owner[key].as_str().unwrap_or_default();
            let (group, kind) = (text("apiVersion").split_once('/'), text("kind").to_lowercase());
            let kind = group.map_or_else(|| kind.clone(), |(group, _)| format!("{kind}.{group}"));
            format!("{kind}/{}", text("name"))
        },
    );
    vec![row.name(), json!(controller), json!(row.number("/revision")), row.age()]
}

pub(super) fn disruption_budget(row: Row<'_>) -> Vec<Value> {
    let limit = |pointer: &str| {
        let limit = plain(row.at(pointer));
        json!(if limit.is_empty() { "N/A".to_owned() } else { limit })
    };
    let allowed = json!(row.number("/status/disruptionsAllowed"));
    vec![row.name(), limit("/spec/minAvailable"), limit("/spec/maxUnavailable"), allowed, row.age()]
}

/// In `autoscaling/v2`, in which autoscalers are stored.
pub(super) fn autoscaler(row: Row<'_>) -> Vec<Value> {
    let target = format!("{}/{}", row.text("/spec/scaleTargetRef/kind"), row.text("/spec/scaleTargetRef/name"));
    let least = row.at("/spec/minReplicas").as_i64().map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
    let current = row.items("/status/currentMetrics");
    let metrics: Vec<_> =
        row.items("/spec/metrics").iter().enumerate().map(|(index, spec)| metric(spec, current.get(index))).collect();
    let metrics = if metrics.is_empty() { "<none>".to_owned() } else { first(&metrics, 2, ", ") };
    vec![
        row.name(),
        json!(target),
        json!(metrics),
        json!(least),
        json!(row.number("/spec/maxReplicas")),
        json!(row.number("/status/currentReplicas")),
        row.age(),
    ]
}

/// What a metric is, and what it should be.
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
