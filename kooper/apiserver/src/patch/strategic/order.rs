//! The order of merged lists: that of `$setElementOrder`, else of the patch,
//! else of the object.
//!
//! Source: "Preserve order in strategic merge patch" of the design proposals.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::format::display;
use super::super::schema::Node;
use super::list::{are_maps, identity, merge_list};
use super::{DIRECTIVE, SET_ORDER, StrategicError, list_field, parallel_list, without_directives};

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
            (None, Some(added)) => match without_directives(Value::Array(added)) {
                Some(Value::Array(added)) => added,
                _ => continue,
            },
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

/// What tells an item from others: its merge key, or itself.
fn item_identity(item: &Value, merge_key: Option<&str>) -> String {
    identity(merge_key.map_or(item, |key| item.get(key).unwrap_or(&Value::Null)))
}

/// Where each item comes first.
fn places(items: &[Value], merge_key: Option<&str>) -> HashMap<String, usize> {
    let mut places = HashMap::new();
    for (place, item) in items.iter().enumerate() {
        places.entry(item_identity(item, merge_key)).or_insert(place);
    }
    places
}

/// Parts the items that are among the given ones from the others.
pub(super) fn split_by(
    items: Vec<Value>,
    by: &[Value],
    merge_key: Option<&str>,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    if let Some(key) = merge_key {
        if let Some(item) = items.iter().find(|item| item.get(key).is_none()) {
            return Err(match item {
                Value::Object(_) => StrategicError::no_merge_key(item, key),
                other => StrategicError::wrong_type("map[string]interface {}", other),
            });
        }
        if let Some(place) = by.iter().position(|item| !item.is_object()) {
            return Err(StrategicError::Content(format!("value for key {place} is not a map")));
        }
    }
    let known = places(by, merge_key);
    Ok(items.into_iter().partition(|item| known.contains_key(&item_identity(item, merge_key))))
}

/// Sorts the items of the patch by its order and the others by the server's,
/// and interleaves both as the server had them, as far as it had both.
pub(super) fn in_order(
    from_patch: Vec<Value>,
    server_only: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: Option<&str>,
) -> Result<Vec<Value>, StrategicError> {
    if let Some(key) = merge_key {
        let lists = from_patch.iter().chain(patch_order).chain(&server_only).chain(server_order);
        if let Some(item) = lists.into_iter().find(|item| item.get(key).is_none()) {
            return Err(StrategicError::no_merge_key(item, key));
        }
    }
    let from_patch = sorted(from_patch, &places(patch_order, merge_key), merge_key);
    let server_places = places(server_order, merge_key);
    let server_only = sorted(server_only, &server_places, merge_key);

    let place = |item: &Value| server_places.get(&item_identity(item, merge_key));
    let mut merged = Vec::with_capacity(from_patch.len() + server_only.len());
    let mut server_only = server_only.into_iter().peekable();
    for item in from_patch {
        let limit = place(&item);
        while let (Some(limit), Some(next)) = (limit, server_only.peek()) {
            if place(next).is_none_or(|place| place >= limit) {
                break;
            }
            merged.extend(server_only.next());
        }
        merged.push(item);
    }
    merged.extend(server_only);
    Ok(merged)
}

/// Sorts by place; items that are to be deleted come last. An item without a
/// place goes before what it is compared with: the real server's sort moves
/// each such item to the front.
fn sorted(items: Vec<Value>, places: &HashMap<String, usize>, merge_key: Option<&str>) -> Vec<Value> {
    let is_deleted = |item: &Value| merge_key.is_some() && item[DIRECTIVE] == "delete";
    let (deleted, items): (Vec<_>, Vec<_>) = items.into_iter().partition(is_deleted);
    let mut keyed: Vec<_> =
        items.into_iter().map(|item| (places.get(&item_identity(&item, merge_key)).copied(), item)).collect();
    if keyed.iter().all(|(place, _)| place.is_some()) || keyed.len() > 20 {
        keyed.sort_by_key(|(place, _)| *place);
    } else {
        for end in 1..keyed.len() {
            let mut at = end;
            while at > 0 && goes_before(keyed[at].0, keyed[at - 1].0) {
                keyed.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    keyed.into_iter().map(|(_, item)| item).chain(deleted).collect()
}

fn goes_before(left: Option<usize>, right: Option<usize>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => left < right,
        _ => true,
    }
}
