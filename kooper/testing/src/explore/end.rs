//! The end state of a history.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use kooper_apiserver::StoredObject;
use serde_json::{Value, json};

use super::normal::{Placeholders, Span};
use crate::cluster::is_noise;
use kooper_runtime::internal::clock;
use kooper_sharding::BUCKET;

/// Field that replaces the content of an object that has not changed since the server was started.
const UNCHANGED: &str = "unchanged since the start";

/// The least length of a name drawn by chance that is replaced where other objects have it.
const DRAWN_LENGTH: usize = 5;

/// The objects at the end of a history.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EndState {
    objects: Vec<Value>,
    span: Span,
}

/// The kinds with names that are drawn by chance, with the names that all histories have.
#[derive(Debug, Default)]
pub(super) struct GeneratedNames(BTreeMap<String, BTreeSet<String>>);

impl EndState {
    /// Those that are not changed since the server was started are not read.
    pub(super) fn of(objects: &[StoredObject], started: u64) -> Self {
        let counted =
            objects.iter().filter(|object| !is_noise(object.group(), object.resource()) && !is_server(object));
        let read = |object: &StoredObject| {
            if object.version() > started {
                return without_bucket(object.json());
            }
            let (namespace, name) = object.key().split_once('/').unwrap_or(("", object.key()));
            json!({"kind": object.kind(), "metadata": {"namespace": namespace, "name": name}, UNCHANGED: true})
        };
        Self::from_json(counted.map(read).filter(|value| !is_history(value)).collect())
    }

    fn from_json(objects: Vec<Value>) -> Self {
        // The controllers may have read their clock a little before the first object was created.
        let created = objects.iter().filter_map(|object| object["metadata"]["creationTimestamp"].as_str()).min();
        let ended = clock::wall().as_second();
        let began = created.and_then(|time| time.parse::<Timestamp>().ok()).map_or(ended, Timestamp::as_second) - 60;
        Self { objects, span: Span { began, ended } }
    }

    /// The objects, such as `Secret default/a`, without what is another one in each history. Those of one name are
    /// several where it was generated, or drawn by chance.
    pub(super) fn named(&self, drawn: &GeneratedNames) -> BTreeMap<String, Vec<Value>> {
        let mut placeholders = Placeholders::of(&self.objects, self.span);
        let names: Vec<_> = self.objects.iter().map(|object| name(object, |text| placeholders.text(text))).collect();
        let names = names.into_iter().zip(&self.objects).map(|(name, object)| {
            let Some(pool) = drawn.pool(&name) else { return name };
            // A short one may be a word.
            let own = object["metadata"]["name"].as_str().filter(|own| own.len() >= DRAWN_LENGTH);
            own.into_iter().for_each(|own| placeholders.add(own, "…".to_owned()));
            pool
        });
        let names: Vec<_> = names.collect();
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, object) in names.into_iter().zip(&self.objects) {
            all.entry(name).or_default().push(placeholders.object(object.clone()));
        }
        // Their order is by chance.
        for of_one_name in all.values_mut() {
            of_one_name.sort_by_cached_key(Value::to_string);
        }
        all
    }
}

impl GeneratedNames {
    /// Learns from the objects of several histories.
    pub(super) fn learn(histories: &[BTreeMap<String, Vec<Value>>]) -> Self {
        let names: BTreeSet<_> = histories.iter().flat_map(BTreeMap::keys).collect();
        let (in_all, others): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| histories.iter().all(|objects| objects.contains_key(*name)));
        let kinds: BTreeSet<_> = others.into_iter().map(|name| kind_of(name)).collect();
        let of_kind =
            |kind: &str| in_all.iter().filter(|name| kind_of(name) == kind).map(|name| (*name).clone()).collect();
        Self(kinds.into_iter().map(|kind| (kind.to_owned(), of_kind(kind))).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this is a random name, which other histories do not have.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(kind_of(name)).is_some_and(|kept| !kept.contains(name))
    }

