//! The end state of a history, without what differs from run to run.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;

use kooper_apiserver::StoredObject;
use serde_json::{Map, Value};

use crate::testing::cluster::is_noise;

/// What the server assigns, and what only counts writes.
const ASSIGNED: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "observedGeneration"];

/// The annotations that count the changes of a Deployment.
const REVISIONS: &str = "deployment.kubernetes.io/revision";

/// The objects at the end of a history. What the server assigns is left out; times and addresses are replaced by
/// their kind, and generated names by what they begin with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct End {
    /// Those of one name, which may be several where it was generated.
    objects: BTreeMap<String, Vec<Value>>,
}

/// Where two end states differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// Such as `Secret default/a`.
    pub(super) object: String,
    pub(super) kind: Divergence,
}

/// How an object differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Divergence {
    /// There are fewer objects of this name: the numbers expected and found.
    Missing(usize, usize),
    /// There are more.
    LeftOver(usize, usize),
    /// A field has another value; absent is `null`.
    Field { path: String, expected: Value, found: Value },
}

impl End {
    pub(super) fn of(objects: &[StoredObject]) -> Self {
        let counted =
            objects.iter().filter(|object| !is_noise(object.group(), object.resource()) && !is_server(object));
        let values: Vec<_> = counted.map(StoredObject::json).filter(|value| !is_history(value)).collect();
        Self::from_json(values)
    }

    fn from_json(values: Vec<Value>) -> Self {
        let generated: HashMap<_, _> = values.iter().filter_map(generated).collect();
        let mut end = Self::default();
        for mut value in values {
            normalize(&mut value, &generated);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, metadata) = (text(&value["kind"]), &value["metadata"]);
            let name = match text(&metadata["namespace"]) {
                namespace if namespace.is_empty() => text(&metadata["name"]),
                namespace => format!("{namespace}/{}", text(&metadata["name"])),
            };
            end.objects.entry(format!("{kind} {name}")).or_default().push(value);
        }
        // The order of generated names is by chance.
        for of_one_name in end.objects.values_mut() {
            of_one_name.sort_by_cached_key(Value::to_string);
        }
        end
    }

    /// Where another end state differs, the most telling differences first: objects, then fields.
    pub(super) fn differences(&self, other: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        let none = Vec::new();
        let mut names: Vec<_> = self.objects.keys().chain(other.objects.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let expected = self.objects.get(name).unwrap_or(&none);
            let actual = other.objects.get(name).unwrap_or(&none);
            let mut differs = |kind| found.push(Difference { object: name.clone(), kind });
            if expected.len() > actual.len() {
                differs(Divergence::Missing(expected.len(), actual.len()));
            } else if expected.len() < actual.len() {
                differs(Divergence::LeftOver(expected.len(), actual.len()));
            }
            for (expected, actual) in expected.iter().zip(actual) {
                compare(String::new(), expected, actual, &mut differs);
            }
        }
        found.sort_by_key(|difference| matches!(difference.kind, Divergence::Field { .. }));
        found
    }
}

/// Whether an object has the address of the server, whose port is another one in each history.
fn is_server(object: &StoredObject) -> bool {
    matches!(object.resource(), "endpoints" | "endpointslices") && object.key() == "default/kubernetes"
}

/// Whether an object is kept for a roll-back: a template that is not used any more, or a copy of one.
fn is_history(object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_owned_by = |kinds: &[&str]| owners.clone().any(|owner| kinds.iter().any(|kind| owner["kind"] == *kind));
    match object["kind"].as_str() {
        Some("ReplicaSet") => is_owned_by(&["Deployment"]) && object["spec"]["replicas"] == 0,
        Some("ControllerRevision") => is_owned_by(&["StatefulSet", "DaemonSet"]),
        _ => false,
    }
}

/// A name that was generated, and what stands for it.
fn generated(object: &Value) -> Option<(String, String)> {
    let metadata = &object["metadata"];
    let (prefix, name) = (metadata["generateName"].as_str()?, metadata["name"].as_str()?);
    name.starts_with(prefix).then(|| (name.to_owned(), format!("{prefix}…")))
}

fn normalize(value: &mut Value, generated: &HashMap<String, String>) {
    match value {
        Value::Object(fields) => normalize_fields(fields, generated),
        Value::Array(items) => items.iter_mut().for_each(|item| normalize(item, generated)),
        Value::String(text) => {
            if let Some(name) = generated.get(text.as_str()) {
                text.clone_from(name);
            } else if let Some(kind) = chance(text) {
                kind.clone_into(text);
            }
        }
        _ => {}
    }
}

