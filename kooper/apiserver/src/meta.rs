//! The rules of `metadata`, the same for all kinds.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::cause::Cause;
use crate::form;
use crate::kinds::Kind;
use crate::status::StatusError;

/// Members of `metadata`; others are dropped.
const KNOWN: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Metadata fields that only the server sets.
pub(crate) const SYSTEM: [&str; 6] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"];

/// The finalizers that Kubernetes itself has.
pub(crate) const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// The longest base that a generated suffix of five characters fits behind.
const GENERATED_BASE: usize = 58;

/// The metadata of an object, made if it is absent.
pub(crate) fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    match &mut object["metadata"] {
        Value::Object(metadata) => metadata,
        // It was made an object above.
        _ => unreachable!("metadata is an object"),
    }
}

pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Changes the finalizers; without any, there is no list of them.
pub(crate) fn change_finalizers(object: &mut Value, change: impl FnOnce(&mut Vec<String>)) {
    let mut all: Vec<_> = finalizers(object).into_iter().map(ToOwned::to_owned).collect();
    change(&mut all);
    if all.is_empty() {
        of(object).remove("finalizers");
    } else {
        of(object).insert("finalizers".into(), json!(all));
    }
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The members that are `null`, such as a list that an apply has left without items.
pub(crate) fn emptied(object: &Value) -> Vec<String> {
    let members = object["metadata"].as_object().into_iter().flatten();
    members.filter(|(_, value)| value.is_null()).map(|(key, _)| key.clone()).collect()
}

/// Drops unknown and empty members, and refuses those of a wrong type.
///
/// The answer are the paths of those that are unknown.
pub(crate) fn normalize(kind: &Kind, object: &mut Value) -> Result<Vec<String>, StatusError> {
    let wrong = |found: &Value, path: &str, wanted: &str| {
        let found = match found {
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            _ => "object",
        };
        // The metadata of a custom object is decoded on its own.
        let place = match (path, kind.custom.is_some()) {
            ("metadata", true) => "value".to_owned(),
            ("metadata", false) => format!("struct field {}.metadata", kind.kind),
            (_, true) => format!("struct field ObjectMeta.{}", path.trim_start_matches("metadata.")),
            (_, false) => format!("struct field ObjectMeta.{path}"),
        };
        StatusError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: json: cannot unmarshal {found} into Go {place} of type \
             {wanted}",
            kind.kind, kind.version, kind.kind
        ))
    };
    if !object["metadata"].is_object() && !object["metadata"].is_null() {
        return Err(wrong(&object["metadata"], "metadata", "v1.ObjectMeta"));
    }
    let metadata = of(object);
    let unknown =
        metadata.keys().filter(|key| !KNOWN.contains(&key.as_str())).map(|key| format!("metadata.{key}")).collect();
    metadata.retain(|key, value| KNOWN.contains(&key.as_str()) && !value.is_null());
    for (key, value) in metadata.iter() {
        let path = format!("metadata.{key}");
        match key.as_str() {
            "labels" | "annotations" => {
                let Value::Object(entries) = value else { return Err(wrong(value, &path, "map[string]string")) };
                if let Some(entry) = entries.values().find(|entry| !entry.is_string() && !entry.is_null()) {
                    return Err(wrong(entry, &path, "string"));
                }
            }
            "finalizers" => {
                let Value::Array(entries) = value else { return Err(wrong(value, &path, "[]string")) };
                if let Some(entry) = entries.iter().find(|entry| !entry.is_string()) {
                    return Err(wrong(entry, &path, "string"));
                }
            }
            "ownerReferences" | "managedFields" => {
                let Value::Array(entries) = value else { return Err(wrong(value, &path, "[]v1.OwnerReference")) };
                if let Some(entry) = entries.iter().find(|entry| !entry.is_object()) {
                    return Err(wrong(entry, &path, "v1.OwnerReference"));
                }
            }
            "generation" | "deletionGracePeriodSeconds" if value.as_i64().is_none() => {
                return Err(wrong(value, &path, "int64"));
            }
            "generation" | "deletionGracePeriodSeconds" => {}
            _ if !value.is_string() => return Err(wrong(value, &path, "string")),
            _ => {}
        }
    }
    for key in ["labels", "annotations"] {
        if let Some(Value::Object(entries)) = metadata.get_mut(key) {
            for value in entries.values_mut().filter(|value| value.is_null()) {
                *value = json!("");
            }
        }
    }
    // An empty list of owners ends the tracking of a built-in object, and a period of 0 is one.
    let builtin = kind.custom.is_none();
    let counts = |key: &str| key == "deletionGracePeriodSeconds" || builtin && key == "managedFields";
    metadata.retain(|key, value| !is_empty(value) || counts(key));
    Ok(unknown)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    }
}

