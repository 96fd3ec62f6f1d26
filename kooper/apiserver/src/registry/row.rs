//! Values for the cells of a table row.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::time;

/// An object that a row shows.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a>(pub(crate) &'a Value);

impl<'a> Row<'a> {
    pub(crate) fn at(self, pointer: &str) -> &'a Value {
        self.0.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(crate) fn text(self, pointer: &str) -> &'a str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// A string, or what stands for its absence.
    pub(crate) fn text_or(self, pointer: &str, absent: &'static str) -> Value {
        let text = self.text(pointer);
        json!(if text.is_empty() { absent } else { text })
    }

    pub(crate) fn number(self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or(0)
    }

    pub(crate) fn flag(self, pointer: &str) -> bool {
        self.at(pointer) == true
    }

    pub(crate) fn items(self, pointer: &str) -> &'a [Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the number of entries of a list or map.
    pub(crate) fn count(self, pointer: &str) -> usize {
        let value = self.at(pointer);
        value.as_array().map_or(0, Vec::len) + value.as_object().map_or(0, Map::len)
    }

    pub(crate) fn name(self) -> Value {
        json!(self.text("/metadata/name"))
    }

    /// Returns the object's age as kubectl formats it.
    pub(crate) fn age(self) -> Value {
        json!(time::age(self.text("/metadata/creationTimestamp")))
    }

    pub(crate) fn is_deleting(self) -> bool {
        self.at("/metadata/deletionTimestamp").is_string()
    }

    /// The names and the images of the containers of a pod's spec.
    pub(crate) fn containers(self, pointer: &str) -> [Value; 2] {
        ["name", "image"].map(|key| {
            let all: Vec<_> = self.items(pointer).iter().map(|one| one[key].as_str().unwrap_or_default()).collect();
            json!(all.join(","))
        })
    }

    /// Returns whether the status of the condition is `True`.
    pub(crate) fn has_condition(self, kind: &str) -> bool {
        let found = self.items("/status/conditions").iter().find(|condition| condition["type"] == kind);
        found.is_some_and(|condition| condition["status"] == "True")
    }

    pub(crate) fn labels(self, pointer: &str) -> Value {
        or_none(selector_text(&json!({"matchLabels": self.at(pointer)})))
    }

    pub(crate) fn selector(self, pointer: &str) -> Value {
        or_none(selector_text(self.at(pointer)))
    }

    /// The name, with a mark where an annotation makes this the default.
    pub(crate) fn marked(self, annotation: &str) -> Value {
        let default = self.at("/metadata/annotations")[annotation] == "true";
        json!(format!("{}{}", self.text("/metadata/name"), if default { " (default)" } else { "" }))
    }

    /// The addresses of a load balancer, sorted.
    pub(crate) fn balancer(self) -> String {
        let points = self.items("/status/loadBalancer/ingress").iter();
        let addresses: BTreeSet<_> = points
            .filter_map(|point| {
                ["ip", "hostname"].into_iter().find_map(|key| point[key].as_str().filter(|text| !text.is_empty()))
            })
            .collect();
        addresses.into_iter().collect::<Vec<_>>().join(",")
    }

    /// The cells of a kind that keeps replicas of pods, with what it selects them by.
    pub(crate) fn replicas(self, selector: Value) -> Vec<Value> {
        let [names, images] = self.containers("/spec/template/spec/containers");
        vec![
            self.name(),
            json!(self.number("/spec/replicas")),
            json!(self.number("/status/replicas")),
            json!(self.number("/status/readyReplicas")),
            self.age(),
            names,
            images,
            selector,
        ]
    }
}

/// A string, or `<none>` where it is empty.
pub(crate) fn or_none(text: impl Into<String>) -> Value {
    let text = text.into();
    json!(if text.is_empty() { "<none>".to_owned() } else { text })
}

/// An amount, a port or a share, whether it is a number or a string.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, ToOwned::to_owned)
}

/// The first entries of a list, and how many more there are.
pub(crate) fn first(all: &[String], most: usize, separator: &str) -> String {
    let shown = all[..all.len().min(most)].join(separator);
    if all.len() > most { format!("{shown} + {} more...", all.len() - most) } else { shown }
}

/// A label selector as a string.
pub(crate) fn selector_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms: Vec<(String, String)> =
        labels.map(|(key, value)| (key.clone(), format!("{key}={}", text(value)))).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let mut values: Vec<_> = expression["values"].as_array().into_iter().flatten().map(text).collect();
        values.sort();
        let values = values.join(",");
        let term = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        };
        terms.push((key, term));
    }
    terms.sort_by(|left, right| left.0.cmp(&right.0));
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

/// The time between two others.
pub(crate) fn between(start: &str, end: &str) -> String {
    let (Some(start), Some(end)) = (time::seconds(start), time::seconds(end)) else { return "<unknown>".to_owned() };
    time::duration(end.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{first, selector_text};

    #[test]
    fn selectors_are_sorted_by_key() {
        let selector = json!({"matchLabels": {"c": "1"}, "matchExpressions": [
            {"key": "d", "operator": "Exists"}, {"key": "a", "operator": "DoesNotExist"},
            {"key": "b", "operator": "In", "values": ["y", "x"]}
        ]});
        assert_eq!(selector_text(&selector), "!a,b in (x,y),c=1,d");
    }

    #[test]
    fn long_lists_are_cut() {
        let all = ["a", "b", "c", "d"].map(ToOwned::to_owned);
        assert_eq!(first(&all, 3, ","), "a,b,c + 1 more...");
        assert_eq!(first(&all[..3], 3, ","), "a,b,c");
    }
}
