//! A change of an object's typed form, applied to its raw form.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use crate::three_way_merge::{KEYS, merge_entries};

/// The list of values that is a set, in every kind.
const SET: &str = "metadata.finalizers";

/// Applies to `raw` what changed from `before` to `after`. Returns the result, and the paths
/// of values that `raw` has and that changed.
#[must_use]
pub fn rebase(before: &Value, after: &Value, raw: &Value) -> (Value, Vec<String>) {
    let mut rebase = Rebase { path: Vec::new(), changed: Vec::new() };
    let result = rebase.value(before, after, raw);
    (result, rebase.changed)
}

struct Rebase {
    path: Vec<String>,
    changed: Vec<String>,
}

impl Rebase {
    fn value(&mut self, before: &Value, after: &Value, raw: &Value) -> Value {
        if before == after {
            return raw.clone();
        }
        match (before, after, raw) {
            (Value::Object(before), Value::Object(after), Value::Object(raw)) => self.fields(before, after, raw).into(),
            (Value::Array(before), Value::Array(after), Value::Array(raw)) => self.entries(before, after, raw).into(),
            _ => {
                self.change();
                after.clone()
            }
        }
    }

    fn fields(
        &mut self,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
        raw: &Map<String, Value>,
    ) -> Map<String, Value> {
        let mut result = raw.clone();
        for field in before.keys().filter(|field| !after.contains_key(*field)) {
            if result.remove(field).is_some_and(|there| !is_absent(&there)) {
                self.within(format!(".{field}"), Self::change);
            }
        }
        for (field, after) in after {
            let before = before.get(field);
            if before == Some(after) {
                continue;
            }
            // The type has read an empty map, and writes it with its defaults, which need not be stored.
            let is_read = after.is_object() && before.is_some_and(Value::is_object);
            let there = raw.get(field).filter(|there| !is_absent(there) || is_read && there.is_object());
            let changed = match there {
                // The type gave it a default, or does not read it: now it is set.
                None => after.clone(),
                Some(there) if there == after => continue,
                // The type leaves out what it has read, as an empty value, so only the fields
                // or entries within are compared.
                Some(there) => {
                    let is_list = there.is_array();
                    let nothing = if is_list { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
                    let before = before.unwrap_or(&nothing);
                    self.within(format!(".{field}"), |this| this.value(before, after, there))
                }
            };
            result.insert(field.clone(), changed);
        }
        result
    }

    /// The entries of a list. Each keeps what only its raw form has.
    fn entries(&mut self, before: &[Value], after: &[Value], raw: &[Value]) -> Vec<Value> {
        // The type has left out entries, which are not its own, or read equal ones as one.
        if before.len() != raw.len() {
            self.change();
            let mut merged = raw.to_vec();
            merge_entries(before, after, &mut merged);
            return merged;
        }
        let key = key_of([before, after]);
        let [old, new, stored] = [before, after, raw].map(|list| identities(list, key));
        // The type may keep its entries in another order, as a set does.
        let read = pairs(&stored, &old);
        let found = if key.is_some() {
            let known: HashMap<&Value, usize> = old.iter().enumerate().map(|(at, one)| (*one, at)).collect();
            new.iter().map(|one| known.get(*one).copied()).collect()
        } else {
            pairs(&old, &new)
        };
        let kept: Vec<usize> = found.iter().flatten().copied().collect();
        let adds = found.contains(&None) && key.is_none() && self.path() != SET;
        if adds || kept.len() < before.len() || !kept.is_sorted() {
            self.change();
        }
        let each = after.iter().zip(found);
        each.map(|(after, found)| match found.and_then(|at| Some((at, read[at]?))) {
            Some((at, place)) => self.within(format!("[{place}]"), |this| this.value(&before[at], after, &raw[place])),
            None => after.clone(),
        })
        .collect()
    }

    fn within<T>(&mut self, step: String, then: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let result = then(self);
        self.path.pop();
        result
    }

    fn path(&self) -> String {
        self.path.concat().trim_start_matches('.').to_owned()
    }

    fn change(&mut self) {
        let path = self.path();
        // A list may have changed as a whole and in its entries.
        if self.changed.last() != Some(&path) {
            self.changed.push(path);
        }
    }
}

/// A value that states nothing.
fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// The field that distinguishes all entries of these lists.
fn key_of(lists: [&[Value]; 2]) -> Option<&'static str> {
    KEYS.into_iter().find(|key| {
        lists.iter().all(|list| {
            let values = list.iter().filter_map(|one| one.get(key));
            let values = values.filter(|value| value.is_string() || value.is_number());
            values.map(ToString::to_string).collect::<BTreeSet<_>>().len() == list.len()
        })
    })
}

