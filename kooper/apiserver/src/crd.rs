//! Custom resource definitions: what they leave out, and what they must hold.

mod lists;
mod names;
mod nested;
mod paths;
mod structure;

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::schema::Candidate;
use crate::status::Cause;
use crate::{conditions, meta, schema, time};

pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
pub(crate) const GROUP: &str = "apiextensions.k8s.io";

/// Readies a definition: every version that ever stored objects is remembered.
pub(crate) fn prepare(object: &mut Value, present: Option<&Value>) {
    if present.is_none() {
        let stored: Vec<_> = stored_version(object).into_iter().collect();
        object["status"] = json!({
            "storedVersions": stored,
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""}
        });
    } else if let Some(version) = stored_version(object) {
        let known = object["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
        if !known.contains(&json!(version)) {
            let all: Vec<_> = known.into_iter().chain([json!(version)]).collect();
            object["status"]["storedVersions"] = json!(all);
        }
    }
}

pub(crate) fn versions(object: &Value) -> impl Iterator<Item = &Value> {
    object["spec"]["versions"].as_array().into_iter().flatten()
}

fn stored_version(object: &Value) -> Option<String> {
    let stored = versions(object).find(|version| version["storage"] == true);
    stored.and_then(|version| version["name"].as_str()).map(ToOwned::to_owned)
}

/// The rules that a definition violates.
pub(crate) fn validate(object: &Value, present: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let wanted = format!("{plural}.{group}");
    if present.is_none() && text("/metadata/name") != wanted {
        let why = "must be spec.names.plural+\".\"+spec.group".to_string();
        causes.push(Cause::invalid("metadata.name", &object["metadata"]["name"], why));
    }
    for (path, field) in [
        ("/spec/names/listKind", "spec.names.listKind"),
        ("/spec/names/singular", "spec.names.singular"),
        ("/spec/group", "spec.group"),
        ("/spec/names/plural", "spec.names.plural"),
        ("/spec/names/kind", "spec.names.kind"),
        ("/spec/scope", "spec.scope"),
    ] {
        if text(path).is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    names::check(object, present, &mut causes);
    if !matches!(text("/spec/scope"), "" | "Namespaced" | "Cluster") {
        let shown = object["spec"]["scope"].to_string();
        causes.push(Cause::not_supported("spec.scope", &shown, &["Cluster", "Namespaced"]));
    }
    if object["spec"]["preserveUnknownFields"] == true {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &json!(true), why));
    }
    if versions(object).filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &object["spec"]["versions"], why));
    }
    let stored = versions(object).filter(|version| version["storage"] == true).last();
    let known = &object["status"]["storedVersions"];
    match stored.map(|version| version["name"].as_str().unwrap_or_default()) {
        None if known.as_array().is_none_or(Vec::is_empty) => {
            let why = "must have at least one stored version";
            causes.push(Cause::invalid("status.storedVersions", &Value::Null, why));
        }
        Some(name) if !known.as_array().into_iter().flatten().any(|known| known == name) => {
            causes.push(Cause::invalid(
                "status.storedVersions",
                known,
                format!("must have the storage version {name}"),
            ));
        }
        _ => {}
    }
    for (index, version) in versions(object).enumerate() {
        let at = format!("spec.versions[{index}]");
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            causes.push(Cause::required(format!("{at}.schema.openAPIV3Schema"), ""));
        } else if schema["type"] != "object" {
            let why = "must be object at the root";
            causes.push(Cause::invalid(format!("{at}.schema.openAPIV3Schema.type"), &schema["type"], why));
        } else {
            // A schema that all versions have is validated once, at the place that v1beta1 had for it.
            let common = versions(object).all(|other| other["schema"] == version["schema"]);
            if common && index > 0 {
                continue;
            }
            let path = if common { "spec.validation".to_owned() } else { format!("{at}.schema") };
            let (path, before) = (format!("{path}.openAPIV3Schema"), causes.len());
            structure::check(schema, &path, &mut causes);
            let former = present.into_iter().flat_map(versions).find(|former| former["name"] == version["name"]);
            let is_unchanged = former.is_some_and(|former| former["schema"] == version["schema"]);
            let is_structural = causes.len() == before;
            let candidate = Candidate { schema, path: &path, is_structural, is_unchanged };
            causes.extend(schema::rule_mistakes(candidate));
        }
    }
    paths::check(object, &mut causes);
    if let Some(present) = present {
        check_immutable(object, present, &mut causes);
    }
    check_stored(object, &mut causes);
    causes
}

