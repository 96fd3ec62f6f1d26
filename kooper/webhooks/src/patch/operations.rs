//! The difference of two values as a JSON patch.

use serde::Serialize;
use serde_json::Value;

/// A JSON patch (RFC 6902).
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Patch(Vec<Operation>);

#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Operation {
    Add { path: String, value: Value },
    Replace { path: String, value: Value },
    Remove { path: String },
}

impl Patch {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn to_json(&self) -> String {
        #[expect(clippy::expect_used, reason = "it consists of JSON")]
        serde_json::to_string(self).expect("a patch is JSON")
    }
}

/// The patch that makes `to` of `from`.
pub(super) fn between(from: &Value, to: &Value) -> Patch {
    let mut patch = Patch::default();
    compare(from, to, &mut String::new(), &mut patch.0);
    patch
}

fn compare(from: &Value, to: &Value, path: &mut String, operations: &mut Vec<Operation>) {
    if from == to {
        return;
    }
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for field in from.keys().filter(|field| !to.contains_key(*field)) {
                within(path, field, |path| operations.push(Operation::Remove { path: path.clone() }));
            }
            for (field, value) in to {
                within(path, field, |path| match from.get(field) {
                    Some(from) => compare(from, value, path, operations),
                    None => operations.push(Operation::Add { path: path.clone(), value: value.clone() }),
                });
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() <= to.len() => {
            for (at, (from, to)) in from.iter().zip(to).enumerate() {
                within(path, &at.to_string(), |path| compare(from, to, path, operations));
            }
            for value in &to[from.len()..] {
                within(path, "-", |path| operations.push(Operation::Add { path: path.clone(), value: value.clone() }));
            }
        }
        _ => operations.push(Operation::Replace { path: path.clone(), value: to.clone() }),
    }
}

fn within(path: &mut String, step: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&step.replace('~', "~0").replace('/', "~1"));
    then(path);
    path.truncate(length);
}
