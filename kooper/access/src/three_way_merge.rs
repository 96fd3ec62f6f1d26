//! Differences between states of an object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The fields that distinguish the entries of a list, as far as the lists of Kubernetes
/// are maps.
pub(crate) const KEYS: [&str; 8] = ["name", "type", "uid", "key", "ip", "mountPath", "containerPort", "port"];

/// Fields of the metadata that every write may change.
const VOLATILE: [&str; 6] = ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];

/// Applies the difference between two states to a third one. `Null` is for a state
/// that does not exist.
pub fn three_way_merge(from: &Value, to: &Value, onto: &mut Value) {
    if from == to {
        return;
    }
    if *from == *onto {
        onto.clone_from(to);
        return;
    }
    match (from, to, onto) {
        (Value::Object(_) | Value::Null, Value::Object(to), Value::Object(onto)) => {
            let nothing = Map::new();
            merge_fields(from.as_object().unwrap_or(&nothing), to, onto);
        }
        (Value::Array(_) | Value::Null, Value::Array(to), Value::Array(onto)) => {
            merge_entries(from.as_array().map_or(&[], Vec::as_slice), to, onto);
        }
        (_, to, onto) => onto.clone_from(to),
    }
}

fn merge_fields(from: &Map<String, Value>, to: &Map<String, Value>, onto: &mut Map<String, Value>) {
    onto.retain(|field, _| to.contains_key(field) || !from.contains_key(field));
    for (field, to) in to {
        let from = from.get(field);
        match onto.get_mut(field) {
            Some(onto) => three_way_merge(from.unwrap_or(&Value::Null), to, onto),
            // It was removed meanwhile, and this difference does not set it.
            None if from == Some(to) => {}
            None => {
                onto.insert(field.clone(), to.clone());
            }
        }
    }
}

/// Lists with distinguishable entries are changed entry by entry, others by the places of the entries.
pub(crate) fn merge_entries(from: &[Value], to: &[Value], onto: &mut Vec<Value>) {
    let Some(same) = identity([from, to, onto.as_slice()]) else {
        *onto = by_place(from, to, onto);
        return;
    };
    let find = |list: &[Value], one: &Value| list.iter().position(|other| same(one, other));
    // Nothing else was added or removed, so that the order is that of the second state, too.
    if from.len() == onto.len() && from.iter().zip(&*onto).all(|(one, other)| same(one, other)) {
        let entry = |one: &Value| {
            let Some(at) = find(from, one) else { return one.clone() };
            let mut whole = onto[at].clone();
            three_way_merge(&from[at], one, &mut whole);
            whole
        };
        *onto = to.iter().map(entry).collect();
        return;
    }
    onto.retain(|one| find(to, one).is_some() || find(from, one).is_none());
    for one in to {
        let before = find(from, one).map(|at| &from[at]);
        match find(onto, one) {
            Some(at) => three_way_merge(before.unwrap_or(&Value::Null), one, &mut onto[at]),
            None if before == Some(one) => {}
            None => onto.push(one.clone()),
        }
    }
}

/// The second list. If the first one has the entries of the third one, but not all of their fields, these fields are kept.
fn by_place(from: &[Value], to: &[Value], onto: &[Value]) -> Vec<Value> {
    if from.len() != onto.len() || !from.iter().zip(onto).all(|(part, whole)| is_part(part, whole)) {
        return to.to_vec();
    }
    let entry = |(at, one): (usize, &Value)| {
        let is_same = |place: &usize| from.get(*place) == Some(one);
        let place = Some(at).filter(is_same).or_else(|| (0..from.len()).find(is_same));
        match (place, from.get(at)) {
            (Some(place), _) => onto[place].clone(),
            // It has changed in its place.
            (None, Some(before)) if from.len() == to.len() && !to.contains(before) => {
                let mut whole = onto[at].clone();
                three_way_merge(before, one, &mut whole);
                whole
            }
            (None, _) => one.clone(),
        }
    };
    to.iter().enumerate().map(entry).collect()
}

/// Returns `true` if a value has some of the fields of another one, and nothing else.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Null, _) => true,
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(field, part)| is_part(part, whole.get(field).unwrap_or(&Value::Null)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| is_part(part, whole))
        }
        (part, whole) => part == whole,
    }
}

/// A comparison of list entries: `true` if both are the same entry, even with another
/// content.
type IsSame = Box<dyn Fn(&Value, &Value) -> bool>;