fn normalize_fields(fields: &mut Map<String, Value>, generated: &HashMap<String, String>) {
    fields.retain(|name, _| !ASSIGNED.contains(&name.as_str()) && !name.starts_with(REVISIONS));
    for (name, value) in fields {
        normalize(value, generated);
        if let Value::Array(items) = value {
            match name.as_str() {
                // In the order in which they were added, which means nothing.
                "finalizers" | "ownerReferences" => items.sort_by_cached_key(Value::to_string),
                "conditions" => items.sort_by_cached_key(|condition| condition["type"].to_string()),
                _ => {}
            }
        }
    }
}

/// An object without what any write changes, and without the ignored fields; `None` if its kind is ignored.
pub(super) fn content(mut value: Value, ignored: &[String]) -> Option<Value> {
    if ignored.iter().any(|kind| value["kind"] == **kind) {
        return None;
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.retain(|name, _| !["resourceVersion", "managedFields", "generation"].contains(&name.as_str()));
    }
    for path in ignored {
        remove(&mut value, path);
    }
    Some(value)
}

/// Removes a field, whose path is one of [`compare`].
fn remove(value: &mut Value, path: &str) {
    match value {
        Value::Object(fields) => {
            fields.remove(path);
            for (name, value) in fields {
                if let Some(rest) = path.strip_prefix(name.as_str()).filter(|rest| rest.starts_with(['.', '['])) {
                    remove(value, rest.strip_prefix('.').unwrap_or(rest));
                }
            }
        }
        Value::Array(items) => {
            let Some((number, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) else { return };
            let item = number.parse::<usize>().ok().and_then(|number| items.get_mut(number));
            match item {
                Some(item) if rest.is_empty() => *item = Value::Null,
                Some(item) => remove(item, rest.strip_prefix('.').unwrap_or(rest)),
                None => {}
            }
        }
        _ => {}
    }
}

/// The kind of a value that differs from run to run.
fn chance(text: &str) -> Option<&'static str> {
    let is_time = || {
        let digits = |range: std::ops::Range<usize>| {
            text.get(range).is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit()))
        };
        let bytes = text.as_bytes();
        digits(0..4) && digits(5..7) && bytes.get(4) == Some(&b'-') && bytes.get(10) == Some(&b'T') && digits(11..13)
    };
    let is_uid = || {
        let groups: Vec<_> = text.split('-').map(str::len).collect();
        groups == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
    };
    if is_time() {
        Some("(a time)")
    } else if is_uid() {
        Some("(a uid)")
    } else {
        text.parse::<IpAddr>().is_ok().then_some("(an address)")
    }
}

fn compare(path: String, expected: &Value, found: &Value, differs: &mut impl FnMut(Divergence)) {
    match (expected, found) {
        _ if expected == found => {}
        (Value::Object(before), Value::Object(after)) => {
            let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(path, &expected[name], &found[name], differs);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (expected, found)) in before.iter().zip(after).enumerate() {
                compare(format!("{path}[{index}]"), expected, found, differs);
            }
        }
        _ => differs(Divergence::Field { path, expected: expected.clone(), found: found.clone() }),
    }
}

/// As the end of a sentence.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = &self.object;
        match &self.kind {
            Divergence::Missing(1, 0) => write!(f, "`{object}` is missing"),
            Divergence::Missing(expected, found) => write!(f, "`{object}` exists {found} times instead of {expected}"),
            Divergence::LeftOver(0, 1) => write!(f, "`{object}` is left over"),
            Divergence::LeftOver(expected, found) => write!(f, "`{object}` exists {found} times instead of {expected}"),
            Divergence::Field { path, expected, found } => {
                write!(f, "`{path}` of `{object}` is {} instead of {}", Shown(found), Shown(expected))
            }
        }
    }
}

