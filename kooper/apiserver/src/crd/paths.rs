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
    use serde_json::json;

    use super::{Cause, check};

    #[test]
    fn what_all_versions_have_is_validated_once() {
        let version = json!({"subresources": {"scale": {"specReplicasPath": ".spec.replicas"}}});
        let mut causes = Vec::new();
        check(&json!({"spec": {"versions": [version, version]}}), &mut causes);
        let found: Vec<_> = causes.iter().map(Cause::text).collect();
        assert_eq!(found, ["spec.subresources.scale.statusReplicasPath: Required value"]);
    }
}
