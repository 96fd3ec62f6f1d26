//! A patch as messages of the real server show it: what the merge has dealt with is missing.

use serde_json::{Map, Value};

use super::super::merge::drop_nulls;
use super::super::schema::{Node, Schema};
use super::{DELETE_FROM, DIRECTIVE, RETAIN_KEYS, SET_ORDER, field, is_plain, list_field, parallel_list, same_type};

/// Returns the rest of a patch after it was merged into an object.
pub(crate) fn consumed(original: &Value, patch: &Value, schema: &Schema) -> Value {
    let mut left = patch.clone();
    if let (Some(original), Some(patch)) = (original.as_object(), left.as_object_mut()) {
        map(original, patch, &schema.root());
    }
    left
}

fn map(original: &Map<String, Value>, patch: &mut Map<String, Value>, node: &Node<'_>) {
    if let Some(directive) = patch.get(DIRECTIVE) {
        if directive == "replace" {
            patch.remove(DIRECTIVE);
        }
        return;
    }
    let retained = patch.remove(RETAIN_KEYS);
    let retained = retained.as_ref().and_then(Value::as_array);
    let orders: Vec<_> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for name in orders {
        patch.remove(&name);
        if let Some(Some(list)) = parallel_list(&name, SET_ORDER) {
            patch.remove(list);
        }
    }
    for (name, value) in patch.iter_mut().filter(|(name, value)| !value.is_null() && !name.starts_with(DELETE_FROM)) {
        let is_kept = |_: &&Value| retained.is_none_or(|names| names.iter().any(|kept| kept == name.as_str()));
        let present = original.get(name).filter(is_kept);
        match (present, &mut *value) {
            (Some(Value::Object(original)), Value::Object(patch)) => {
                if let Ok((child, strategy)) = field(node, name)
                    && !strategy.replace
                {
                    map(original, patch, &child);
                }
            }
            (Some(Value::Array(original)), Value::Array(patch)) => {
                if let Ok((child, strategy)) = list_field(node, name)
                    && let Some(key) = strategy.merge_key.filter(|_| strategy.merge)
                {
                    items(original, patch, &child, &key);
                }
            }
            (present, value) if same_type(present, value) => {}
            // The items that are left out are still in the patch.
            (_, Value::Array(items)) => {
                for item in items {
                    drop_nulls(item);
                    is_plain(item);
                }
            }
            (_, value) => {
                drop_nulls(value);
                is_plain(value);
            }
        }
    }
}

/// The items that are merged into those with the same key.
fn items(original: &[Value], patch: &mut [Value], node: &Node<'_>, key: &str) {
    if patch.iter().any(|item| item[DIRECTIVE] == "replace") {
        return;
    }
    for item in patch.iter_mut().filter(|item| item.get(DIRECTIVE).is_none()) {
        let same = original.iter().find(|other| other.get(key) == item.get(key));
        if let (Some(Value::Object(original)), Value::Object(patch)) = (same, item) {
            map(original, patch, node);
        }
    }
}
