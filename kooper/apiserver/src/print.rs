//! Tables, as `kubectl get` shows them.

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::time;

/// A table with a row for each object; columns are left out after the first part of a watch.
pub(crate) fn table<'a>(
    kind: &Kind,
    metadata: &Value,
    objects: impl Iterator<Item = &'a Value>,
    columns: bool,
) -> Value {
    let rows: Vec<_> = objects
        .map(|object| {
            let about = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
            json!({"cells": cells(kind, object), "object": about})
        })
        .collect();
    let definitions = if columns { json!(definitions(kind)) } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows
    })
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
                    may allow a client to request the generation of an appropriate name automatically. Name is primarily \
                    intended for creation idempotence and configuration definition. Cannot be updated. More info: \
                    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
                       not guaranteed to be set in happens-before order across separate operations. Clients may not set \
                       this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. \
                       Read-only. Null for lists. More info: \
                       https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

fn definitions(kind: &Kind) -> Vec<Value> {
    let column = |name: &str, kind: &str, format: &str, description: &str, priority: i64| json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority});
    let mut definitions = vec![column("Name", "string", "name", NAME, 0)];
    match &kind.custom {
        Some(definition) if !definition.columns.is_empty() => {
            for one in &definition.columns {
                definitions.push(column(&one.name, &one.kind, &one.format, &one.description, one.priority));
            }
        }
        Some(_) => definitions.push(column("Age", "date", "", CREATED, 0)),
        None => {
            for (name, kind, priority) in builtin(&kind.kind) {
                let description = if *name == "Age" { CREATED } else { "" };
                definitions.push(column(name, kind, "", description, *priority));
            }
        }
    }
    definitions
}

/// The columns behind the name of a built-in kind.
fn builtin(kind: &str) -> &'static [(&'static str, &'static str, i64)] {
    match kind {
        "ConfigMap" => &[("Data", "string", 0), ("Age", "string", 0)],
        "Secret" => &[("Type", "string", 0), ("Data", "string", 0), ("Age", "string", 0)],
        "Namespace" => &[("Status", "string", 0), ("Age", "string", 0)],
        "Pod" => &[
            ("Ready", "string", 0),
            ("Status", "string", 0),
            ("Restarts", "string", 0),
            ("Age", "string", 0),
            ("IP", "string", 1),
            ("Node", "string", 1),
            ("Nominated Node", "string", 1),
            ("Readiness Gates", "string", 1),
        ],
        "Deployment" => &[
            ("Ready", "string", 0),
            ("Up-to-date", "string", 0),
            ("Available", "string", 0),
            ("Age", "string", 0),
            ("Containers", "string", 1),
            ("Images", "string", 1),
            ("Selector", "string", 1),
        ],
        "Service" => &[
            ("Type", "string", 0),
            ("Cluster-IP", "string", 0),
            ("External-IP", "string", 0),
            ("Port(s)", "string", 0),
            ("Age", "string", 0),
            ("Selector", "string", 1),
        ],
        "Lease" => &[("Holder", "string", 0), ("Age", "string", 0)],
        "CustomResourceDefinition" => &[("Created At", "date", 0)],
        _ => &[("Age", "string", 0)],
    }
}

fn cells(kind: &Kind, object: &Value) -> Vec<Value> {
    let text = |path: &str| at(object, path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    let count = |path: &str| at(object, path).map_or(0, |value| value.as_object().map_or(0, serde_json::Map::len));
    let created = || json!(time::age(&text("/metadata/creationTimestamp")));
    let or_none = |text: String| json!(if text.is_empty() { "<none>".to_owned() } else { text });
    let mut cells = vec![json!(text("/metadata/name"))];
    match &kind.custom {
        Some(definition) if !definition.columns.is_empty() => {
            cells.extend(definition.columns.iter().map(|column| column.cell(object)));
            return cells;
        }
        Some(_) => {
            cells.push(created());
            return cells;
        }
        None => {}
    }
    cells.extend(match kind.kind.as_str() {
        "ConfigMap" => vec![json!(count("/data") + count("/binaryData")), created()],
        "Secret" => vec![json!(text("/type")), json!(count("/data")), created()],
        "Namespace" => vec![json!(text("/status/phase")), created()],
        "Pod" => pod_cells(object, created()),
        "Deployment" => {
            let containers = at(object, "/spec/template/spec/containers").and_then(Value::as_array);
            let all = |key: &str| {
                let names: Vec<_> = containers.into_iter().flatten().filter_map(|one| one[key].as_str()).collect();
                json!(names.join(","))
            };
            let selector = pairs(&object["spec"]["selector"]["matchLabels"]);
            vec![
                json!(format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas"))),
                json!(number("/status/updatedReplicas")),
                json!(number("/status/availableReplicas")),
                created(),
                all("name"),
                all("image"),
                json!(selector),
            ]
        }
        "Service" => {
            let ports = object["spec"]["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|port| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP")));
            vec![
                json!(text("/spec/type")),
                or_none(text("/spec/clusterIP")),
                json!("<none>"),
                or_none(ports.collect::<Vec<_>>().join(",")),
                created(),
                or_none(pairs(&object["spec"]["selector"])),
            ]
        }
        "Lease" => vec![json!(text("/spec/holderIdentity")), created()],
        "CustomResourceDefinition" => vec![json!(text("/metadata/creationTimestamp"))],
        _ => vec![created()],
    });
    cells
}

fn pod_cells(pod: &Value, created: Value) -> Vec<Value> {
    let statuses = pod["status"]["containerStatuses"].as_array();
    let ready = statuses.into_iter().flatten().filter(|status| status["ready"] == true).count();
    let restarts: i64 = statuses.into_iter().flatten().filter_map(|status| status["restartCount"].as_i64()).sum();
    let all = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let text = |value: &Value| json!(value.as_str().filter(|text| !text.is_empty()).unwrap_or("<none>"));
    let status = if pod["metadata"]["deletionTimestamp"].is_string() {
        json!("Terminating")
    } else {
        pod["status"].get("reason").unwrap_or(&pod["status"]["phase"]).clone()
    };
    vec![
        json!(format!("{ready}/{all}")),
        status,
        json!(restarts.to_string()),
        created,
        text(&pod["status"]["podIP"]),
        text(&pod["spec"]["nodeName"]),
        text(&pod["status"]["nominatedNodeName"]),
        json!("<none>"),
    ]
}

/// A map of labels as `a=b,c=d`.
fn pairs(labels: &Value) -> String {
    let pairs = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    object.pointer(pointer)
}
