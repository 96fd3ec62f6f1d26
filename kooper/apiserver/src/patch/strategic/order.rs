//! The order of merged lists: that of `$setElementOrder`, else of the patch,
//! else of the object.
//!
//! Source: "Preserve order in strategic merge patch" of the design proposals.

use std::collections::HashMap;

use serde_json::Value;

use super::{DIRECTIVE, StrategicError};

/// Returns a key that is equal for values that are equal in Go: the value with its type.
pub(super) fn identity(value: &Value) -> String {
    value.to_string()
}

/// The identity of an item among others: its merge key, or itself.
pub(super) fn item_identity(item: &Value, merge_key: Option<&str>) -> String {
    identity(merge_key.map_or(item, |key| item.get(key).unwrap_or(&Value::Null)))
}

/// Where each item comes first.
pub(super) fn places(items: &[Value], merge_key: Option<&str>) -> HashMap<String, usize> {
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