/// The keys of the entries, or the entries themselves.
fn identities<'a>(list: &'a [Value], key: Option<&str>) -> Vec<&'a Value> {
    list.iter().map(|one| key.map_or(one, |key| &one[key])).collect()
}

/// For each entry the one that it was before: an equal one, or else the one in its place.
fn pairs(before: &[&Value], after: &[&Value]) -> Vec<Option<usize>> {
    let mut free: Vec<bool> = vec![true; before.len()];
    let mut found: Vec<Option<usize>> = vec![None; after.len()];
    let mut take = |at: usize, found: &mut Option<usize>| {
        if std::mem::replace(&mut free[at], false) {
            *found = Some(at);
        }
    };
    for (at, (one, other)) in before.iter().zip(after).enumerate() {
        if one == other {
            take(at, &mut found[at]);
        }
    }
    // The other entries by their values, the first one last.
    let mut same: HashMap<&Value, Vec<usize>> = HashMap::new();
    for at in (0..before.len()).rev().filter(|at| found.get(*at).is_none_or(Option::is_none)) {
        same.entry(before[at]).or_default().push(at);
    }
    for (entry, found) in after.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
        if let Some(at) = same.get_mut(*entry).and_then(Vec::pop) {
            take(at, found);
        }
    }
    for (at, found) in found.iter_mut().enumerate() {
        if found.is_none() && at < before.len() {
            take(at, found);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_entries_of_a_type_that_keeps_them_in_another_order_are_changed_and_removed() {
        let entry = |name: &str, size: u8| json!({"name": name, "size": size});
        let stored = json!([{"name": "z", "size": 1, "more": 1}, entry("a", 1)]);
        for (before, after, raw, expected) in [
            (json!(["a", "z"]), json!(["a"]), json!(["z", "a"]), json!(["a"])),
            (json!(["a", "z"]), json!(["a", "m", "z"]), json!(["z", "a"]), json!(["a", "m", "z"])),
            (
                json!([entry("a", 1), entry("z", 1)]),
                json!([entry("a", 2), entry("z", 1)]),
                stored.clone(),
                json!([entry("a", 2), stored[0]]),
            ),
        ] {
            assert_eq!(rebase(&before, &after, &raw).0, expected, "{after}");
        }
    }

    #[test]
    fn a_map_that_is_stored_empty_gets_what_has_changed_and_no_defaults_of_the_type() {
        let with = |size: u8| json!({"spec": {"replicas": 1, "size": size}});
        let (result, changed) = rebase(&with(1), &with(2), &json!({"spec": {}}));
        assert_eq!((result, changed), (json!({"spec": {"size": 2}}), Vec::new()));
        let (result, _) = rebase(&with(1), &with(2), &json!({}));
        assert_eq!(result, with(2), "without the map, the type may require its fields");
    }

    #[test]
    fn entries_that_a_type_does_not_read_are_kept() {
        let raw = json!([{"name": "a", "more": 1}, {"name": "b"}]);
        let (result, changed) = rebase(&json!([{"name": "a"}]), &json!([{"name": "a", "size": 1}]), &raw);
        assert_eq!(result, json!([{"name": "a", "more": 1, "size": 1}, {"name": "b"}]));
        assert_eq!(changed, [""], "the list as a whole");
        assert_eq!(rebase(&json!(["a"]), &json!([]), &json!(["a", "b"])).0, json!(["b"]));
        let result = rebase(&json!({}), &json!({"all": ["b"]}), &json!({"all": ["a"]})).0;
        assert_eq!(result, json!({"all": ["a", "b"]}), "an empty list is left out");
        assert_eq!(rebase(&json!(["a", "b"]), &json!(["b"]), &json!(["a", "a", "b"])).0, json!(["b"]), "a set");
    }
}
