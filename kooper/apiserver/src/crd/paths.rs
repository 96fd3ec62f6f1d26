//! The paths by which a definition finds what the scale and the columns of its objects show.

use serde_json::Value;

use super::versions;
use crate::cause::Cause;

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const NO_PATH: &str = "must be a simple json path starting with .";

/// The rules that the scale and the columns violate.
pub(super) fn check(object: &Value, causes: &mut Vec<Cause>) {
    for (index, version) in versions(object).enumerate() {
        // A value that all versions have is validated once, at the place that v1beta1 had for it.
        let place = |member: &str| match versions(object).all(|other| other[member] == version[member]) {
            true if index > 0 => None,
            true => Some(format!("spec.{member}")),
            false => Some(format!("spec.versions[{index}].{member}")),
        };
        if let Some(path) = place("subresources") {
            check_scale(&version["subresources"]["scale"], &format!("{path}.scale"), causes);
        }
        if let Some(path) = place("additionalPrinterColumns") {
            for (index, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
                check_column(column, &format!("{path}[{index}]"), causes);
            }
        }
    }
}

fn check_scale(scale: &Value, path: &str, causes: &mut Vec<Cause>) {
    if !scale.is_object() {
        return;
    }
    for (key, below, why) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ] {
        let field = format!("{path}.{key}");
        match scale[key].as_str().unwrap_or_default() {
            "" if key == "labelSelectorPath" => {}
            "" => causes.push(Cause::required(field, "")),
            found if !found.starts_with('.') => causes.push(Cause::invalid(field, &scale[key], NO_PATH)),
            found if below.iter().any(|below| found.starts_with(*below)) => {}
            _ => causes.push(Cause::invalid(field, &scale[key], why)),
        }
    }
}

fn check_column(column: &Value, path: &str, causes: &mut Vec<Cause>) {
    let text = |key: &str| column[key].as_str().unwrap_or_default();
    let one_of = |known: &[&str]| format!("must be one of {}", known.join(","));
    if text("name").is_empty() {
        causes.push(Cause::required(format!("{path}.name"), ""));
    }
    match text("type") {
        "" => causes.push(Cause::required(format!("{path}.type"), one_of(&TYPES))),
        found if TYPES.contains(&found) => {}
        _ => causes.push(Cause::invalid(format!("{path}.type"), &column["type"], one_of(&TYPES))),
    }
    if !text("format").is_empty() && !FORMATS.contains(&text("format")) {
        causes.push(Cause::invalid(format!("{path}.format"), &column["format"], one_of(&FORMATS)));
    }
    match text("jsonPath") {
        "" => causes.push(Cause::required(format!("{path}.JSONPath"), "")),
        found if found.starts_with('.') => {}
        _ => causes.push(Cause::invalid(format!("{path}.JSONPath"), &column["jsonPath"], NO_PATH)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Cause, check};

    fn mistakes(versions: &Value) -> Vec<String> {
        let mut causes = Vec::new();
        check(&json!({"spec": {"versions": versions}}), &mut causes);
        causes.iter().map(Cause::text).collect()
    }

    #[test]
    fn a_scale_is_below_the_spec_and_the_status() {
        let scale = json!({"specReplicasPath": "spec.replicas", "labelSelectorPath": ".metadata.labels"});
        let version = json!({"subresources": {"scale": scale}});
        let expected = [
            "spec.subresources.scale.specReplicasPath: Invalid value: \"spec.replicas\": must be a simple json path \
             starting with .",
            "spec.subresources.scale.statusReplicasPath: Required value",
            "spec.subresources.scale.labelSelectorPath: Invalid value: \".metadata.labels\": should be a json path under \
             either .spec or .status",
        ];
        assert_eq!(mistakes(&json!([version, version])), expected);
        let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".spec.replicas"});
        let expected = "spec.versions[0].subresources.scale.statusReplicasPath: Invalid value: \".spec.replicas\": should \
                        be a json path under .status";
        assert_eq!(mistakes(&json!([{"subresources": {"scale": scale}}, {}])), [expected]);
    }

    #[test]
    fn a_column_has_a_known_type_and_a_path() {
        let column = |kind: &str, path: &str| json!({"name": "Size", "type": kind, "jsonPath": path});
        let columns = json!([column("integer", ".spec.size"), column("int", "spec.size"), {"format": "short"}]);
        let types = "must be one of boolean,date,integer,number,string";
        let expected = [
            format!("spec.additionalPrinterColumns[1].type: Invalid value: \"int\": {types}"),
            "spec.additionalPrinterColumns[1].JSONPath: Invalid value: \"spec.size\": must be a simple json path starting \
             with ."
                .to_owned(),
            "spec.additionalPrinterColumns[2].name: Required value".to_owned(),
            format!("spec.additionalPrinterColumns[2].type: Required value: {types}"),
            "spec.additionalPrinterColumns[2].format: Invalid value: \"short\": must be one of \
             byte,date,date-time,double,float,int32,int64,password"
                .to_owned(),
            "spec.additionalPrinterColumns[2].JSONPath: Required value".to_owned(),
        ];
        assert_eq!(mistakes(&json!([{"additionalPrinterColumns": columns}])), expected);
    }
}
