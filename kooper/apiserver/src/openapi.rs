//! OpenAPI: in version 3, a document for each group and version, as far as clients read them.
//!
//! kubectl explains fields from the schemas, validates by the parameters that
//! a path names, and merges by the content types that it accepts.

mod paths;
pub(crate) mod v2;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::http::Answer;
use crate::kinds::Kind;
use crate::schema::published;

/// Prefix of references to schemas.
const SCHEMAS: &str = "#/components/schemas/";

/// The index, or the document of one group and version.
pub(crate) fn answer(cluster: &Arc<Cluster>, path: Option<&str>) -> Answer {
    let kinds = cluster.kinds();
    let Some(path) = path else {
        let paths: Map<String, Value> = kinds
            .iter()
            .map(|kind| {
                let path = document_path(kind);
                let url = format!("/openapi/v3/{path}");
                (path, json!({"serverRelativeURL": url}))
            })
            .collect();
        return Answer::json(StatusCode::OK, &json!({"paths": paths}));
    };
    let of_path: Vec<_> = kinds.iter().filter(|kind| document_path(kind) == path).cloned().collect();
    if of_path.is_empty() {
        return Answer::no_page();
    }
    Answer::bytes(StatusCode::OK, document(&of_path))
}

fn document_path(kind: &Kind) -> String {
    if kind.group.is_empty() { format!("api/{}", kind.version) } else { format!("apis/{}", kind.api_version()) }
}

/// The document of the kinds of one group and version.
fn document(kinds: &[Arc<Kind>]) -> Bytes {
    let paths: Map<String, Value> = kinds.iter().flat_map(|kind| paths::of(kind)).collect();
    let paths = Value::Object(paths).to_string();
    let mut definitions: BTreeMap<String, String> = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| kind.custom.is_some()) {
        let name = schema_name(kind);
        definitions.insert(format!("{name}List"), list_schema(kind, &name).to_string());
        definitions.insert(name, custom_schema(kind).to_string());
    }
    // Add the schemas that are referenced, directly or through others.
    let mut wanted: Vec<String> = referred(&paths).map(ToOwned::to_owned).collect();
    wanted.extend(definitions.values().flat_map(|text| referred(text)).map(ToOwned::to_owned).collect::<Vec<_>>());
    while let Some(name) = wanted.pop() {
        if !definitions.contains_key(&name)
            && let Some(text) = published::text(&name)
        {
            wanted.extend(referred(text).map(ToOwned::to_owned));
            definitions.insert(name, text.to_owned());
        }
    }
    let definitions: Vec<_> = definitions.iter().map(|(name, text)| format!("{}:{text}", json!(name))).collect();
    let definitions = definitions.join(",");
    format!(
        "{{\"openapi\":\"3.0.0\",\"info\":{{\"title\":\"Kubernetes\",\"version\":\"v1.36.3\"}},\"paths\":{paths},\
         \"components\":{{\"schemas\":{{{definitions}}}}}}}"
    )
    .into()
}

/// The names of the schemas that a JSON text refers to.
fn referred(text: &str) -> impl Iterator<Item = &str> {
    text.split(SCHEMAS).skip(1).filter_map(|rest| rest.split('"').next())
}

/// The name of a kind's schema: that of its Go type where it is built in, else its reversed group.
fn schema_name(kind: &Kind) -> String {
    if kind.custom.is_none()
        && let Some(name) = published::name_of(&kind.group, &kind.version, &kind.kind)
    {
        return name.to_owned();
    }
    let group: Vec<_> = kind.group.split('.').rev().collect();
    format!("{}.{}.{}", group.join("."), kind.version, kind.kind)
}

/// A custom schema, with the fields that every object has.
fn custom_schema(kind: &Kind) -> Value {
    let mut schema = kind.custom.as_ref().map(|definition| definition.schema().clone()).unwrap_or_default();
    for key in ["apiVersion", "kind"] {
        schema["properties"][key] = json!({"type": "string"});
    }
    schema["properties"]["metadata"] = meta_schema("ObjectMeta");
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind, &kind.kind)]);
    schema
}

fn list_schema(kind: &Kind, name: &str) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": meta_schema("ListMeta"),
            "items": {"type": "array", "items": {"$ref": format!("{SCHEMAS}{name}")}}
        },
        "x-kubernetes-group-version-kind": [group_version_kind(kind, &kind.list_kind)]
    })
}

fn meta_schema(name: &str) -> Value {
    json!({"allOf": [{"$ref": format!("{SCHEMAS}io.k8s.apimachinery.pkg.apis.meta.v1.{name}")}]})
}

fn group_version_kind(kind: &Kind, name: &str) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": name})
}
