//! Objects of random histories: few names and values, so that they meet again.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::subject::Subject;

/// The names of objects.
pub(crate) const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The finalizers of objects.
pub(crate) const FINALIZERS: [&str; 2] = ["a.example/one", "a.example/two"];

/// Chooses one of some values.
pub(crate) fn one<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())].clone()
}

/// Whether something happens that happens in so many of a thousand cases.
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

/// A field of a kind, and the values that it gets.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) path: &'static [&'static str],
    /// In how many of a thousand objects it is.
    often: u32,
    valid: &'static [&'static str],
    invalid: &'static [&'static str],
}

const fn field(
    path: &'static [&'static str],
    often: u32,
    valid: &'static [&'static str],
    invalid: &'static [&'static str],
) -> Field {
    Field { path, often, valid, invalid }
}

/// The fields of a kind beside its metadata.
pub(crate) fn fields(subject: &Subject) -> &'static [Field] {
    match subject.kind {
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "Widget" => WIDGET,
        _ => GADGET,
    }
}

const CONFIG_MAP: &[Field] = &[
    field(&["data"], 300, &[r#"{"a": "1", "b": "2"}"#, "{}", r#"{"c": ""}"#], &[r#"{"a/b": "1"}"#, r#"{"..": "1"}"#]),
    field(&["data", "a"], 500, &[r#""1""#, r#""2""#, r#""""#], &[]),
    field(&["data", "b"], 400, &[r#""1""#, r#""é<&>""#], &[]),
    field(&["data", "c"], 200, &[r#""1\n2""#], &[]),
    field(&["binaryData", "z"], 150, &[r#""AAE=""#, r#""""#], &[]),
    field(&["immutable"], 40, &["true", "false"], &[]),
];

const SECRET: &[Field] = &[
    field(&["data", "a"], 500, &[r#""MQ==""#, r#""Mg==""#, r#""""#], &[]),
    field(&["data", "b"], 300, &[r#""MQ==""#], &[]),
    field(&["stringData", "b"], 200, &[r#""1""#, r#""2""#], &[]),
    field(&["type"], 150, &[r#""Opaque""#, r#""Opaque""#, r#""a.example/type""#], &[]),
    field(&["immutable"], 40, &["true", "false"], &[]),
];

const WIDGET: &[Field] = &[
    field(
        &["spec", "owner"],
        970,
        &[r#""me""#, r#""me""#, r#""me""#, r#""you""#],
        &[r#""""#, "1", r#""far too long""#],
    ),
    field(&["spec", "size"], 300, &[r#""small""#, r#""large""#], &[r#""huge""#, "null"]),
    field(&["spec", "replicas"], 500, &["0", "1", "2", "8"], &["9", "-1", r#""1""#, "1.5", "10"]),
    field(&["spec", "ratio"], 200, &["1", "0.5", "2.0"], &["0.3", r#""1""#]),
    field(&["spec", "on"], 200, &["true", "false"], &["1"]),
    field(
        &["spec", "tags"],
        300,
        &[r#"["x"]"#, r#"["x", "y"]"#, "[]"],
        &[r#"["x", "x"]"#, r#"["X"]"#, r#"["a", "b", "c", "d"]"#],
    ),
    field(
        &["spec", "ports"],
        300,
        &[r#"[{"port": 1}]"#, r#"[{"port": 2, "name": "b"}, {"port": 1, "protocol": "UDP"}]"#, "[]"],
        &[r#"[{"port": 1}, {"port": 1}]"#, r#"[{"name": "x"}]"#, r#"[{"port": 0}]"#],
    ),
    field(&["spec", "labels"], 200, &[r#"{"x": "1"}"#, "{}"], &[r#"{"x": 1}"#]),
    field(&["spec", "labels", "y"], 150, &[r#""1""#, r#""2""#], &[]),
    field(&["spec", "nested"], 150, &["{}", r#"{"on": false}"#], &["[]"]),
    field(&["spec", "nested", "deep", "mode"], 150, &[r#""fast""#, r#""slow""#], &[r#""""#]),
    field(&["spec", "nested", "deep", "since"], 80, &[r#""2026-01-02T03:04:05Z""#], &[r#""yesterday""#]),
    field(&["spec", "either"], 200, &["1", r#""1""#, r#""50%""#], &["true", "1.5"]),
    field(&["spec", "any"], 150, &[r#"{"free": [1, {"x": null}]}"#, "{}"], &["1"]),
    field(&["spec", "note"], 150, &["null", r#""n""#], &["1"]),
    field(
        &["spec", "steps"],
        150,
        &[r#"[{"name": "s"}]"#, r#"[{"name": "s", "count": 1}, {"name": "s", "count": 1}]"#],
        &["[{}]", "[null]"],
    ),
    field(&["spec", "bogus"], 30, &["1"], &[]),
    field(&["status", "phase"], 200, &[r#""Ready""#, r#""Failed""#], &["1"]),
    field(&["status", "replicas"], 200, &["0", "2"], &[r#""2""#]),
    field(&["status", "selector"], 60, &[r#""app=x""#], &[]),
    field(
        &["status", "conditions"],
        150,
        &[r#"[{"type": "Ready", "status": "True"}]"#, r#"[{"type": "Ready", "status": "False"}, {"type": "Live"}]"#],
        &[r#"[{"type": "Ready"}, {"type": "Ready"}]"#],
    ),
];

const GADGET: &[Field] = &[
    field(&["spec"], 100, &["{}"], &["1"]),
    field(&["spec", "color"], 500, &[r#""red""#, r#""blue""#, r#""""#], &["1"]),
    field(&["spec", "level"], 300, &["1", "2"], &[r#""1""#]),
    field(&["spec", "parts"], 200, &[r#"{"x": {"size": 1}}"#, r#"{"x": {}, "y": {"size": 2}}"#], &[r#"{"x": 1}"#]),
    field(&["spec", "parts", "y"], 100, &[r#"{"size": 3}"#], &[]),
    field(&["status", "phase"], 250, &[r#""Ready""#, r#""Failed""#], &[]),
];