/// Returns a comparison that recognizes the same entry in these lists, or `None` if none
/// is known.
fn identity(lists: [&[Value]; 3]) -> Option<IsSame> {
    let scalar = |one: &Value| !one.is_object() && !one.is_array();
    if lists.iter().all(|list| list.iter().all(scalar)) {
        // The arguments of a command, for example, may be equal.
        let are_sets = lists.iter().all(|list| are_distinct(list.iter(), list.len()));
        return are_sets.then(|| -> IsSame { Box::new(|one: &Value, other: &Value| one == other) });
    }
    let key = KEYS.into_iter().find(|key| {
        lists.iter().all(|list| {
            are_distinct(list.iter().filter_map(|one| one.get(key).filter(|value| scalar(value))), list.len())
        })
    })?;
    Some(Box::new(move |one: &Value, other: &Value| one.get(key) == other.get(key)))
}

/// Returns `true` if there are so many different values.
fn are_distinct<'a>(values: impl Iterator<Item = &'a Value>, number: usize) -> bool {
    values.map(ToString::to_string).collect::<BTreeSet<_>>().len() == number
}

/// Maps that are set as a whole.
const ATOMIC: [&str; 3] = ["matchLabels", "nodeSelector", "selector"];

/// Sets the fields that an apply states to the values that the server gives them.
pub fn apply_given_values(stated: &Value, given: &Value, onto: &mut Value) {
    match (stated, given, onto) {
        (Value::Object(stated), Value::Object(given), Value::Object(onto)) => {
            for (field, stated) in stated {
                // Responses do not have write-only fields, such as `stringData`.
                let Some(given) = given.get(field) else { continue };
                let onto = onto.entry(field.clone()).or_insert_with(|| given.clone());
                let is_list_of_values = || {
                    stated.as_array().is_some_and(|list| !list.iter().any(Value::is_object)) && field != "finalizers"
                };
                if ATOMIC.contains(&field.as_str()) || is_list_of_values() {
                    onto.clone_from(given);
                } else {
                    apply_given_values(stated, given, onto);
                }
            }
        }
        (Value::Array(stated), Value::Array(given), Value::Array(onto)) => {
            let Some(same) = identity([stated, given, onto.as_slice()]) else {
                onto.clone_from(given);
                return;
            };
            for stated in stated {
                let Some(given) = given.iter().find(|one| same(one, stated)) else { continue };
                match onto.iter_mut().find(|one| same(one, stated)) {
                    Some(onto) => apply_given_values(stated, given, onto),
                    None => onto.push(given.clone()),
                }
            }
        }
        (_, given, onto) => onto.clone_from(given),
    }
}

/// The JSON merge patch that makes one state into another.
#[must_use]
pub fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for field in from.keys().filter(|field| !to.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    for (field, to) in to {
        match from.get(field) {
            Some(from) if from == to => {}
            Some(from) => {
                patch.insert(field.clone(), merge_patch(from, to));
            }
            None => {
                patch.insert(field.clone(), to.clone());
            }
        }
    }
    Value::Object(patch)
}

/// Applies a JSON merge patch. With `keyed`, lists are merged by the entries, as a
/// strategic merge patch does.
pub fn merge(onto: &mut Value, patch: &Value, keyed: bool) {
    match (onto, patch) {
        (onto, Value::Object(patch)) => {
            if !onto.is_object() {
                *onto = Value::Object(Map::new());
            }
            let Value::Object(onto) = onto else { return };
            for (field, patch) in patch {
                if patch.is_null() {
                    onto.remove(field);
                } else {
                    merge(onto.entry(field.clone()).or_insert(Value::Null), patch, keyed);
                }
            }
        }
        (Value::Array(onto), Value::Array(patch)) if keyed => merge_entries(&[], patch, onto),
        (onto, patch) => onto.clone_from(patch),
    }
}

/// An object without the fields that any write may change.
#[must_use]
pub fn without_volatile_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !VOLATILE.contains(&field.as_str()));
    }
    object
}

