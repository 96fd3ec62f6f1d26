//! Merged lists: of maps by their merge key, of scalars by value.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::super::format::{display, type_name};
use super::super::schema::Node;
use super::order::{identity, in_order, split_by};
use super::{DIRECTIVE, StrategicError, merge_map};

/// Merges a list of a patch into a list, or deletes its values from it. Items
/// of the patch get its order, the others stay where they were among each other.
pub(super) fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    item: &Node<'_>,
    merge_key: Option<&str>,
    is_deletion: bool,
) -> Result<Vec<Value>, StrategicError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let (merged, original, patch) = if are_maps(&original, &patch)? {
        let Some(key) = merge_key else {
            return Err(StrategicError::Content("cannot merge lists without merge key for struct".to_owned()));
        };
        let (original, patch) = obey_directives(original, patch, key)?;
        (merge_maps(&original, &patch, key, item)?, original, patch)
    } else if is_deletion {
        let gone: HashSet<String> = patch.iter().map(identity).collect();
        return Ok(original.into_iter().filter(|value| !gone.contains(&identity(value))).collect());
    } else {
        (without_duplicates([&original[..], &patch[..]].concat()), original, patch)
    };
    let (from_patch, server_only) = split_by(merged, &patch, merge_key)?;
    in_order(from_patch, server_only, &patch, &original, merge_key)
}

/// Returns whether the items are maps. It is an error if they have different types.
pub(super) fn are_maps(original: &[Value], patch: &[Value]) -> Result<bool, StrategicError> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(StrategicError::Content("no elements in any of the given slices".to_owned()));
    };
    if first.is_array() {
        return Err(StrategicError::ListOfLists);
    }
    if items.any(|item| type_name(item) != type_name(first)) {
        let lists = display(&Value::Array(vec![original.into(), patch.into()]));
        return Err(StrategicError::Content(format!("list element types are not identical: {lists}")));
    }
    Ok(first.is_object())
}

/// Takes items with `$patch` out of the patch: `delete` deletes the item of
/// the same key, `replace` all that were there.
fn obey_directives(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let (special, plain): (Vec<_>, Vec<_>) = patch.into_iter().partition(|item| item.get(DIRECTIVE).is_some());
    let mut gone = HashSet::new();
    let mut replaced = false;
    for item in &special {
        match item[DIRECTIVE].as_str() {
            Some("delete") => {
                let value = item.get(key).ok_or_else(|| StrategicError::no_merge_key(item, key))?;
                gone.insert(identity(value));
            }
            Some("replace") => replaced = true,
            Some("merge") => {
                return Err(StrategicError::Content("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => {
                let map = item.as_object().cloned().unwrap_or_default();
                return Err(StrategicError::unknown_directive(&item[DIRECTIVE], &map));
            }
        }
    }
    if replaced {
        return Ok((plain, Vec::new()));
    }
    let kept = |item: &Value| item.get(key).is_none_or(|value| !gone.contains(&identity(value)));
    Ok((original.into_iter().filter(kept).collect(), plain))
}

/// Merges maps of the same key and appends the others.
fn merge_maps(original: &[Value], patch: &[Value], key: &str, item: &Node<'_>) -> Result<Vec<Value>, StrategicError> {
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, item) in original.iter().enumerate() {
        if let Some(value) = item.get(key) {
            places.entry(identity(value)).or_insert(place);
        }
    }
    let mut merged = original.to_vec();
    for patch in patch {
        let value = patch.get(key).ok_or_else(|| StrategicError::no_merge_key(patch, key))?;
        match places.get(&identity(value)) {
            Some(place) => {
                let (Value::Object(ours), Value::Object(theirs)) = (merged[*place].take(), patch.clone()) else {
                    continue;
                };
                merged[*place] = Value::Object(merge_map(ours, theirs, item)?);
            }
            None => {
                places.insert(identity(value), merged.len());
                merged.push(patch.clone());
            }
        }
    }
    Ok(merged)
}

/// The values, each once. The last takes the place of one that goes, since
/// the real server's result has that order.
fn without_duplicates(mut values: Vec<Value>) -> Vec<Value> {
    let mut places: HashMap<String, BTreeSet<usize>> = HashMap::new();
    for (place, value) in values.iter().enumerate() {
        places.entry(identity(value)).or_default().insert(place);
    }
    let mut place = 0;
    while place < values.len() {
        let own = identity(&values[place]);
        while let Some(again) = places.get(&own).and_then(|places| places.range(place + 1..).next().copied()) {
            let last = values.len() - 1;
            places.entry(own.clone()).or_default().remove(&again);
            let moved = values.swap_remove(again);
            drop(moved);
            if again != last {
                let places = places.entry(identity(&values[again])).or_default();
                places.remove(&last);
                places.insert(again);
            }
        }
        place += 1;
    }
    values
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_repeat_are_replaced_by_the_last() {
        let deduplicated = |values: Value| {
            let values = values.as_array().cloned().unwrap_or_default();
            json!(without_duplicates(values))
        };
        assert_eq!(deduplicated(json!(["a", "b", "a", "c", "d"])), json!(["a", "b", "d", "c"]));
        assert_eq!(deduplicated(json!(["a", "a", "a"])), json!(["a"]));
        assert_eq!(deduplicated(json!(["a", "b", "c", "b"])), json!(["a", "b", "c"]));
        assert_eq!(deduplicated(json!(["a", "b", "a", "c", "b"])), json!(["a", "b", "c"]));
    }
}
