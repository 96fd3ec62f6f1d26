//! Field sets that were recorded under an earlier schema.

use super::super::fields::{Entry, FieldSet};
use super::super::path::PathElement;
use super::super::schema::{Form, Node};

/// The set as the present schema would have recorded it: a manager that owned parts
/// of what is atomic by now owns the whole. What was atomic and is merged by
/// now is left as it is, as the real server does.
pub(crate) fn reconcile(node: &Node<'_>, set: &FieldSet) -> FieldSet {
    let mut reconciled = FieldSet::new();
    for (element, entry) in set.entries() {
        let child = match (node.form(None), element) {
            (Form::Map, _) if node.map().is_some_and(|map| map.free) => None,
            (Form::Map, PathElement::Field(name)) => node.child(name),
            (Form::List, _) => node.item(),
            _ => None,
        };
        let entry = child.map_or_else(|| entry.clone(), |child| reconcile_entry(&child, entry));
        reconciled.put(element.clone(), entry);
    }
    reconciled
}

fn reconcile_entry(node: &Node<'_>, entry: &Entry) -> Entry {
    if entry.below.is_empty() {
        return entry.clone();
    }
    match node.form(None) {
        Form::Map if node.map().is_some_and(|map| map.free) => entry.clone(),
        Form::Map if node.is_atomic_map() => Entry::MEMBER,
        Form::List if node.is_atomic_list() => Entry::MEMBER,
        Form::Map | Form::List => Entry { member: entry.member, below: reconcile(node, &entry.below) },
        Form::Scalar(_) | Form::Nothing => entry.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::fields_v1;
    use super::super::super::schema::{Schema, Types};
    use super::*;

    #[test]
    fn the_owner_of_a_part_of_what_became_atomic_owns_the_whole() {
        let schema = Schema::custom(
            &Types::new(|_| None),
            &json!({"type": "object", "properties": {
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
                "list": {"type": "array", "items": {"type": "string"}},
                "merged": {"type": "object", "additionalProperties": {"type": "string"}},
            }}),
        );
        let before = json!({
            "f:whole": {"f:a": {}}, "f:list": {"v:\"x\"": {}}, "f:merged": {".": {}, "f:a": {}}, "f:gone": {"f:a": {}},
        });
        let after = json!({"f:whole": {}, "f:list": {}, "f:merged": {".": {}, "f:a": {}}, "f:gone": {"f:a": {}}});
        let set = fields_v1::decode(&before).expect("it is valid");
        assert_eq!(fields_v1::encode(&reconcile(&schema.root(), &set)), after);
    }
}
