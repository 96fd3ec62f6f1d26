//! Writes that change nothing but the times of `managedFields`.

use serde_json::Value;

use super::managed;

/// Puts the former times back where nothing but times of `managedFields`
/// changed, so that the write stores nothing
/// (`IgnoreManagedFieldsTimestampsTransformer` of the real server).
pub fn keep_times(new: &mut Value, old: &Value) {
    let (Some(before), Some(after)) = (managed::of(old).as_array(), managed::of(new).as_array()) else { return };
    if before.is_empty() || before.len() != after.len() {
        return;
    }
    let same_entries = before.iter().zip(after).all(|(before, after)| same_but(before, after, &["time"]));
    if !same_entries || before == after || !same_but(new, old, &["metadata", "managedFields"]) {
        return;
    }
    managed::set(new, before.clone());
}

/// Returns whether two objects are equal except at the path.
fn same_but(left: &Value, right: &Value, path: &[&str]) -> bool {
    let (Some(left), Some(right), Some((name, rest))) = (left.as_object(), right.as_object(), path.split_first())
    else {
        return left == right;
    };
    let others = |map: &serde_json::Map<String, Value>| map.keys().filter(|key| key != name).count();
    let same = others(left) == others(right)
        && left.iter().filter(|(key, _)| key != name).all(|(key, value)| right.get(key) == Some(value));
    same && (rest.is_empty()
        || match (left.get(*name), right.get(*name)) {
            (Some(left), Some(right)) => same_but(left, right, rest),
            (left, right) => left.is_none() && right.is_none(),
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(data: &str, manager: &str, time: &str) -> Value {
        let entry = json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time});
        json!({"metadata": {"name": "a", "managedFields": [entry]}, "data": {"a": data}})
    }

    #[test]
    fn times_are_kept_only_where_nothing_else_changed() {
        let old = object("1", "m", "t1");
        let kept = |mut new: Value| {
            keep_times(&mut new, &old);
            new["metadata"]["managedFields"][0]["time"] == "t1"
        };
        assert!(kept(object("1", "m", "t2")));
        assert!(!kept(object("2", "m", "t2")));
        assert!(!kept(object("1", "other", "t2")));
    }
}
