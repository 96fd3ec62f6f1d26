//! The stored object and an applied configuration in one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::super::path::PathElement;
use super::super::schema::{Form, Node};
use super::{item, items, keys, members};

/// Merges a configuration into an object. Nothing is removed, of leaves that
/// both have that of the configuration is kept. Items of merged lists come in
/// the object's order, or where the configuration's is another, in that.
pub(crate) fn combine(node: &Node<'_>, live: &Value, applied: &Value) -> Value {
    merge(node, Some(live), Some(applied)).unwrap_or_default()
}

fn merge(node: &Node<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let whole = || applied.or(live).cloned();
    match node.form(applied.or(live)) {
        Form::Map => {
            let (left, right) = (members(live), members(applied));
            if node.is_atomic_map() || (left.is_empty() && right.is_empty()) {
                return whole();
            }
            let merged: Map<_, _> = keys(left, right)
                .filter_map(|name| {
                    let child = node.child(name)?;
                    Some((name.clone(), merge(&child, left.get(name), right.get(name))?))
                })
                .collect();
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
        Form::List => {
            let (left, right) = (items(live), items(applied));
            if node.is_atomic_list() || (left.is_empty() && right.is_empty()) {
                return whole();
            }
            let merged = merge_items(node, left, right);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
        Form::Scalar(_) | Form::Nothing => whole(),
    }
}

fn merge_items(node: &Node<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let Some(child) = node.item() else { return applied.to_vec() };
    let index = |values: &[Value]| -> Vec<_> {
        let known = |(place, value)| Some((item::path_element(node, value).ok()?, place));
        values.iter().enumerate().filter_map(known).collect()
    };
    let (left, right) = (index(live), index(applied));
    // Stored items that repeat are replaced by the applied one, not merged.
    let mut live_by_element: BTreeMap<&PathElement, &Value> = BTreeMap::new();
    for (element, place) in &left {
        let value = if live_by_element.contains_key(element) { &Value::Null } else { &live[*place] };
        live_by_element.insert(element, value);
    }
    let wanted: BTreeSet<&PathElement> = right.iter().map(|(element, _)| element).collect();
    // The items that both have, in the order in which they have to come out.
    let mut shared = right.iter().map(|(element, _)| element).filter(|element| live_by_element.contains_key(element));
    let mut next_shared = shared.next();

    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let mut taken: BTreeSet<&PathElement> = BTreeSet::new();
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some((ours, _)), Some((theirs, place))) = (left.get(l), right.get(r)) {
            if ours == theirs {
                taken.insert(ours);
                merged.extend(merge(&child, live_by_element.get(ours).copied(), Some(&applied[*place])));
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            if wanted.contains(ours) && next_shared.is_some_and(|next| next != ours) {
                // It is shared, and comes later.
                l += 1;
                continue;
            }
        }
        if let Some((ours, place)) = left.get(l) {
            if !wanted.contains(ours) {
                merged.extend(merge(&child, Some(&live[*place]), None));
                l += 1;
                continue;
            }
            if taken.contains(ours) {
                l += 1;
            }
        }
        if let Some((theirs, place)) = right.get(r) {
            taken.insert(theirs);
            merged.extend(merge(&child, live_by_element.get(theirs).copied(), Some(&applied[*place])));
            r += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::schema::{Schema, Types};
    use super::*;

    fn merged(live: &Value, applied: &Value) -> Value {
        let list = |kind| json!({"type": "array", "x-kubernetes-list-type": kind, "items": {"type": "string"}});
        let schema = Schema::custom(
            &Types::new(|_| None),
            &json!({"type": "object", "properties": {
                "set": list("set"), "whole": list("atomic"),
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            }}),
        );
        combine(&schema.root(), live, applied)
    }

    #[test]
    fn items_keep_the_stored_order_unless_the_configuration_has_another() {
        let set =
            |live: &[&str], applied: &[&str]| merged(&json!({"set": live}), &json!({"set": applied}))["set"].clone();
        assert_eq!(set(&["a", "b", "c"], &["b", "d"]), json!(["a", "b", "c", "d"]));
        assert_eq!(set(&["a", "b", "c"], &["c", "a"]), json!(["b", "c", "a"]));
        assert_eq!(set(&[], &["b", "a"]), json!(["b", "a"]));
        assert_eq!(set(&["a", "a"], &["a"]), json!(["a"]));
    }

    #[test]
    fn nulls_and_empty_values_are_kept_apart() {
        assert_eq!(merged(&json!({"map": null}), &json!({"map": {}})), json!({"map": {}}));
        assert_eq!(merged(&json!({"map": {"a": "b"}}), &json!({"map": null})), json!({"map": {"a": "b"}}));
        assert_eq!(merged(&json!({"whole": ["a"]}), &json!({"whole": null})), json!({"whole": null}));
        assert_eq!(merged(&json!({"whole": ["a", "b"]}), &json!({"whole": ["c"]})), json!({"whole": ["c"]}));
    }
}
