//! The JSON patches that remove foreign fields.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use super::{Foreign, PathStep};

/// A JSON patch that removes the entries from the version of the object that was
/// read. The fields that are `applied` replace them where the server might reject
/// the object without them, such as with an empty list; `None` if the object has
/// these fields already.
pub(in crate::capability) fn removal(live: &Value, applied: Option<&Value>, entries: &[Foreign]) -> Value {
    let mut operations = vec![json!({
        "op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"],
    })];
    let mut sorted: Vec<&Foreign> = entries.iter().collect();
    // From the end: a removal moves the elements after it.
    sorted.sort_by(|one, other| other.path.cmp(&one.path));
    let mut replaced: Vec<&[PathStep]> = Vec::new();
    for entry in &sorted {
        let Some((last, parent)) = entry.path.split_last() else { continue };
        let own = applied.and_then(|applied| applied_at(applied, parent));
        let beside =
            sorted.iter().filter(|other| other.path.split_last().is_some_and(|(_, one)| one == parent)).count();
        let all = live.pointer(&pointer(parent)).and_then(Value::as_array).map(Vec::len) == Some(beside);
        if all
            && matches!(last, PathStep::Element { .. })
            && let Some(elements) = own
        {
            if !replaced.contains(&parent) {
                replaced.push(parent);
                operations.push(json!({"op": "replace", "path": pointer(parent), "value": elements}));
            }
            continue;
        }
        operations.push(json!({"op": "remove", "path": pointer(&entry.path)}));
        if matches!(last, PathStep::Field(_))
            && !replaced.contains(&parent)
            && let Some(own) = own
        {
            replaced.push(parent);
            operations.extend(instead(live, own, parent));
        }
    }
    operations.into()
}

/// Sets the applied fields beside a field that is removed: without either of two
/// fields that exclude each other the server may set a default, such as the
/// removed one.
fn instead(live: &Value, own: &Value, object: &[PathStep]) -> Vec<Value> {
    let present = live.pointer(&pointer(object)).unwrap_or(&Value::Null);
    let differs = |name: &str, value: &Value| match present.get(name) {
        Some(own) => own != value && !value.is_object() && !value.is_array(),
        None => !value.is_null(),
    };
    let fields = own.as_object().into_iter().flatten().filter(|(name, value)| differs(name, value));
    fields
        .map(|(name, value)| {
            let path = [object, &[PathStep::Field(name.clone())]].concat();
            json!({"op": "add", "path": pointer(&path), "value": value})
        })
        .collect()
}

/// A JSON patch that removes the entries of `manager` from the managed fields;
/// `None` if there are none.
pub(in crate::capability) fn disown(live: &Value, manager: &str) -> Option<Value> {
    let managed = live["metadata"]["managedFields"].as_array()?;
    let owned = managed.iter().enumerate().rev().filter(|(_, entry)| entry["manager"] == manager);
    let removals: Vec<_> =
        owned.map(|(index, _)| json!({"op": "remove", "path": format!("/metadata/managedFields/{index}")})).collect();
    let version = &live["metadata"]["resourceVersion"];
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    (!removals.is_empty()).then(|| [vec![test], removals].concat().into())
}

/// The applied list or object at this path of the live object.
fn applied_at<'a>(applied: &'a Value, path: &[PathStep]) -> Option<&'a Value> {
    path.iter().try_fold(applied, |at, step| match step {
        PathStep::Field(name) => at.get(name),
        PathStep::Element { applied, .. } => at.get((*applied)?),
    })
}

fn pointer(path: &[PathStep]) -> String {
    path.iter().fold(String::new(), |mut text, step| {
        // Writing into a String cannot fail.
        let _ = write!(text, "/{step}");
        text
    })
}

impl fmt::Display for PathStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(&name.replace('~', "~0").replace('/', "~1")),
            Self::Element { index, .. } => write!(f, "{index}"),
        }
    }
}
