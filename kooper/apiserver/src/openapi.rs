//! OpenAPI v3: the schemas of custom kinds; those of built-in kinds are not served yet.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::core::Core;
use crate::http::Answer;

/// The index, or the document of one group and version.
pub(crate) fn answer(core: &Arc<Core>, path: Option<&str>) -> Answer {
    let kinds = core.kinds();
    let custom = kinds.iter().filter(|kind| kind.custom.is_some());
    let Some(path) = path else {
        let paths: Map<String, Value> = custom
            .map(|kind| {
                let path = format!("apis/{}/{}", kind.group, kind.version);
                let url = format!("/openapi/v3/{path}");
                (path, json!({"serverRelativeURL": url}))
            })
            .collect();
        return Answer::json(StatusCode::OK, &json!({"paths": paths}));
    };
    let of_path = custom.filter(|kind| format!("apis/{}/{}", kind.group, kind.version) == path);
    let schemas: Map<String, Value> = of_path
        .filter_map(|kind| {
            let mut schema = kind.custom.as_ref()?.schema().clone();
            let name = format!("{}.{}.{}", reversed(&kind.group), kind.version, kind.kind);
            for key in ["apiVersion", "kind"] {
                schema["properties"][key] = json!({"type": "string"});
            }
            schema["properties"]["metadata"] = json!({"type": "object"});
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
            Some((name, schema))
        })
        .collect();
    if schemas.is_empty() {
        return Answer::no_page();
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": {},
        "components": {"schemas": schemas}
    });
    Answer::json(StatusCode::OK, &document)
}

/// `io.example` for `example.io`.
fn reversed(group: &str) -> String {
    group.split('.').rev().collect::<Vec<_>>().join(".")
}
