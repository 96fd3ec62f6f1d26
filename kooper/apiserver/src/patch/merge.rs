//! JSON merge patches (RFC 7386), as the real server applies them.

use serde_json::{Map, Value};

/// Applies a merge patch: objects are merged member by member, `null` removes
/// a member, and everything else replaces what is there. RFC 7386 section 2.
#[must_use]
pub fn merge_patch(target: Value, patch: Value) -> Value {
    match (target, patch) {
        (Value::Object(mut target), Value::Object(patch)) => {
            merge_members(&mut target, patch);
            Value::Object(target)
        }
        // Here, too, the real server departs from what it does elsewhere.
        (Value::Object(_), patch) => patch,
        (_, patch) => without_nulls(patch),
    }
}

fn merge_members(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            let merged = merge_patch(target.remove(&name).unwrap_or_default(), value);
            target.insert(name, merged);
        }
    }
}

/// The value without members that are `null`. The RFC leaves those of objects
/// within arrays alone; the real server removes them, too, but keeps items.
pub(super) fn without_nulls(mut value: Value) -> Value {
    drop_nulls(&mut value);
    value
}

pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of RFC 7386, appendix A.
    #[test]
    fn the_examples_of_the_rfc_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (target, patch, result) in cases {
            assert_eq!(merge_patch(target.clone(), patch.clone()), result, "{target} patched with {patch}");
        }
    }

    #[test]
    fn nulls_within_arrays_lose_members_but_not_items() {
        let patch = json!({"a": [{"b": null, "c": 1}, null]});
        assert_eq!(merge_patch(json!({}), patch), json!({"a": [{"c": 1}, null]}));
    }
}
