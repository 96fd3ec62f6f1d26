//! Objects of random histories: few names and values, so that they meet again.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::fields::{Field, fields};
use super::subject::Subject;

/// The names of objects.
pub(crate) const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The finalizers of objects.
pub(crate) const FINALIZERS: [&str; 2] = ["a.example/one", "a.example/two"];

/// Chooses one of some values.
pub(crate) fn one<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())].clone()
}

/// Returns `true` with a probability of so many thousandths.
pub(crate) fn chance(rng: &mut Rng, thousandths: u32) -> bool {
    rng.u32(..1000) < thousandths
}

/// A complete object, mostly valid.
pub(crate) fn object(rng: &mut Rng, subject: &Subject, name: &str) -> Value {
    let mut object = content(rng, subject);
    object.insert("apiVersion".into(), json!(subject.api_version));
    object.insert("kind".into(), json!(subject.kind));
    object.insert("metadata".into(), metadata(rng, name));
    Value::Object(object)
}

fn metadata(rng: &mut Rng, name: &str) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".into(), json!(name));
    if chance(rng, 700) {
        metadata.insert("labels".into(), labels(rng));
    }
    if chance(rng, 250) {
        metadata.insert("annotations".into(), json!({"note": one(rng, &["1", "2", ""])}));
    }
    if chance(rng, 120) {
        metadata.insert("finalizers".into(), finalizers(rng));
    }
    if chance(rng, 15) {
        let (key, value) = one(rng, &INVALID_METADATA);
        metadata.insert(key.into(), serde_json::from_str(value).expect("it is JSON"));
    }
    Value::Object(metadata)
}

/// Metadata that is refused.
const INVALID_METADATA: [(&str, &str); 8] = [
    ("labels", r#"{"-x": "1"}"#),
    ("labels", r#"{"tier": "!"}"#),
    ("labels", r#"{"a/b/c": "1", "tier": "front"}"#),
    ("annotations", r#"{"x y": "1"}"#),
    ("finalizers", r#"["nonsense"]"#),
    ("finalizers", r#"["a.example/"]"#),
    ("name", r#""A_""#),
    ("ownerReferences", r#"[{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}]"#),
];

pub(crate) fn labels(rng: &mut Rng) -> Value {
    let mut labels = Map::new();
    if chance(rng, 800) {
        labels.insert("tier".into(), json!(one(rng, &["front", "back"])));
    }
    if chance(rng, 400) {
        labels.insert("app".into(), json!(one(rng, &["x", "y", ""])));
    }
    Value::Object(labels)
}

pub(crate) fn finalizers(rng: &mut Rng) -> Value {
    match rng.u32(..5) {
        0 => json!(FINALIZERS),
        1 => json!([FINALIZERS[1], FINALIZERS[0]]),
        2 => json!([]),
        _ => json!([one(rng, &FINALIZERS)]),
    }
}

/// Everything but kind and metadata.
fn content(rng: &mut Rng, subject: &Subject) -> Map<String, Value> {
    let mut content = Map::new();
    for field in fields(subject) {
        if chance(rng, field.often)
            && let Some((last, path)) = field.path.split_last()
        {
            let value = value(rng, field);
            let mut at = &mut content;
            for key in path {
                let below = at.entry(*key).or_insert_with(|| json!({}));
                if !below.is_object() {
                    *below = json!({});
                }
                at = below.as_object_mut().expect("it was made an object");
            }
            at.insert((*last).into(), value);
        }
    }
    content
}

/// A value for a field: rarely one that is refused.
pub(crate) fn value(rng: &mut Rng, field: &Field) -> Value {
    let invalid = !field.invalid.is_empty() && chance(rng, 25);
    let text = if invalid { one(rng, field.invalid) } else { one(rng, field.valid) };
    serde_json::from_str(text).expect("it is JSON")
}
