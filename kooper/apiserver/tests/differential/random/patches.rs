//! Patches of random histories, in the four languages.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::fields::fields;
use super::objects::{self, FINALIZERS, chance, one, value};
use super::subject::Subject;

/// A merge patch: some fields set, some removed.
pub(crate) fn merge(rng: &mut Rng, subject: &Subject, status: bool) -> Value {
    let mut patch = json!({});
    for _ in 0..rng.usize(1..4) {
        let (path, value) = change(rng, subject, status);
        let value = if chance(rng, 200) { Value::Null } else { value };
        set(&mut patch, &path, value);
    }
    if chance(rng, 10) {
        patch["metadata"]["name"] = json!("f");
    }
    patch
}

/// A strategic merge patch: a merge patch, at times with its directives.
pub(crate) fn strategic(rng: &mut Rng, subject: &Subject) -> Value {
    let mut patch = merge(rng, subject, false);
    match rng.u32(..10) {
        0 => {
            // The random order of a Go map decides whether an item that is both added and deleted
            // is kept.
            if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("finalizers");
            }
            let gone = json!([one(rng, &FINALIZERS)]);
            put(&mut patch, &["metadata", "$deleteFromPrimitiveList/finalizers"], gone);
        }
        1 => {
            put(&mut patch, &["metadata", "finalizers"], json!(FINALIZERS));
            let order = json!([FINALIZERS[1], FINALIZERS[0]]);
            put(&mut patch, &["metadata", "$setElementOrder/finalizers"], order);
        }
        2 => put(&mut patch, &["metadata", "labels"], json!({"$patch": "delete"})),
        3 | 4 => directed(rng, subject, &mut patch),
        _ => {}
    }
    patch
}

/// Adds a directive, or an item of a merged list, to a patch.
fn directed(rng: &mut Rng, subject: &Subject, patch: &mut Value) {
    let container = json!([{"name": "c", "image": one(rng, &["i:1", "i:3"]), "env": [{"name": "A", "value": "2"}]}]);
    let (path, value) = match subject.kind {
        "Pod" => (&["spec", "containers"][..], container),
        "Deployment" if chance(rng, 500) => (&["spec", "template", "spec", "containers"][..], container),
        "Deployment" => (&["spec", "strategy"][..], json!({"$retainKeys": ["type"], "type": "Recreate"})),
        "Service" if chance(rng, 500) => (&["spec", "ports"][..], json!([{"port": 80, "$patch": "delete"}])),
        "Service" => (&["spec", "ports"][..], json!([{"port": 82, "name": "z"}])),
        _ if chance(rng, 500) => (&["data"][..], json!({"$retainKeys": ["n"], "n": "MQ=="})),
        _ => (&["data"][..], json!({"$patch": "replace", "n": "MQ=="})),
    };
    put(patch, path, value);
}

/// Sets a field, unless something else than an object is in its way.
fn put(patch: &mut Value, path: &[&str], value: Value) {
    let mut place = patch;
    for key in path {
        if !place.is_object() && !place.is_null() {
            return;
        }
        place = &mut place[*key];
    }
    *place = value;
}

/// A JSON patch of a few operations; some do not fit.
pub(crate) fn json(rng: &mut Rng, subject: &Subject, status: bool) -> Value {
    let operations = (0..rng.usize(1..4)).map(|_| {
        let (path, value) = change(rng, subject, status);
        let path = pointer(&path);
        match rng.u32(..20) {
            0..=9 => json!({"op": "add", "path": path, "value": value}),
            10..=12 => json!({"op": "replace", "path": path, "value": value}),
            13..=15 => json!({"op": "remove", "path": path}),
            // The real server panics where a list to test for has a null.
            16 if !has_null_item(&value) => json!({"op": "test", "path": path, "value": value}),
            17 => json!({"op": "copy", "from": "/metadata/name", "path": path}),
            18 => json!({"op": "add", "path": "/metadata/finalizers/-", "value": one(rng, &FINALIZERS)}),
            _ => json!({"op": "remove", "path": "/metadata/finalizers/0"}),
        }
    });
    operations.collect()
}

fn has_null_item(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| item.is_null() || has_null_item(item)),
        Value::Object(entries) => entries.values().any(has_null_item),
        _ => false,
    }
}

/// A configuration to apply: some of an object's fields.
pub(crate) fn configuration(rng: &mut Rng, subject: &Subject, name: &str) -> Value {
    let mut object = objects::object(rng, subject, name);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("ownerReferences");
        // It depends on the second of the write whether the real server stores empty fields of a
        // custom object.
        if subject.custom {
            metadata.retain(|_, value| *value != json!([]) && *value != json!({}));
        }
    }
    // The real server stops at a field that is not declared, on its way through the fields in the order of a Go map: what
    // else is wrong is named or not.
    if let Some(bogus) = object["spec"].get("bogus").cloned() {
        object["spec"] = json!({"bogus": bogus, "owner": "me"});
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
    }
    object
}

/// Adds to a configuration the labels and annotations that are owned although they have no owned entry: of a custom
/// object, the real server stores such a map when it is empty, so the next write of the same is a change.
pub(crate) fn keep_owned(configuration: &mut Value, present: &Value) {
    let owners = present["metadata"]["managedFields"].as_array().into_iter().flatten();
    for owned in owners.map(|owner| &owner["fieldsV1"]["f:metadata"]) {
        for (key, entries) in [("labels", json!({"app": "x"})), ("annotations", json!({"note": "1"}))] {
            let fields = owned[format!("f:{key}")].as_object();
            if fields.is_some_and(|fields| fields.keys().all(|field| field == "."))
                && configuration["metadata"].get(key).is_none()
            {
                configuration["metadata"][key] = entries;
            }
        }
    }
}

/// One field and a value for it.
fn change(rng: &mut Rng, subject: &Subject, status: bool) -> (Vec<String>, Value) {
    let path = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
    let own: Vec<_> = fields(subject).iter().filter(|field| !status || field.path[0] == "status").collect();
    if status || chance(rng, 550) {
        let field = one(rng, &own);
        return (path(field.path), value(rng, field));
    }
    match rng.u32(..10) {
        0..=3 => (path(&["metadata", "labels", "tier"]), json!(one(rng, &["front", "back"]))),
        4 => (path(&["metadata", "labels", "app"]), json!(one(rng, &["x", "y", ""]))),
        5 => (path(&["metadata", "labels"]), objects::labels(rng)),
        6 => (path(&["metadata", "annotations", "note"]), json!(one(rng, &["1", "2", ""]))),
        7 => (path(&["metadata", "annotations"]), json!({"other": "1"})),
        _ => (path(&["metadata", "finalizers"]), objects::finalizers(rng)),
    }
}

/// Sets a value in a patch.
pub(crate) fn set(patch: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *patch = value;
        return;
    };
    if !patch.is_object() {
        *patch = Value::Object(Map::new());
    }
    set(&mut patch[first.as_str()], rest, value);
}

fn pointer(path: &[String]) -> String {
    path.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}
