//! Strategic merge patches: JSON merge patches that merge some lists by key,
//! and have directives to replace, delete and order.
//!
//! Source: "Strategic merge patch" of the API conventions
//! (<https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md>),
//! "Use a strategic merge patch" of the Kubernetes documentation, and the
//! messages of apimachinery's `strategicpatch` and `mergepatch`.

mod consumed;
mod error;
mod list;
mod order;
mod ordered;

pub(crate) use consumed::consumed;
pub use error::StrategicError;

use serde_json::{Map, Value};

use super::format::quote;
use super::merge::without_nulls;
use super::schema::{Node, Schema};
use super::types::Strategy;

/// Directive for a map or a list item: `replace`, `delete` or `merge`.
const DIRECTIVE: &str = "$patch";
/// The only keys of a map that are kept.
const RETAIN_KEYS: &str = "$retainKeys";
/// Before a `/` and the name of a list: the values that are deleted from it.
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
/// Before a `/` and the name of a list: its order after the merge.
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of a built-in kind. Custom
/// resources have no such patches: the real server answers 415.
///
/// # Errors
///
/// If the patch isn't an object, contradicts itself or doesn't fit the schema.
pub fn strategic_merge(original: Value, patch: Value, schema: &Schema) -> Result<Value, StrategicError> {
    match (original, patch) {
        (Value::Object(original), Value::Object(patch)) => {
            Ok(Value::Object(merge_map(original, patch, &schema.root())?))
        }
        _ => Err(StrategicError::BadDocument),
    }
}

/// Merges the members of a patch into those of an object.
fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    node: &Node<'_>,
) -> Result<Map<String, Value>, StrategicError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(StrategicError::unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    ordered::merge_ordered(&mut original, &mut patch, node)?;
    for (name, value) in patch {
        let (name, is_deletion) = match parallel_list(&name, DELETE_FROM) {
            Some(list) => (list.ok_or(StrategicError::PrimitiveList)?.to_owned(), true),
            None => (name, false),
        };
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        let merged = match (original.remove(&name), value) {
            (Some(Value::Object(original)), Value::Object(patch)) => {
                let (child, strategy) = field(node, &name)?;
                let replaced = strategy.replace;
                Some(Value::Object(if replaced { patch } else { merge_map(original, patch, &child)? }))
            }
            (Some(Value::Array(original)), Value::Array(patch)) => {
                let (child, strategy) = list_field(node, &name)?;
                Some(Value::Array(if strategy.merge || is_deletion {
                    list::merge_list(original, patch, &child, strategy.merge_key.as_deref(), is_deletion)?
                } else {
                    patch
                }))
            }
            // A deletion from what isn't there, or isn't a list, is none.
            (original, value) if is_deletion && !same_type(original.as_ref(), &value) => original,
            (Some(original), value) if same_type(Some(&original), &value) => without_directives(value),
            (_, value) => without_directives(without_nulls(value)),
        };
        if let Some(merged) = merged {
            original.insert(name, merged);
        }
    }
    Ok(original)
}

/// Obeys `$retainKeys`.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), StrategicError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else { return Err(StrategicError::RetainKeys) };
    let retained: std::collections::HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_parallel = |name: &str| name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
    let is_known =
        |(name, value): (&String, &Value)| value.is_null() || is_parallel(name) || retained.contains(name.as_str());
    if !patch.iter().all(is_known) {
        return Err(StrategicError::RetainKeys);
    }
    original.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

/// The list that a key with a prefix is about: `None` if the key hasn't got
/// the prefix, `Some(None)` if no list follows it.
fn parallel_list<'n>(name: &'n str, prefix: &str) -> Option<Option<&'n str>> {
    let rest = name.strip_prefix(prefix)?;
    Some(rest.strip_prefix('/').filter(|list| !list.is_empty()))
}

/// Returns whether Go decodes both values to the same type.
fn same_type(left: Option<&Value>, right: &Value) -> bool {
    left.is_some_and(|left| super::format::type_name(left) == super::format::type_name(right))
}

/// The type of a member and how it is merged.
fn field<'t>(node: &Node<'t>, name: &str) -> Result<(Node<'t>, Strategy), StrategicError> {
    match (node.field(name), node.child(name)) {
        (Some(field), Some(child)) => Ok((child, field.strategy.clone())),
        _ if node.name().is_empty() => Err(StrategicError::Schema(
            "merging an object in json but data type is not struct, instead is: map".to_owned(),
        )),
        _ => Err(StrategicError::Schema(format!(
            "unable to find api field in struct {} for the json field {}",
            node.name(),
            quote(name)
        ))),
    }
}

/// The type of the items of a member and how it is merged.
fn list_field<'t>(node: &Node<'t>, name: &str) -> Result<(Node<'t>, Strategy), StrategicError> {
    let (list, strategy) = field(node, name)?;
    match list.item() {
        Some(item) if list.map().is_none() => Ok((item, strategy)),
        _ => Err(StrategicError::Schema("expected slice or array type, but got: struct".to_owned())),
    }
}

/// A value of a patch for which there is nothing to merge with: without maps
/// that have a directive. `None` if it is such a map itself.
fn without_directives(mut value: Value) -> Option<Value> {
    is_plain(&mut value).then_some(value)
}

/// Removes maps with a directive from the value. Returns `false` if the value itself is such a map.
fn is_plain(value: &mut Value) -> bool {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => return false,
        Value::Object(members) => members.retain(|_, value| is_plain(value)),
        Value::Array(items) => items.retain_mut(is_plain),
        _ => {}
    }
    true
}
