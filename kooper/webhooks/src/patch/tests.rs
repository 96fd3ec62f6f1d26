use std::collections::BTreeMap;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Thing {
    #[serde(default)]
    metadata: Metadata,
    spec: Spec,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    managed_fields: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Spec {
    #[serde(default)]
    replicas: i32,
    size: Option<i32>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    items: Vec<Item>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pairs: Vec<Pair>,
    nested: Option<Box<Spec>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Item {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
}

/// An entry of a list that has no key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Pair {
    left: Option<bool>,
    right: Option<bool>,
}

fn word(rng: &mut Rng) -> String {
    // Characters that JSON pointers escape are part of names.
    ["a", "b/c", "d~e", "f", "g~1"][rng.usize(..5)].to_owned()
}

fn maybe<T>(rng: &mut Rng, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    rng.bool().then(|| make(rng))
}

fn items(rng: &mut Rng) -> Vec<Item> {
    let names: std::collections::BTreeSet<_> = (0..rng.usize(..4)).map(|_| word(rng)).collect();
    names.into_iter().map(|name| Item { name, image: maybe(rng, word) }).collect()
}

fn spec(rng: &mut Rng, depth: usize) -> Spec {
    Spec {
        replicas: rng.i32(0..3),
        size: maybe(rng, |rng| rng.i32(0..3)),
        args: (0..rng.usize(..3)).map(|_| word(rng)).collect(),
        items: items(rng),
        pairs: (0..rng.usize(..3))
            .map(|_| Pair { left: maybe(rng, Rng::bool), right: maybe(rng, Rng::bool) })
            .collect(),
        nested: if depth == 0 { None } else { maybe(rng, |rng| Box::new(spec(rng, depth - 1))) },
    }
}

fn thing(rng: &mut Rng) -> Thing {
    let labels = (0..rng.usize(..3)).map(|_| (word(rng), word(rng))).collect();
    let metadata = Metadata { labels, finalizers: maybe(rng, word).into_iter().collect(), managed_fields: None };
    Thing { metadata, spec: spec(rng, 2), status: maybe(rng, word) }
}

/// Hides that the object was written by the type: fields that it does not know, and fields
/// that are absent or null where the type writes a default.
fn roughen(value: &mut Value, is_map: bool, rng: &mut Rng) {
    match value {
        Value::Object(fields) => {
            let defaults =
                [("replicas", json!(0)), ("size", Value::Null), ("args", json!([])), ("nested", Value::Null)];
            for (field, default) in defaults {
                if fields.get(field) == Some(&default) && rng.bool() {
                    fields.remove(field);
                }
            }
            for (field, value) in fields.iter_mut() {
                roughen(value, field == "labels", rng);
            }
            if !is_map && rng.bool() {
                fields.insert(format!("unknown/{}", rng.u8(..)), json!({"kept": rng.u8(..)}));
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| roughen(entry, false, rng)),
        _ => {}
    }
}

/// The fields that the type does not know, by their content.
fn unknown(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(field, value)| {
            if field.starts_with("unknown/") {
                found.push(format!("{field}={value}"));
            }
            unknown(value, found);
        }),
        Value::Array(entries) => entries.iter().for_each(|entry| unknown(entry, found)),
        _ => {}
    }
}

fn unknown_of(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    unknown(value, &mut found);
    found.sort();
    found
}

/// Fills what is absent, as a function that gives defaults does.
fn fill(mut thing: Thing) -> Thing {
    thing.metadata.labels.entry("filled/by".to_owned()).or_insert_with(|| "kooper".to_owned());
    if !thing.metadata.finalizers.iter().any(|one| one == "example.com/filled") {
        thing.metadata.finalizers.push("example.com/filled".to_owned());
    }
    thing.spec.nested.get_or_insert_default();
    let mut spec = Some(&mut thing.spec);
    while let Some(filled) = spec {
        filled.size.get_or_insert(7);
        for item in &mut filled.items {
            item.image.get_or_insert_with(|| "filled/image~1".to_owned());
        }
        if !filled.items.iter().any(|item| item.name == "sidecar") {
            filled.items.push(Item { name: "sidecar".to_owned(), image: Some("filled".to_owned()) });
        }
        spec = filled.nested.as_deref_mut();
    }
    thing
}

/// The patch of a function, applied as the API server does.
fn apply(raw: &Value, after: &Thing, overwrite: bool) -> Result<(Value, Patch), PatchError> {
    let before: Thing = serde_json::from_value(raw.clone()).expect("it was written by the type");
    let (before, after) = (serde_json::to_value(before).unwrap(), serde_json::to_value(after).unwrap());
    let patch = patch("fill", &before, &after, raw, overwrite)?;
    let operations: json_patch::Patch = serde_json::from_str(&patch.to_json()).expect("a JSON patch");
    let mut patched = raw.clone();
    json_patch::patch(&mut patched, &operations).unwrap_or_else(|error| panic!("{}: {error}", patch.to_json()));
    Ok((patched, patch))
}

fn rough(rng: &mut Rng) -> Value {
    let mut raw = serde_json::to_value(thing(rng)).expect("JSON");
    roughen(&mut raw, false, rng);
    raw
}