/// Removes duplicate owner references. The answer is the warning about them.
pub(crate) fn dedup_owners(object: &mut Value, admitted: bool) -> Option<String> {
    let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") else { return None };
    let (mut kept, mut repeated): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for owner in std::mem::take(owners) {
        if kept.contains(&owner) {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    let when = if admitted { " after mutating admission happens" } else { "" };
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

/// Gives a new object its name, uid and time of creation.
pub(crate) fn prepare_create(kind: &Kind, object: &mut Value, namespace: Option<&str>) {
    let metadata = of(object);
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(key);
    }
    match namespace {
        Some(namespace) => metadata.insert("namespace".into(), json!(namespace)),
        None => metadata.remove("namespace"),
    };
    metadata.insert("uid".into(), json!(crate::random::uid()));
    metadata.insert("creationTimestamp".into(), json!(crate::time::now()));
    if kind.custom.is_some() || kind.flags.generation {
        metadata.insert("generation".into(), json!(1));
    }
}

/// Makes a name from `generateName`, if there is no name.
pub(crate) fn generate_name(object: &mut Value) {
    let metadata = of(object);
    if metadata.contains_key("name") {
        return;
    }
    if let Some(base) = metadata.get("generateName").and_then(Value::as_str).filter(|base| !base.is_empty()) {
        let end = base.char_indices().map(|(at, _)| at).take_while(|at| *at <= GENERATED_BASE).last().unwrap_or(0);
        let end = if base.len() <= GENERATED_BASE { base.len() } else { end };
        let name = format!("{}{}", &base[..end], crate::random::suffix());
        metadata.insert("name".into(), json!(name));
    }
}

/// Takes over from the present object what an update cannot change.
pub(crate) fn prepare_update(object: &mut Value, present: &Value) {
    for key in SYSTEM {
        match present["metadata"].get(key) {
            Some(value) => of(object).insert(key.into(), value.clone()),
            None => of(object).remove(key),
        };
    }
    for key in ["name", "namespace"] {
        if let Some(value) = present["metadata"].get(key) {
            of(object).insert(key.into(), value.clone());
        }
    }
}

/// The violated rules of an object's metadata; its name has this form.
pub(crate) fn validate(kind: &Kind, object: &Value, check: form::Check) -> Vec<Cause> {
    let mut causes = Vec::new();
    let metadata = &object["metadata"];
    let name = text(object, "name");
    if let Some(base) = metadata["generateName"].as_str() {
        // A suffix follows the last hyphen.
        for why in check(base.trim_end_matches('-')) {
            causes.push(Cause::invalid("metadata.generateName", &json!(base), why));
        }
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        causes.extend(check(name).into_iter().map(|why| Cause::invalid("metadata.name", &json!(name), why)));
    }
    causes.extend(validate_labels(&metadata["labels"], "metadata.labels"));
    let mut annotations = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        let found = form::qualified(&key.to_lowercase()).into_iter();
        causes.extend(found.map(|why| Cause::invalid("metadata.annotations", &json!(key), why)));
        annotations += key.len() + value.as_str().map_or(0, str::len);
    }
    if annotations > 256 << 10 {
        let message = "Too long: may not be more than 262144 bytes";
        causes.push(Cause::other("FieldValueTooLong", "metadata.annotations", message));
    }
    let mut controllers = Vec::new();
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        for key in ["apiVersion", "kind", "name", "uid"] {
            if owner[key].as_str().unwrap_or_default().is_empty() {
                let why = if key == "apiVersion" { "version must not be empty" } else { "must not be empty" };
                causes.push(Cause::invalid(format!("metadata.ownerReferences.{key}"), &json!(""), why));
            }
        }
        if owner["controller"] == true {
            let text = |key: &str| owner[key].as_str().unwrap_or_default();
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if controllers.len() > 1 {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {}",
            controllers.join(" and ")
        );
        causes.push(Cause::invalid("metadata.ownerReferences", &metadata["ownerReferences"], why));
    }
    let all = finalizers(object);
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", &json!(all), why));
    }
    for (index, finalizer) in all.iter().enumerate() {
        let found = form::qualified(finalizer).into_iter();
        causes.extend(found.map(|why| Cause::invalid("metadata.finalizers", &json!(finalizer), why)));
        let qualified = finalizer.contains('/') || STANDARD_FINALIZERS.contains(finalizer);
        // The server's own finalizer of definitions has no slash.
        if !qualified && kind.custom.is_none() && kind.group != "apiextensions.k8s.io" {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), &json!(finalizer), why));
        }
    }
    causes
}

/// The violated rules of a map of labels.
pub(crate) fn validate_labels(labels: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        causes.extend(form::qualified(key).into_iter().map(|why| Cause::invalid(field, &json!(key), why)));
        let found = form::label_value(value.as_str().unwrap_or_default());
        causes.extend(found.into_iter().map(|why| Cause::invalid(field, value, why)));
    }
    causes
}

/// Reports an update that sets `metadata.deletionTimestamp`, which only a deletion may set.
pub(crate) fn validate_system(object: &Value, present: &Value) -> Option<Cause> {
    let wanted = &object["metadata"]["deletionTimestamp"];
    let changed = wanted.is_string() && *wanted != present["metadata"]["deletionTimestamp"];
    changed.then(|| Cause::invalid("metadata.deletionTimestamp", wanted, "field is immutable"))
}

/// The rule of an update that needs both states: what is being deleted gets no more finalizers.
pub(crate) fn validate_update(object: &Value, present: &Value) -> Option<Cause> {
    if !is_deleting(present) {
        return None;
    }
    let known = finalizers(present);
    let added: BTreeSet<_> = finalizers(object).into_iter().filter(|name| !known.contains(name)).collect();
    let list: Vec<_> = added.iter().map(|name| format!("{name:?}")).collect();
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        list.join(", ")
    );
    (!added.is_empty()).then(|| Cause::forbidden("metadata.finalizers", &why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::dedup_owners;

    #[test]
    fn an_owner_that_is_named_again_is_left_out_with_a_warning() {
        let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid});
        let mut object = json!({"metadata": {"ownerReferences": [owner("1"), owner("2"), owner("1"), owner("1")]}});
        let warning = dedup_owners(&mut object, true);
        assert_eq!(object["metadata"]["ownerReferences"], json!([owner("1"), owner("2")]));
        let expected = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server \
                        dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your \
                        requests; duplicate UID(s) observed: 1, 1";
        assert_eq!(warning.as_deref(), Some(expected));
        assert_eq!(dedup_owners(&mut object, false), None);
    }
}