/// A value, at most so long.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_null() {
            return f.write_str("absent");
        }
        let text = self.0.to_string();
        match text.char_indices().nth(200) {
            Some((end, _)) => write!(f, "`{}…`", &text[..end]),
            None => write!(f, "`{text}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{End, content, is_history};

    fn shown(before: Vec<Value>, after: Vec<Value>) -> Vec<String> {
        let differences = End::from_json(before).differences(&End::from_json(after));
        differences.iter().map(ToString::to_string).collect()
    }

    fn pod(name: &str, uid: &str, phase: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default", "generateName": "web-", "uid": uid, "resourceVersion": "7",
                "creationTimestamp": "2026-01-02T03:04:05Z",
            },
            "status": {"phase": phase, "podIP": format!("10.0.0.{}", uid.len()), "startTime": "2026-01-02T03:04:05Z"},
        })
    }

    #[test]
    fn what_differs_from_run_to_run_is_no_difference() {
        let before = vec![pod("web-a", "1", "Running"), pod("web-b", "22", "Failed")];
        let after = vec![pod("web-y", "333", "Failed"), pod("web-z", "4444", "Running")];
        assert_eq!(shown(before, after), Vec::<String>::new());
        let list = |name: &str| {
            let list = json!({"kind": "Shop", "metadata": {"name": "a"}, "status": {"pods": [{"name": name}]}});
            vec![pod(name, "1", "Running"), list]
        };
        assert_eq!(shown(list("web-a"), list("web-b")), Vec::<String>::new());
    }

    #[test]
    fn what_is_kept_for_a_roll_back_and_the_order_of_lists_with_keys_are_no_difference() {
        let object = |kind: &str, owner: &str, replicas: u64| {
            json!({
                "kind": kind, "metadata": {"name": "web-1", "ownerReferences": [{"kind": owner}]},
                "spec": {"replicas": replicas},
            })
        };
        assert!(
            is_history(&object("ReplicaSet", "Deployment", 0))
                && is_history(&object("ControllerRevision", "DaemonSet", 0))
        );
        assert!(!is_history(&object("ReplicaSet", "Deployment", 1)) && !is_history(&object("ReplicaSet", "Shop", 0)));
        let shop = |revision: &str, order: [usize; 2]| {
            let conditions = [json!({"type": "Ready", "status": "True"}), json!({"type": "Open", "status": "False"})];
            vec![json!({
                "kind": "Shop",
                "metadata": {
                    "name": "a", "finalizers": order.map(|at| ["x.example.com/x", "y.example.com/y"][at]),
                    "annotations": {"deployment.kubernetes.io/revision": revision},
                },
                "status": {"conditions": order.map(|at| conditions[at].clone())},
            })]
        };
        assert_eq!(shown(shop("1", [0, 1]), shop("2", [1, 0])), Vec::<String>::new());
    }

    #[test]
    fn ignored_fields_and_kinds_are_no_content() {
        let object = || {
            json!({
                "kind": "Shop", "metadata": {"annotations": {"example.com/last": "1", "example.com/kept": "2"}, "generation": 3},
                "status": {"lastRun": "4", "conditions": [{"message": "5", "type": "Open"}, {"message": "6"}]},
            })
        };
        let ignored =
            ["metadata.annotations.example.com/last", "status.lastRun", "status.conditions[0].message", "Cart"];
        assert_eq!(
            content(object(), &ignored.map(str::to_owned)),
            Some(json!({
                "kind": "Shop", "metadata": {"annotations": {"example.com/kept": "2"}},
                "status": {"conditions": [{"type": "Open"}, {"message": "6"}]},
            }))
        );
        assert_eq!(content(object(), &["Shop".to_owned()]), None);
    }

    #[test]
    fn a_difference_names_its_object_and_field() {
        let before = vec![pod("web-a", "1", "Running"), pod("web-b", "2", "Running")];
        assert_eq!(
            shown(before.clone(), vec![pod("web-a", "1", "Failed")]),
            [
                "`Pod default/web-…` exists 1 times instead of 2",
                "`status.phase` of `Pod default/web-…` is `\"Failed\"` instead of `\"Running\"`"
            ]
        );
        assert_eq!(shown(vec![], vec![pod("web-a", "1", "Failed")]), ["`Pod default/web-…` is left over"]);
        let shop = |spec: Value| vec![json!({"kind": "Shop", "metadata": {"name": "a"}, "spec": spec})];
        assert_eq!(shown(shop(json!({})), vec![]), ["`Shop a` is missing"]);
        assert_eq!(
            shown(shop(json!({"list": [1, {"a": 2}]})), shop(json!({"list": [1, {"a": 3}], "more": true}))),
            [
                "`spec.list[1].a` of `Shop a` is `3` instead of `2`",
                "`spec.more` of `Shop a` is `true` instead of absent"
            ]
        );
    }
}
