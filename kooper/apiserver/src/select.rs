//! Which objects of a list or a watch the client asked for.

mod wrong;

use std::sync::Arc;

use kooper_grammar::selector::{FieldSelector, Selector};
use serde_json::Value;

use crate::http::Query;
use crate::kinds::{Kind, member};
use crate::status::StatusError;
use crate::store::Object;

/// The label and field selector of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: Option<Selector>,
    /// Where the value is found, whether it must be equal, and the value.
    fields: Vec<(Field, bool, String)>,
    /// The kind, where what has been stored with its objects may be of other fields: a definition can change.
    custom: Option<Arc<Kind>>,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    /// The index in the kind's selectable fields.
    Other(usize),
}

/// The selectors of a request, before it is known which fields its kind has.
#[derive(Debug)]
pub(crate) struct Selectors {
    labels: Option<Selector>,
    fields: Option<FieldSelector>,
}

impl Selectors {
    pub(crate) fn parse(query: &Query) -> Result<Self, StatusError> {
        let labels = query.get("labelSelector").map(|text| {
            Selector::parse(text)
                .map_err(|error| StatusError::bad_request(wrong::error(text).unwrap_or_else(|| error.to_string())))
        });
        let fields = query.get("fieldSelector").map(|text| {
            // A last comma ends nothing.
            let text = text.strip_suffix(',').filter(|rest| !rest.ends_with('\\')).unwrap_or(text);
            FieldSelector::parse(text).map_err(|_| {
                let term = text.split(',').find(|term| !term.contains('=')).unwrap_or(text);
                StatusError::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })
        });
        Ok(Self { labels: labels.transpose()?, fields: fields.transpose()? })
    }

    /// Returns the selection of a kind's objects; with `name`, only of the object with that name.
    pub(crate) fn of(self, kind: &Arc<Kind>, name: Option<&str>) -> Result<Selection, StatusError> {
        let mut fields = Vec::new();
        for (path, equal, value) in self.fields.iter().flat_map(FieldSelector::terms) {
            fields.push((Selection::field(kind, path)?, equal, value.to_owned()));
        }
        let others = fields.iter().any(|(field, ..)| matches!(field, Field::Other(_)));
        let custom = Some(kind).filter(|kind| others && kind.custom.is_some()).cloned();
        // A watch of one name is a watch with a field selector.
        if let Some(name) = name {
            fields.push((Field::Name, true, name.to_owned()));
        }
        Ok(Selection { labels: self.labels, fields, custom })
    }
}

impl Selection {
    fn field(kind: &Kind, path: &str) -> Result<Field, StatusError> {
        if path == "metadata.name" {
            return Ok(Field::Name);
        }
        // These two are the fields of each built-in kind that has no others, also of a cluster-scoped one.
        let is_plain = kind.fields.is_empty() && kind.custom.is_none();
        if path == "metadata.namespace" && (kind.namespaced || is_plain) {
            return Ok(Field::Namespace);
        }
        match kind.fields.iter().position(|known| known == path) {
            Some(index) => Ok(Field::Other(index)),
            None if is_plain => Err(StatusError::bad_request(format!(
                "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            ))),
            None => Err(StatusError::bad_request(format!("field label not supported: {path}"))),
        }
    }

    /// Returns whether one object is selected by its name.
    pub(crate) fn names_one(&self) -> bool {
        self.fields.iter().any(|(field, equal, _)| matches!(field, Field::Name) && *equal)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.as_ref().is_none_or(Selector::is_empty) && self.fields.is_empty()
    }

    /// Returns whether an object is selected; `key` is its name in the store.
    pub(crate) fn matches(&self, key: &str, object: &Object) -> bool {
        let traits = object.traits();
        let (namespace, name) = key.rsplit_once('/').unwrap_or(("", key));
        let labels = self.labels.as_ref().is_none_or(|labels| {
            labels.matches(|key| traits.labels.iter().find(|(name, _)| **name == *key).map(|(_, value)| value.as_ref()))
        });
        if !labels {
            return false;
        }
        // Of a custom object, the fields are those that are read, by the definition as it is now.
        let current: Option<Vec<_>> = self.custom.as_ref().and_then(|kind| {
            let object: Value = serde_json::from_slice(&kind.read_custom(object)?).ok()?;
            Some(kind.fields.iter().map(|path| member(&object, path)).collect())
        });
        self.fields.iter().all(|(field, equal, value)| {
            let found = match field {
                Field::Name => name,
                Field::Namespace => namespace,
                Field::Other(index) => match &current {
                    Some(fields) => fields.get(*index).map_or("", String::as_str),
                    None => traits.fields.get(*index).map_or("", AsRef::as_ref),
                },
            };
            (found == value) == *equal
        })
    }
}

/// A label selector as objects have it: `matchLabels` and `matchExpressions`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelSelector<'a>(pub(crate) &'a Value);

impl LabelSelector<'_> {
    /// Returns whether the selector matches these labels. An absent selector matches nothing, an
    /// empty one everything.
    pub(crate) fn matches(self, labels: &Value) -> bool {
        let label = |key: &str| labels.get(key).and_then(Value::as_str);
        let Value::Object(selector) = self.0 else { return false };
        let equal = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let terms = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
        equal.into_iter().all(|(key, value)| label(key) == value.as_str())
            && terms.into_iter().all(|term| {
                let found = label(term["key"].as_str().unwrap_or_default());
                let listed = || {
                    let mut values = term["values"].as_array().into_iter().flatten();
                    values.any(|value| value.as_str() == found)
                };
                match term["operator"].as_str().unwrap_or_default() {
                    "In" => found.is_some() && listed(),
                    "NotIn" => found.is_none() || !listed(),
                    "Exists" => found.is_some(),
                    "DoesNotExist" => found.is_none(),
                    _ => false,
                }
            })
    }

    /// Returns whether the selector has no requirements, or is absent.
    pub(crate) fn is_empty(self) -> bool {
        let is_empty = |key: &str| match &self.0[key] {
            Value::Object(entries) => entries.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => true,
        };
        is_empty("matchLabels") && is_empty("matchExpressions")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{LabelSelector, Selectors};
    use crate::http::Query;
    use crate::kinds::Kinds;
    use crate::store::Store;

    #[test]
    fn the_namespace_can_be_selected_where_the_real_server_knows_no_other_field() {
        let kinds = Kinds::builtin(&Store::new());
        let error = |version: &str, kind: &str| {
            let query = Query::parse("fieldSelector=metadata.namespace%3Da");
            let kind = kinds.of(version, kind).expect("it is a built-in kind");
            Selectors::parse(&query)
                .and_then(|selectors| selectors.of(kind, None))
                .err()
                .map(|error| error.message().to_owned())
        };
        assert_eq!(error("v1", "Pod"), None);
        assert_eq!(error("rbac.authorization.k8s.io/v1", "ClusterRole"), None);
        assert_eq!(error("v1", "Node").as_deref(), Some("field label not supported: metadata.namespace"));
    }

    #[test]
    fn a_label_selector_is_a_conjunction() {
        let labels = json!({"a": "1", "b": "2"});
        for (selector, expected) in [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "1", "c": "3"}}), false),
            (json!({"matchExpressions": [{"key": "b", "operator": "In", "values": ["1", "2"]}]}), true),
            (json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}), true),
            (json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}), true),
        ] {
            assert_eq!(LabelSelector(&selector).matches(&labels), expected, "{selector}");
        }
    }
}
