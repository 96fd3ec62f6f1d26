//! Rust's integers in the schemas of CRDs.
//!
//! Kubernetes knows integers of 32 and of 64 bits with a sign. It ignores the formats of
//! others, so that it would store numbers that do not decode.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// The smallest and the largest value of an integer by its format, as far as an integer
/// of Kubernetes can be beyond them.
pub(super) fn bounds(format: &str) -> (Option<f64>, Option<f64>) {
    let (least, most) = match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "uint8" => (0.0, u8::MAX.into()),
        "uint16" => (0.0, u16::MAX.into()),
        "uint32" => (0.0, u32::MAX.into()),
        "uint64" | "uint128" | "uint" => return (Some(0.0), None),
        _ => return (None, None),
    };
    (Some(least), Some(most))
}

/// The CRD with the limits of its integers, where the type has no narrower ones.
pub(crate) fn bounded(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()).for_each(bound);
    crd
}

fn bound(schema: &mut JSONSchemaProps) {
    let (least, most) = match (schema.type_.as_deref(), schema.format.as_deref()) {
        // Kubernetes checks the format of these itself.
        (_, Some("int32" | "int64")) => (None, None),
        (Some("integer"), Some(format)) => bounds(format),
        _ => (None, None),
    };
    if let Some(least) = least {
        schema.minimum = Some(schema.minimum.map_or(least, |own| own.max(least)));
    }
    if let Some(most) = most {
        schema.maximum = Some(schema.maximum.map_or(most, |own| own.min(most)));
    }
    schema.properties.iter_mut().flat_map(|fields| fields.values_mut()).for_each(bound);
    match schema.items.as_mut() {
        Some(JSONSchemaPropsOrArray::Schema(items)) => bound(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(bound),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(others)) = schema.additional_properties.as_mut() {
        bound(others);
    }
}

#[cfg(test)]
mod tests {
    use kube::{CustomResource, CustomResourceExt};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    use super::*;

    #[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Counter")]
    struct CounterSpec {
        a: u8,
        b: u16,
        c: u32,
        d: u64,
        e: usize,
        f: i8,
        g: i16,
        h: i32,
        i: i64,
        j: isize,
        #[schemars(range(min = 2, max = 7))]
        k: u32,
        l: Option<u32>,
        m: Vec<u32>,
        n: BTreeMap<String, u32>,
        p: std::num::NonZeroU32,
    }

    #[test]
    fn every_integer_has_the_limits_of_its_type() {
        let crd = serde_json::to_value(bounded(Counter::crd())).expect("JSON");
        let fields = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let limits = |schema: &Value| json!([schema["minimum"], schema["maximum"]]);
        let most = f64::from(u32::MAX);
        for (field, expected) in [
            ("a", json!([0.0, 255.0])),
            ("b", json!([0.0, 65_535.0])),
            ("c", json!([0.0, most])),
            ("d", json!([0.0, null])),
            ("e", json!([0.0, null])),
            ("f", json!([-128.0, 127.0])),
            ("g", json!([-32_768.0, 32_767.0])),
            ("h", json!([null, null])),
            ("i", json!([null, null])),
            ("j", json!([null, null])),
            ("k", json!([2.0, 7.0])),
            ("l", json!([0.0, most])),
            ("p", json!([1.0, most])),
        ] {
            assert_eq!(limits(&fields[field]), expected, "{field}: {}", fields[field]);
        }
        assert_eq!(limits(&fields["m"]["items"]), json!([0.0, most]));
        assert_eq!(limits(&fields["n"]["additionalProperties"]), json!([0.0, most]));
    }
}
