//! Lists of which the patch gives the order, with `$setElementOrder`.

use serde_json::{Map, Value};

use super::super::format::display;
use super::super::schema::Node;
use super::list::{are_maps, merge_list};
use super::order::{identity, in_order, item_identity, places, split_by};
use super::{DIRECTIVE, SET_ORDER, StrategicError, is_plain, list_field, parallel_list};

/// Merges the lists of which the patch gives the order, and takes them and
/// their orders out of the patch.
pub(super) fn merge_ordered(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    node: &Node<'_>,
) -> Result<(), StrategicError> {
    let orders: Vec<_> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for key in orders {
        let Some(order) = patch.remove(&key) else { continue };
        let Value::Array(order) = order else { return Err(StrategicError::wrong_type("[]interface {}", &order)) };
        let name = parallel_list(&key, SET_ORDER).flatten().ok_or(StrategicError::ElementOrder)?;
        let list = |value: Option<&Value>| match value {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(other) => Err(StrategicError::wrong_type("[]interface {}", other)),
        };
        let (before, added) = (list(original.get(name))?, list(patch.get(name))?);
        let (item, strategy) = list_field(node, name)?;
        let merge_key = strategy.merge_key.as_deref();
        check(added.as_deref().unwrap_or_default(), &order, merge_key)?;
        let before_deletion = before.clone().unwrap_or_default();
        let in_patch = added.clone().unwrap_or_default();
        let server_order = match merge_key {
            Some(key) if strategy.merge => after_deletion(&before_deletion, &in_patch, key),
            _ => before_deletion.clone(),
        };
        let merged = match (before, added) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(mut added)) => {
                added.retain_mut(is_plain);
                added
            }
            (Some(before), Some(added)) if strategy.merge => merge_list(before, added, &item, merge_key, false)?,
            (Some(_), Some(added)) => added,
        };
        let (from_patch, server_only) = split_by(merged, &order, merge_key)?;
        are_maps(&before_deletion, &in_patch)?;
        let both = in_order(from_patch, server_only, &order, &server_order, merge_key)?;
        original.insert(name.to_owned(), Value::Array(both));
        patch.remove(name);
    }
    Ok(())
}

/// The order that the server has after the patch's deletions. The real server
/// edits its list in place: new items take the room of those that are deleted,
/// and thereby a place in its order.
fn after_deletion(before: &[Value], patch: &[Value], key: &str) -> Vec<Value> {
    let (special, plain): (Vec<_>, Vec<_>) = patch.iter().partition(|item| item.get(DIRECTIVE).is_some());
    let deleted: Vec<Value> =
        special.iter().filter(|item| item[DIRECTIVE] == "delete").map(|item| (*item).clone()).collect();
    let deleted = places(&deleted, Some(key));
    let mut after: Vec<Value> =
        before.iter().filter(|item| !deleted.contains_key(&item_identity(item, Some(key)))).cloned().collect();
    if special.len() == deleted.len() {
        let room = before.len() - after.len();
        let known = places(&after, Some(key));
        let new = plain.into_iter().filter(|item| !known.contains_key(&item_identity(item, Some(key))));
        after.extend(new.take(room).cloned());
    }
    after
}

/// Checks that the patch's items are among those of the order, and in it.
fn check(patch: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), StrategicError> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    if merge_key.is_some()
        && let Some(other) = patch.iter().find(|item| !item.is_object())
    {
        return Err(StrategicError::wrong_type("map[string]interface {}", other));
    }
    let is_deleted = |item: &Value| merge_key.is_some() && item[DIRECTIVE] == "delete";
    let items: Vec<_> = patch.iter().filter(|item| !is_deleted(item)).collect();
    let (mut at, mut at_order) = (0, 0);
    while let (Some(item), Some(wanted)) = (items.get(at), order.get(at_order)) {
        // An item with a directive is passed over here, but not as the last.
        if item.get(DIRECTIVE).is_some() {
            at += 1;
            continue;
        }
        if same_item(item, wanted, merge_key)? {
            at += 1;
        }
        at_order += 1;
    }
    if at == items.len() {
        return Ok(());
    }
    let (patch, order) = (display(&patch.into()), display(&order.into()));
    Err(StrategicError::Content(format!(
        "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
    )))
}

fn same_item(left: &Value, right: &Value, merge_key: Option<&str>) -> Result<bool, StrategicError> {
    let Some(key) = merge_key else { return Ok(left == right) };
    let value = |item: &Value| match item {
        Value::Object(map) => map.get(key).map(identity).ok_or_else(|| StrategicError::no_merge_key(item, key)),
        other => Err(StrategicError::wrong_type("map[string]interface {}", other)),
    };
    Ok(value(left)? == value(right)?)
}
