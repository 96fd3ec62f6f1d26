//! OpenAPI v2, of which kubectl reads the encoding in protobuf: it validates manifests by it whose kind is `List`.

mod message;

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{custom_schema, list_schema, paths, schema_name};
use crate::cluster::Cluster;
use crate::http::Answer;
use crate::kinds::Kinds;
use crate::schema::published;

/// Prefix of references to schemas.
const DEFINITIONS: &str = "#/definitions/";

const JSON: &str = "application/json";
/// The media type of the document in protobuf, and the one that clients still request.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const OLD_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The document, in the first encoding of the Accept header that is served.
pub(crate) fn answer(cluster: &Cluster, accept: &str) -> Answer {
    let accept = if accept.is_empty() { JSON } else { accept };
    let mut ranges = accept.split(',').map(|range| range.split(';').next().unwrap_or_default().trim());
    let found = ranges.find(|range| matches!(*range, "*/*" | "application/*" | JSON | PROTOBUF | OLD_PROTOBUF));
    match found {
        Some(PROTOBUF | OLD_PROTOBUF) => Answer::bytes(StatusCode::OK, encoded(cluster)).with_content_type(PROTOBUF),
        Some(_) => Answer::json(StatusCode::OK, &document(&cluster.kinds())),
        None => Answer::text(StatusCode::NOT_ACCEPTABLE, ""),
    }
}

/// The document in protobuf, which is made again after the kinds have changed.
fn encoded(cluster: &Cluster) -> Bytes {
    let kinds = cluster.kinds();
    let mut last = cluster.openapi.lock();
    match &*last {
        // Kinds that others hold are never changed: a change makes others.
        Some((of, encoded)) if Arc::ptr_eq(of, &kinds) => encoded.clone(),
        _ => {
            let encoded = Bytes::from(message::of(&document(&kinds)));
            *last = Some((kinds, encoded.clone()));
            encoded
        }
    }
}

/// All paths and schemas.
fn document(kinds: &Kinds) -> Value {
    let all: Map<_, _> =
        kinds.iter().flat_map(|kind| paths::of(kind)).map(|(path, item)| (path, operations(&item))).collect();
    let mut definitions: Map<_, _> =
        published::all().map(|(name, definition)| (name.to_owned(), schema(definition))).collect();
    for kind in kinds.iter().filter(|kind| kind.custom.is_some()) {
        let name = schema_name(kind);
        definitions.insert(format!("{name}List"), schema(&list_schema(kind, &name)));
        definitions.insert(name, schema(&custom_schema(kind)));
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": all,
        "definitions": definitions
    })
}

/// The operations of a path.
fn operations(item: &Value) -> Value {
    let all = item.as_object().into_iter().flatten();
    all.map(|(method, operation)| (method.clone(), self::operation(operation))).collect()
}

fn operation(operation: &Value) -> Value {
    let answer = schema(&operation["responses"]["200"]["content"][JSON]["schema"]);
    let mut parameters: Vec<Value> = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let mut flat = json!({"name": parameter["name"], "in": parameter["in"]});
        for (key, value) in parameter["schema"].as_object().into_iter().flatten() {
            flat[key] = value.clone();
        }
        parameters.push(flat);
    }
    let bodies = operation["requestBody"]["content"].as_object();
    if let Some(body) = bodies.and_then(|bodies| bodies.values().next()) {
        parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": schema(&body["schema"])}));
    }
    let consumed: Vec<&String> = bodies.into_iter().flat_map(Map::keys).collect();
    let mut converted = json!({
        "consumes": if consumed.is_empty() { json!(["*/*"]) } else { json!(consumed) },
        "parameters": parameters,
        "produces": [JSON],
        "responses": {"200": {"description": "OK", "schema": answer}}
    });
    for (key, value) in operation.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with("x-")) {
        converted[key] = value.clone();
    }
    converted
}

/// A schema without what version 2 does not have, and what kubectl cannot read in it.
fn schema(of: &Value) -> Value {
    let Some(entries) = of.as_object() else { return of.clone() };
    if let Some(name) = published::reference(of) {
        return json!({"$ref": format!("{DEFINITIONS}{name}")});
    }
    let unknown = of["x-kubernetes-preserve-unknown-fields"] == true;
    let is_open = of["nullable"] == true || unknown;
    let mut converted = Map::new();
    for (key, value) in entries {
        let value = match key.as_str() {
            "allOf" | "oneOf" | "anyOf" | "not" | "nullable" => continue,
            "items" | "properties" if is_open => continue,
            "properties" => {
                value.as_object().into_iter().flatten().map(|(name, of)| (name.clone(), schema(of))).collect()
            }
            "items" | "additionalProperties" => schema(value),
            "required" => {
                let given = |name: &&Value| of["properties"][name.as_str().unwrap_or_default()]["nullable"] != true;
                value.as_array().into_iter().flatten().filter(given).cloned().collect()
            }
            _ => value.clone(),
        };
        converted.insert(key.clone(), value);
    }
    let untyped = of["nullable"] == true
        || unknown && of["type"] == "object"
        || of["type"] == "array" && !converted.contains_key("items");
    if untyped {
        converted.remove("type");
    } else if of["oneOf"].is_array() && !of["type"].is_string() {
        // Quantities and the like, of which a string is the general form.
        converted.insert("type".into(), "string".into());
    }
    Value::Object(converted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{encoded, schema};
    use crate::cluster::Cluster;

    #[test]
    fn the_document_is_made_once_for_the_same_kinds() {
        let cluster = Cluster::new("", String::new(), ([127, 0, 0, 1], 0).into(), false);
        let first = encoded(&cluster);
        assert_eq!(encoded(&cluster).as_ptr(), first.as_ptr());
        cluster.change_kinds(|_| ());
        assert_ne!(encoded(&cluster).as_ptr(), first.as_ptr());
    }

    #[test]
    fn schemas_keep_what_version_2_has() {
        let name = "io.k8s.api.core.v1.Pod";
        let (old, new) = (format!("#/components/schemas/{name}"), format!("#/definitions/{name}"));
        for (given, expected) in [
            (json!({"$ref": old}), json!({"$ref": new})),
            (json!({"allOf": [{"$ref": old}], "default": {}}), json!({"$ref": new})),
            (json!({"oneOf": [{"type": "string"}, {"type": "number"}]}), json!({"type": "string"})),
            (json!({"type": "string", "nullable": true, "maxLength": 3}), json!({"maxLength": 3})),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}),
                json!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
            (json!({"type": "array"}), json!({})),
            (
                json!({"type": "object", "required": ["a", "b"], "properties": {
                    "a": {"type": "string", "nullable": true}, "b": {"type": "array", "items": {"$ref": old}}
                }}),
                json!({"type": "object", "required": ["b"], "properties": {
                    "a": {}, "b": {"type": "array", "items": {"$ref": new}}
                }}),
            ),
            (
                json!({"type": "object", "additionalProperties": {"anyOf": [], "type": "integer"}}),
                json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            ),
        ] {
            assert_eq!(schema(&given), expected, "{given}");
        }
    }
}
