//! Fields that a CRD has.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::breaking::schema_of;

/// Returns `false` if the objects of a version have no field with these names. Those of the metadata are not part of the
/// schema.
pub(crate) fn has_field<'a>(
    crd: &CustomResourceDefinition,
    version: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> bool {
    let mut names = names.into_iter().peekable();
    if names.peek().is_some_and(|name| ["apiVersion", "kind", "metadata"].contains(name)) {
        return true;
    }
    let versions = &crd.spec.versions;
    versions.iter().find(|known| known.name == version).is_none_or(|version| has(&schema_of(version), names))
}

fn has<'a>(schema: &Value, mut names: impl Iterator<Item = &'a str>) -> bool {
    let Some(name) = names.next() else { return true };
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return true;
    }
    match (schema["properties"].get(name), &schema["additionalProperties"]) {
        (Some(field), _) | (None, field @ Value::Object(_)) => has(field, names),
        (None, any) => *any == true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_looked_for_in_the_schema_of_its_version() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"},
                "floors": {"type": "array", "items": {"type": "object", "properties": {"rooms": {"type": "integer"}}}},
                "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }},
        }});
        let crd = serde_json::from_value(json!({
            "metadata": {"name": "shops.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Shop", "plural": "shops"}, "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
                {"name": "v2", "served": true, "storage": false},
            ]},
        }));
        let crd: CustomResourceDefinition = crd.unwrap();
        let has = |path: &str| has_field(&crd, "v1", path.split('.'));
        for path in
            ["spec", "spec.size", "spec.floors", "spec.tags.any", "spec.free.any.any", "metadata.labels", "kind"]
        {
            assert!(has(path), "{path}");
        }
        for path in ["size", "status", "spec.sise", "spec.size.any", "spec.floors.rooms", "spec.tags.any.any"] {
            assert!(!has(path), "{path}");
        }
        assert!(has_field(&crd, "v2", ["any"]), "a version without a schema keeps all fields");
    }
}
