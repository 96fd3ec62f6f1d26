//! An object without some of its fields.

use serde_json::{Map, Value};

use super::super::fields::FieldSet;
use super::super::path::PathElement;
use super::super::schema::{Form, Node};
use super::item;

/// The object without the given fields and items. What is left without
/// members or items becomes `null`; scalars and what is empty stay.
pub(crate) fn remove(node: &Node<'_>, value: &Value, gone: &FieldSet) -> Value {
    match (node.form(Some(value)), value) {
        (Form::Map, Value::Object(map)) if !map.is_empty() && !node.is_atomic_map() => {
            let kept: Map<_, _> = map
                .iter()
                .filter_map(|(name, value)| {
                    let element = PathElement::field(name);
                    Some((name.clone(), keep(node.child(name).as_ref(), &element, value, gone)?))
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Form::List, Value::Array(items)) if !items.is_empty() && !node.is_atomic_list() => {
            let child = node.item();
            let kept: Vec<_> = items
                .iter()
                .filter_map(|value| match item::path_element(node, value) {
                    Ok(element) => keep(child.as_ref(), &element, value, gone),
                    Err(_) => Some(value.clone()),
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Form::Scalar(_), value) => value.clone(),
        _ => Value::Null,
    }
}

fn keep(child: Option<&Node<'_>>, element: &PathElement, value: &Value, gone: &FieldSet) -> Option<Value> {
    if gone.has(element) {
        return None;
    }
    Some(match (child, gone.below(element)) {
        (Some(child), Some(below)) => remove(child, value, below),
        _ => value.clone(),
    })
}
