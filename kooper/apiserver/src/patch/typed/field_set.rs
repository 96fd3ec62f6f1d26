//! Which fields an object sets: what its applier owns.

use serde_json::Value;

use super::super::fields::{Entry, FieldSet};
use super::super::path::PathElement;
use super::super::schema::{Form, Node};
use super::{item, items, members};

/// The fields that an object sets: leaves, atomic maps and lists, items of
/// merged lists, and keys that the schema doesn't declare.
pub(crate) fn field_set(node: &Node<'_>, value: &Value) -> FieldSet {
    entry(node, value).below
}

fn entry(node: &Node<'_>, value: &Value) -> Entry {
    match node.form(Some(value)) {
        Form::Map if node.is_atomic_map() => Entry::MEMBER,
        Form::List if node.is_atomic_list() => Entry::MEMBER,
        Form::Scalar(_) => Entry::MEMBER,
        Form::Map => Entry { member: false, below: of_map(node, value) },
        Form::List => Entry { member: false, below: of_list(node, items(Some(value))) },
        Form::Nothing => Entry::default(),
    }
}

fn of_map(node: &Node<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::new();
    for (name, value) in members(Some(value)) {
        let mut entry = node.child(name).map(|child| entry(&child, value)).unwrap_or_default();
        let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        entry.member |= is_empty || !node.declares(name);
        set.put(PathElement::field(name), entry);
    }
    set
}

fn of_list(node: &Node<'_>, values: &[Value]) -> FieldSet {
    let mut set = FieldSet::new();
    let Some(child) = node.item() else { return set };
    let mut repeated = FieldSet::new();
    for value in values {
        let Ok(element) = item::path_element(node, value) else { continue };
        // Of items that repeat, only the items themselves are owned.
        if set.has(&element) {
            repeated.put(element, Entry::MEMBER);
        } else {
            let below = entry(&child, value).below;
            set.put(element, Entry { member: true, below });
        }
    }
    set.difference_with_parts(&repeated).union(&repeated)
}
