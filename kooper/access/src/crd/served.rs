//! The fields that the API server stores for a kind, according to its OpenAPI.
//! Every identity may read that, even one that may not read CRDs.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kooper_runtime::internal::object::kind::KindInfo;
use kube::Client;
use serde_json::Value;
use tokio::time::sleep;

use super::advice::shortened;
use super::breaking::schema_of;

/// Maximum time until the OpenAPI includes a CRD that was just applied.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(3);

/// The fields of the program's type that the API server would drop from objects
/// because the CRD of the cluster does not have them; none if it does not serve
/// the kind.
pub async fn lacking(
    client: &Client,
    kind: &KindInfo,
    crd: &CustomResourceDefinition,
) -> Result<Vec<String>, kube::Error> {
    let Some(ours) = crd.spec.versions.iter().find(|version| version.name == kind.version).map(schema_of) else {
        return Ok(Vec::new());
    };
    let lacks = |theirs: Value| missing(&ours, &theirs);
    let mut fields = served(client, kind).await?.map(lacks);
    if fields.as_ref().is_none_or(|fields| !fields.is_empty()) {
        sleep(FOLLOWS_WITHIN).await;
        fields = served(client, kind).await?.map(lacks);
    }
    Ok(shortened(fields.unwrap_or_default()))
}

/// The warning about fields that the CRD of the cluster lacks.
#[must_use]
pub fn older(crd: &str, fields: &[String], apply: &str) -> String {
    format!(
        "the CRD `{crd}` in the cluster is older than the program's type: the API server drops {} from objects \
         without an error: apply the CRD with {apply}",
        fields.join(", ")
    )
}

/// The schema of a kind that the API server publishes.
async fn served(client: &Client, kind: &KindInfo) -> Result<Option<Value>, kube::Error> {
    let path = format!("/openapi/v3/apis/{}/{}", kind.group, kind.version);
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let mut document = match client.request::<Value>(request).await {
        Ok(document) => document,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_it = |name: &Value| {
        [("group", &kind.group), ("version", &kind.version), ("kind", &kind.kind)]
            .into_iter()
            .all(|(field, value)| name[field] == **value)
    };
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return Ok(None) };
    let schema = schemas.values_mut().find(|schema| {
        schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|names| names.iter().any(is_it))
    });
    Ok(schema.map(Value::take))
}

/// The fields of one schema that another does not keep.
fn missing(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(fields) = ours["properties"].as_object() {
        // The fields of every object are not part of a CRD.
        for (name, ours) in fields.iter().filter(|(name, _)| !["apiVersion", "kind", "metadata"].contains(&&***name)) {
            field(name, ours, &theirs["properties"][name], theirs, &mut found);
        }
    }
    found
}

fn field(path: &str, ours: &Value, theirs: &Value, parent: &Value, found: &mut Vec<String>) {
    match (theirs, &parent["additionalProperties"]) {
        (Value::Null, Value::Null | Value::Bool(false)) if !keeps_all(parent) => found.push(format!("`{path}`")),
        (Value::Null, any @ Value::Object(_)) => inside(path, ours, any, found),
        (Value::Null, _) => {}
        (theirs, _) => inside(path, ours, theirs, found),
    }
}

fn inside(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    if keeps_all(theirs) || theirs["additionalProperties"] == true {
        return;
    }
    for (name, ours) in ours["properties"].as_object().into_iter().flatten() {
        field(&format!("{path}.{name}"), ours, &theirs["properties"][name], theirs, found);
    }
    if ours["items"].is_object() && theirs["items"].is_object() {
        inside(&format!("{path}[]"), &ours["items"], &theirs["items"], found);
    }
    if ours["additionalProperties"].is_object() {
        field(&format!("{path}.*"), &ours["additionalProperties"], &Value::Null, theirs, found);
    }
}

/// Returns `true` if a schema preserves unknown fields.
fn keeps_all(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_the_server_would_drop_are_found_at_any_depth() {
        let text = || json!({"type": "string"});
        let object = |fields: Value| json!({"type": "object", "properties": fields});
        let map = |of: Value| json!({"type": "object", "additionalProperties": of});
        let list = |of: Value| json!({"type": "array", "items": of});
        let open = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let two = || object(json!({"a": text(), "b": text()}));
        let one = || object(json!({"a": text()}));
        for (ours, theirs, expected) in [
            (two(), one(), &["`spec.b`"][..]),
            (one(), two(), &[]),
            (list(two()), list(one()), &["`spec[].b`"]),
            (map(two()), map(one()), &["`spec.*.b`"]),
            (map(two()), one(), &["`spec.*`"]),
            (two(), map(text()), &[]),
            (two(), map(json!(true)), &[]),
            (two(), open(), &[]),
            (object(json!({"a": two()})), object(json!({"a": open()})), &[]),
            (object(json!({"a": two()})), map(one()), &["`spec.a.b`"]),
            (text(), json!({"type": "integer"}), &[]),
        ] {
            let of = |spec: &Value| object(json!({"metadata": {"type": "object"}, "spec": spec}));
            let mut served = of(&theirs);
            served["properties"]["metadata"] = json!({"allOf": [{"$ref": "#/components/schemas/ObjectMeta"}]});
            assert_eq!(missing(&of(&ours), &served), expected, "{ours} of {theirs}");
        }
        assert_eq!(
            missing(&object(json!({"spec": one(), "status": one()})), &object(json!({"spec": one()}))),
            ["`status`"]
        );
    }
}