fn typed(raw: &Value) -> Thing {
    serde_json::from_value(raw.clone()).expect("it was written by the type")
}

#[test]
fn a_patch_fills_what_the_function_filled_keeps_unknown_fields_and_is_needed_once() {
    for seed in 0..3000 {
        let raw = rough(&mut Rng::with_seed(seed));
        let after = fill(typed(&raw));
        let (patched, _) = apply(&raw, &after, false).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{raw:#}"));
        assert_eq!(typed(&patched), after, "seed {seed}: what the function meant\n{raw:#}\n{patched:#}");
        assert_eq!(unknown_of(&patched), unknown_of(&raw), "seed {seed}");
        let (_, again) = apply(&patched, &fill(typed(&patched)), false).expect("it fills nothing");
        assert!(again.is_empty(), "seed {seed}: mutating twice is once, and not {}", again.to_json());
    }
}

#[test]
fn with_overwrite_the_object_is_what_the_function_returned_whatever_it_changed() {
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let raw = rough(&mut rng);
        let mut after = thing(&mut rng);
        after.status = typed(&raw).status;
        let (patched, _) = apply(&raw, &after, true).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(typed(&patched), after, "seed {seed}\n{raw:#}\n{patched:#}");
        let top = |value: &Value| -> Vec<String> {
            let fields = value.as_object().unwrap().keys().filter(|field| field.starts_with("unknown"));
            fields.cloned().collect()
        };
        assert_eq!(top(&patched), top(&raw), "seed {seed}");
    }
}

#[test]
fn a_present_value_that_the_function_changed_is_an_error_that_names_function_and_path() {
    let raw = json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x"]}, "spec": {
        "replicas": 1, "args": ["one"], "items": [{"name": "a", "image": "b"}, {"name": "c"}], "pairs": [{"left": true}],
    }});
    let error = |change: fn(&mut Thing)| {
        let mut after = typed(&raw);
        change(&mut after);
        apply(&raw, &after, false).map(|(patched, _)| patched).expect_err("it is refused").to_string()
    };
    let expected = "`fill` changed `spec.replicas`, which is already set: fill in only absent fields, or set \
                    `overwrite`";
    assert_eq!(error(|thing| thing.spec.replicas = 2), expected);
    let path = |change| error(change).split('`').nth(3).unwrap_or_default().to_owned();
    assert_eq!(path(|thing| thing.metadata.labels.clear()), "metadata.labels");
    assert_eq!(path(|thing| drop(thing.metadata.labels.insert("a".into(), "2".into()))), "metadata.labels.a");
    assert_eq!(path(|thing| thing.spec.args.push("two".into())), "spec.args");
    assert_eq!(path(|thing| thing.spec.items[0].image = None), "spec.items[0].image");
    assert_eq!(path(|thing| thing.spec.items[0].image = Some("c".into())), "spec.items[0].image");
    assert_eq!(path(|thing| drop(thing.spec.items.pop())), "spec.items");
    assert_eq!(path(|thing| thing.spec.items.reverse()), "spec.items");
    assert_eq!(path(|thing| thing.spec.pairs.push(Pair::default())), "spec.pairs");
    assert_eq!(path(|thing| thing.metadata.finalizers.clear()), "metadata.finalizers");
}

#[test]
fn status_and_managed_fields_are_never_changed_and_never_dropped_silently() {
    let raw = json!({"metadata": {"managedFields": ["a"]}, "spec": {}, "status": "x"});
    let error = |change: fn(&mut Thing)| {
        let mut after = typed(&raw);
        change(&mut after);
        apply(&raw, &after, true).map(|(patched, _)| patched).expect_err("it is refused").to_string()
    };
    assert_eq!(error(|thing| thing.status = None), "`fill` changed `status`, which no webhook may change");
    let expected = "`fill` changed `metadata.managedFields`, which no webhook may change";
    assert_eq!(error(|thing| thing.metadata.managed_fields = None), expected);
}

#[test]
fn a_field_that_is_null_or_an_empty_map_is_filled() {
    let raw = json!({"metadata": {"labels": {}}, "spec": {"size": null, "nested": {}}});
    let mut after = typed(&raw);
    after.spec.size = Some(1);
    after.spec.nested.as_mut().unwrap().size = Some(2);
    after.metadata.labels.insert("a".into(), "b".into());
    let (patched, patch) = apply(&raw, &after, false).expect("all of it is absent");
    assert_eq!(typed(&patched), after, "{}", patch.to_json());
}

#[test]
fn the_entries_of_a_list_are_found_again_however_many_there_are() {
    let (count, word) = (100_000, |number: usize| number.to_string());
    let items: Vec<_> = (0..count).map(|number| json!({"name": word(number), "unknown": number})).collect();
    let raw = json!({"spec": {"items": items, "args": (0..count).map(word).collect::<Vec<_>>()}});
    let mut after = typed(&raw);
    after.spec.items[count - 1].image = Some("late".to_owned());
    after.spec.args.insert(0, "first".to_owned());
    let (patched, _) = apply(&raw, &after, true).expect("it may change everything");
    let last = json!({"name": word(count - 1), "unknown": count - 1, "image": "late"});
    assert_eq!((&patched["spec"]["items"][count - 1], &patched["spec"]["args"][1]), (&last, &json!("0")));
}
