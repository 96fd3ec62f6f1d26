//! Which objects of a list or a watch the client asked for.

mod wrong;

use kooper_grammar::selector::{FieldSelector, Selector};

use crate::http::Query;
use crate::kinds::Kind;
use crate::status::Refusal;
use crate::store::Object;

/// The label and field selector of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: Option<Selector>,
    /// Where the value is found, whether it must be equal, and the value.
    fields: Vec<(Field, bool, String)>,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    /// The index in the kind's selectable fields.
    Other(usize),
}

impl Selection {
    pub(crate) fn parse(query: &Query, kind: &Kind, name: Option<&str>) -> Result<Self, Refusal> {
        let labels = match query.get("labelSelector") {
            Some(text) => Some(
                Selector::parse(text)
                    .map_err(|error| Refusal::bad_request(wrong::error(text).unwrap_or_else(|| error.to_string())))?,
            ),
            None => None,
        };
        let mut fields = Vec::new();
        if let Some(text) = query.get("fieldSelector") {
            // A last comma ends nothing.
            let text = text.strip_suffix(',').filter(|rest| !rest.ends_with('\\')).unwrap_or(text);
            let selector = FieldSelector::parse(text).map_err(|_| {
                let term = text.split(',').find(|term| !term.contains('=')).unwrap_or(text);
                Refusal::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            for (path, equal, value) in selector.terms() {
                fields.push((Self::field(kind, path)?, equal, value.to_owned()));
            }
        }
        // A watch of one name is a watch with a field selector.
        if let Some(name) = name {
            fields.push((Field::Name, true, name.to_owned()));
        }
        Ok(Self { labels, fields })
    }

    fn field(kind: &Kind, path: &str) -> Result<Field, Refusal> {
        match path {
            "metadata.name" => return Ok(Field::Name),
            "metadata.namespace" if kind.namespaced => return Ok(Field::Namespace),
            _ => {}
        }
        match kind.fields.iter().position(|known| known == path) {
            Some(index) => Ok(Field::Other(index)),
            None if kind.fields.is_empty() && kind.custom.is_none() => Err(Refusal::bad_request(format!(
                "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            ))),
            None => Err(Refusal::bad_request(format!("field label not supported: {path}"))),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.as_ref().is_none_or(Selector::is_empty) && self.fields.is_empty()
    }

    /// Whether an object is selected; `key` is the name it has in the store.
    pub(crate) fn matches(&self, key: &str, object: &Object) -> bool {
        let traits = object.traits();
        let (namespace, name) = key.rsplit_once('/').unwrap_or(("", key));
        let labels = self.labels.as_ref().is_none_or(|labels| {
            labels.matches(|key| traits.labels.iter().find(|(name, _)| **name == *key).map(|(_, value)| value.as_ref()))
        });
        labels
            && self.fields.iter().all(|(field, equal, value)| {
                let found = match field {
                    Field::Name => name,
                    Field::Namespace => namespace,
                    Field::Other(index) => traits.fields.get(*index).map_or("", AsRef::as_ref),
                };
                (found == value) == *equal
            })
    }
}