/// The fields that differ: `spec.replicas`, `metadata.labels`, `status`.
#[must_use]
pub fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let nothing = Map::new();
    let fields = |object: &'_ Value| object.as_object().cloned().unwrap_or_default();
    let (before, after) = (fields(&without_volatile_fields(before)), fields(&without_volatile_fields(after)));
    let mut changed = BTreeSet::new();
    for field in before.keys().chain(after.keys()) {
        let (one, other) = (before.get(field), after.get(field));
        if one == other {
            continue;
        }
        if !["metadata", "spec"].contains(&field.as_str()) {
            changed.insert(field.clone());
            continue;
        }
        let [one, other] = [one, other].map(|value| value.and_then(Value::as_object).unwrap_or(&nothing));
        for inner in one.keys().chain(other.keys()).filter(|inner| one.get(*inner) != other.get(*inner)) {
            changed.insert(format!("{field}.{inner}"));
        }
    }
    changed.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn three_way(from: &Value, to: &Value, mut onto: Value) -> Value {
        three_way_merge(from, to, &mut onto);
        onto
    }

    #[test]
    fn a_difference_leaves_what_it_does_not_change() {
        let from = json!({"a": 1, "b": {"c": 1, "d": 1}, "gone": 1});
        let to = json!({"a": 1, "b": {"c": 2, "d": 1}, "new": 1});
        let onto = json!({"a": 5, "b": {"c": 1, "d": 7}, "gone": 1, "own": 1});
        assert_eq!(three_way(&from, &to, onto), json!({"a": 5, "b": {"c": 2, "d": 7}, "own": 1, "new": 1}));
    }

    #[test]
    fn entries_of_a_list_are_changed_one_by_one() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let onto = json!([condition("A", "True"), condition("B", "True")]);
        let to = json!([condition("A", "False")]);
        assert_eq!(
            three_way(&json!([condition("A", "True")]), &to, onto),
            json!([condition("A", "False"), condition("B", "True")])
        );
        assert_eq!(three_way(&json!(["x"]), &json!(["x", "y"]), json!(["z", "x"])), json!(["z", "x", "y"]));
        assert_eq!(three_way(&json!(["x"]), &json!([]), json!(["z", "x"])), json!(["z"]));
        // Nothing distinguishes them.
        assert_eq!(three_way(&json!([[1]]), &json!([[2]]), json!([[3]])), json!([[2]]));
        assert_eq!(three_way(&Value::Null, &json!({"a": [1]}), json!({"b": 1})), json!({"a": [1], "b": 1}));
    }

    #[test]
    fn a_list_with_equal_values_is_replaced_as_a_whole() {
        let (from, to) = (json!(["-v", "1", "-x", "2"]), json!(["-v", "1", "-x", "1"]));
        assert_eq!(three_way(&from, &to, json!(["-v", "1", "-x", "2", "-y"])), to);
        assert_eq!(three_way(&json!(["a"]), &json!(["a", "a"]), json!(["a", "b"])), json!(["a", "a"]));
    }

    #[test]
    fn entries_of_the_same_list_get_the_order_of_the_second_state() {
        let entry = |name: &str, note: &Value| json!({"name": name, "note": note});
        let from = json!([entry("a", &Value::Null), entry("b", &Value::Null)]);
        let to = json!([entry("c", &json!("new")), entry("b", &json!("x")), entry("a", &Value::Null)]);
        let onto = json!([{"name": "a", "more": 1}, {"name": "b"}]);
        let expected = json!([{"name": "c", "note": "new"}, {"name": "b", "note": "x"}, {"name": "a", "more": 1}]);
        assert_eq!(three_way(&from, &to, onto), expected);
    }

    #[test]
    fn entries_that_nothing_distinguishes_keep_the_fields_that_the_first_state_lacks() {
        let from = json!([{"path": "/a"}, {"path": "/b"}]);
        let onto = json!([{"path": "/a", "more": 1}, {"path": "/b", "more": 2}]);
        for (to, expected) in [
            (json!([{"path": "/c"}, {"path": "/b"}]), json!([{"path": "/c", "more": 1}, {"path": "/b", "more": 2}])),
            (json!([{"path": "/b"}]), json!([{"path": "/b", "more": 2}])),
            (json!([{"path": "/b"}, {"path": "/c"}]), json!([{"path": "/b", "more": 2}, {"path": "/c"}])),
            (
                json!([{"path": "/a"}, {"path": "/c"}, {"path": "/b"}]),
                json!([{"path": "/a", "more": 1}, {"path": "/c"}, {"path": "/b", "more": 2}]),
            ),
        ] {
            assert_eq!(three_way(&from, &to, onto.clone()), expected, "{to}");
        }
        let other = json!([{"path": "/x", "more": 1}, {"path": "/b", "more": 2}]);
        assert_eq!(three_way(&from, &json!([{"path": "/b"}]), other), json!([{"path": "/b"}]));
    }

    #[test]
    fn a_merge_patch_makes_one_state_into_the_other() {
        let from = json!({"a": {"b": 1, "c": [1]}, "d": 1});
        let to = json!({"a": {"b": 2, "c": [1, 2]}, "e": {"f": 1}});
        let patch = merge_patch(&from, &to);
        assert_eq!(patch, json!({"a": {"b": 2, "c": [1, 2]}, "d": null, "e": {"f": 1}}));
        let mut merged = from;
        merge(&mut merged, &patch, false);
        assert_eq!(merged, to);
        let mut list = json!({"ports": [{"name": "a", "port": 1}]});
        merge(&mut list, &json!({"ports": [{"name": "b", "port": 2}]}), true);
        assert_eq!(list["ports"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn changed_fields_are_named_without_those_that_every_write_changes() {
        let before = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"replicas": 1}});
        let after = json!({
            "metadata": {"name": "a", "resourceVersion": "2", "finalizers": ["x"]}, "spec": {"replicas": 2},
            "status": {"ready": true},
        });
        assert_eq!(changed_fields(&before, &after), ["metadata.finalizers", "spec.replicas", "status"]);
        assert_eq!(changed_fields(&before, &before), [""; 0]);
    }
}