    /// The name that objects have together whose own ones are drawn by chance.
    fn pool(&self, name: &str) -> Option<String> {
        let prefix = name.rfind(['/', ' ']).map_or("", |end| &name[..=end]);
        self.has(name).then(|| format!("{prefix}…"))
    }
}

/// The kind of an object, such as `Secret default/a`.
pub(super) fn kind_of(name: &str) -> &str {
    name.split(' ').next().unwrap_or_default()
}

/// The name of an object, such as `Secret default/a`. `replace` replaces what differs between histories.
pub(super) fn name(object: &Value, replace: impl Fn(&str) -> String) -> String {
    let text = |value: &Value| replace(value.as_str().unwrap_or_default());
    let (kind, metadata) = (object["kind"].as_str().unwrap_or_default(), &object["metadata"]);
    match text(&metadata["namespace"]) {
        namespace if namespace.is_empty() => format!("{kind} {}", text(&metadata["name"])),
        namespace => format!("{kind} {namespace}/{}", text(&metadata["name"])),
    }
}

/// An object without the label that only controllers with shards set: most histories have none.
fn without_bucket(mut object: Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata
        && let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut)
        && labels.remove(BUCKET).is_some()
        && labels.is_empty()
    {
        metadata.remove("labels");
    }
    object
}

/// Returns whether the object contains the address of the server, whose port differs between
/// histories.
fn is_server(object: &StoredObject) -> bool {
    matches!(object.resource(), "endpoints" | "endpointslices") && object.key() == "default/kubernetes"
}

/// Returns whether the object is kept for a rollback: a ReplicaSet that its Deployment no longer
/// uses, or a ControllerRevision.
fn is_history(object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let is_owned_by = |kinds: &[&str]| owners.clone().any(|owner| kinds.iter().any(|kind| owner["kind"] == *kind));
    match object["kind"].as_str() {
        Some("ReplicaSet") => is_owned_by(&["Deployment"]) && object["spec"]["replicas"] == 0,
        Some("ControllerRevision") => is_owned_by(&["StatefulSet", "DaemonSet"]),
        _ => false,
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{EndState, content, is_history};
    use crate::explore::common::Common;

    fn shown(before: Vec<Value>, after: Vec<Value>) -> Vec<String> {
        let differences = Common::learn(&[&EndState::from_json(before)]).differences(&EndState::from_json(after));
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
    fn a_difference_names_the_slot_of_a_declared_child() {
        let child = |port: u64, labels: Value| {
            let metadata = json!({"name": "web", "namespace": "default", "labels": labels});
            vec![json!({"kind": "Service", "metadata": metadata, "spec": {"port": port}})]
        };
        let of_slot = || json!({"kooper.rs/slot": "front"});
        assert_eq!(
            shown(child(80, of_slot()), child(81, of_slot())),
            ["`spec.port` of `Service default/web` (slot front) is `81` instead of `80`"]
        );
        assert_eq!(shown(child(80, of_slot()), vec![]), ["`Service default/web` (slot front) is missing"]);
        assert_eq!(shown(vec![], child(80, of_slot())), ["`Service default/web` (slot front) is left over"]);
        // One that has lost its label is the same object.
        assert_eq!(
            shown(child(80, of_slot()), child(80, json!({"app": "web"}))),
            [
                "`metadata.labels.app` of `Service default/web` (slot front) is `\"web\"` instead of absent",
                "`metadata.labels.kooper.rs/slot` of `Service default/web` (slot front) is absent instead of \
                 `\"front\"`"
            ]
        );
    }

    #[test]
    fn a_difference_names_its_object_and_field() {
        let before = vec![pod("web-a", "1", "Running"), pod("web-b", "2", "Running")];
        assert_eq!(
            shown(before.clone(), vec![pod("web-a", "1", "Failed")]),
            [
                "`Pod default/web-…` exists 1 time instead of 2",
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