/// Reports changes of fields that stored objects depend on: the names of the resource, and the kind and scope once it was
/// served.
fn check_immutable(object: &Value, present: &Value, causes: &mut Vec<Cause>) {
    let served = conditions::has(present, "Established", "True");
    for (path, field, frozen) in [
        ("/spec/scope", "spec.scope", served),
        ("/spec/names/kind", "spec.names.kind", served),
        ("/spec/group", "spec.group", true),
        ("/spec/names/plural", "spec.names.plural", true),
    ] {
        let text = |object: &Value| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        if frozen && text(object) != text(present) {
            causes.push(Cause::invalid(field, &text(object).into(), "field is immutable"));
        }
    }
}

/// The versions that have stored objects are versions of the definition.
fn check_stored(object: &Value, causes: &mut Vec<Cause>) {
    let known = object["status"]["storedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for (index, name) in known.enumerate() {
        if !versions(object).any(|version| version["name"] == name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            causes.push(Cause::invalid(format!("status.storedVersions[{index}]"), &name.into(), why));
        }
    }
}

/// The order of versions in discovery: v2, v1, v1beta2, v1alpha1, others.
pub(crate) fn priority(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (name, rank) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(name) {
            return match (major.parse(), minor.parse()) {
                (Ok(major), Ok(minor)) => (rank, major, minor),
                _ => (0, 0, 0),
            };
        }
    }
    rest.parse().map_or((0, 0, 0), |major| (3, major, 0))
}

/// The warning for each request of a version, if that is deprecated. It names the newest one that is not.
pub(crate) fn deprecation(object: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(warning) = version["deprecationWarning"].as_str() {
        return Some(warning.to_owned());
    }
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let name = |version: &Value| text(&version["name"]);
    // Versions without a number are in alphabetical order.
    let rank = |version: &Value| (priority(&name(version)), Reverse(name(version)));
    let usable = versions(object).filter(|other| other["served"] == true && other["deprecated"] != true);
    let newest = usable.filter(|other| rank(other) > rank(version)).max_by_key(|other| rank(other));
    let advice = newest.map_or_else(String::new, |newest| format!("; use {group}/{} {kind}", name(newest)));
    Some(format!("{group}/{} {kind} is deprecated{advice}", name(version)))
}

/// Sets the deletion mark of a definition.
pub(crate) fn mark(object: &mut Value) {
    if meta::is_deleting(object) {
        return;
    }
    let now = time::now();
    meta::of(object).insert("deletionTimestamp".into(), json!(now));
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    });
    match &mut object["status"]["conditions"] {
        Value::Array(conditions) => conditions.push(condition),
        conditions => *conditions = json!([condition]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Cause, deprecation, validate};

    #[test]
    fn unknown_fields_are_preserved_by_a_schema_only() {
        let definition = json!({"spec": {"preserveUnknownFields": true}});
        let found: Vec<_> = validate(&definition, None).iter().map(Cause::text).collect();
        let expected = "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set \
                        x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        assert!(found.iter().any(|found| found == expected), "{found:?}");
    }

    #[test]
    fn a_deprecated_version_names_the_newest_one() {
        let version = |name: &str, old: bool| json!({"name": name, "served": true, "deprecated": old});
        let mut versions = vec![version("v1alpha1", true), version("v1beta1", false), version("v1", true)];
        let warning = |versions: &[Value], index: usize| {
            let spec = json!({"group": "a.example", "names": {"kind": "Shop"}, "versions": versions});
            deprecation(&json!({"spec": spec}), &versions[index])
        };
        assert_eq!(
            warning(&versions, 0).as_deref(),
            Some("a.example/v1alpha1 Shop is deprecated; use a.example/v1beta1 Shop")
        );
        assert_eq!(warning(&versions, 1), None);
        assert_eq!(warning(&versions, 2).as_deref(), Some("a.example/v1 Shop is deprecated"));
        versions[2]["deprecationWarning"] = json!("migrate");
        assert_eq!(warning(&versions, 2).as_deref(), Some("migrate"));
    }
}
