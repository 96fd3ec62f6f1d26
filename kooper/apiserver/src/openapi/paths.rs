//! The paths of a kind, and what may be asked of them.

use serde_json::{Map, Value, json};

use super::{SCHEMAS, schema_name};
use crate::kinds::{Kind, Subresource};
use crate::schema::published;

/// The types of a patch; strategic merges are for built-in kinds alone.
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// The verbs of the paths that name no object, and of those that name one: method and action.
const COLLECTION: [(&str, &str, &str); 3] =
    [("list", "get", "list"), ("create", "post", "post"), ("deletecollection", "delete", "deletecollection")];
const OBJECT: [(&str, &str, &str); 4] =
    [("get", "get", "get"), ("update", "put", "put"), ("patch", "patch", "patch"), ("delete", "delete", "delete")];

/// All paths of a kind, with their operations.
pub(super) fn of(kind: &Kind) -> Vec<(String, Value)> {
    let root = super::document_path(kind);
    let about = super::group_version_kind(kind, &kind.kind);
    let (one, list) = (schema_name(kind), format!("{}List", schema_name(kind)));
    let mut paths = Vec::new();
    let scope = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
    let all = format!("/{root}/{}", kind.resource);
    let collection = format!("/{root}/{scope}{}", kind.resource);
    let object = format!("{collection}/{{name}}");
    let operation = |action: &str| {
        let answer = if action == "list" { &list } else { &one };
        operation(kind, action, &about, &one, answer)
    };
    let operations = |verbs: &[(&str, &str, &str)]| -> Map<String, Value> {
        let served = verbs.iter().filter(|(verb, _, _)| kind.serves(verb));
        served.map(|(_, method, action)| ((*method).to_owned(), operation(action))).collect()
    };
    if kind.namespaced && kind.serves("list") {
        paths.push((all, json!({"get": operation("list")})));
    }
    for (path, operations) in [(collection, operations(&COLLECTION)), (object.clone(), operations(&OBJECT))] {
        if !operations.is_empty() {
            paths.push((path, Value::Object(operations)));
        }
    }
    for part in &kind.subresources {
        paths.push((format!("{object}/{}", part.name), subresource(kind, part)));
    }
    paths
}

fn subresource(kind: &Kind, part: &Subresource) -> Value {
    let (group, version) =
        part.group_version.as_ref().map_or((&kind.group, &kind.version), |(group, version)| (group, version));
    let about = json!({"group": group, "version": version, "kind": part.kind});
    let own = part.group_version.is_none() && part.kind == kind.kind;
    let schema = if own {
        schema_name(kind)
    } else {
        // Options of a connection have no schema.
        published::name_of(group, version, &part.kind).unwrap_or_default().to_owned()
    };
    let methods = [("get", "get"), ("create", "post"), ("update", "put"), ("patch", "patch"), ("delete", "delete")];
    let served = methods.iter().filter(|(verb, _)| part.verbs.iter().any(|other| other == verb));
    served.map(|(_, method)| ((*method).to_owned(), operation(kind, method, &about, &schema, &schema))).collect()
}

/// One operation: what it takes and answers, by the names of schemas.
fn operation(kind: &Kind, action: &str, about: &Value, body: &str, answer: &str) -> Value {
    let reference = |name: &str| {
        if name.is_empty() { json!({"type": "string"}) } else { json!({"$ref": format!("{SCHEMAS}{name}")}) }
    };
    let mut operation = json!({
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference(answer)}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": about
    });
    let text = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let flag = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "boolean", "uniqueItems": true}});
    let parameters: Vec<Value> = match action {
        "post" | "put" => ["dryRun", "fieldManager", "fieldValidation"].map(text).into(),
        "patch" => {
            let mut parameters: Vec<_> = ["dryRun", "fieldManager", "fieldValidation"].map(text).into();
            parameters.push(flag("force"));
            parameters
        }
        "delete" => ["dryRun", "propagationPolicy"].map(text).into(),
        "list" => ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion"].map(text).into(),
        _ => Vec::new(),
    };
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    match action {
        "post" | "put" => operation["requestBody"] = json!({"content": {"*/*": {"schema": reference(body)}}}),
        "patch" => {
            let strategic = |patch: &str| kind.custom.is_none() || !patch.contains("strategic");
            let any = json!({"schema": {"type": "object"}});
            let content: Map<String, Value> = PATCHES
                .iter()
                .filter(|patch| strategic(patch))
                .map(|patch| ((*patch).to_owned(), any.clone()))
                .collect();
            operation["requestBody"] = json!({"content": content});
        }
        _ => {}
    }
    operation
}
