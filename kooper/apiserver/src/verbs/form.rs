//! The forms of an answer: the whole object, its metadata alone, or rows of a table.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::defaults;
use crate::http::Request;
use crate::kinds::Kind;
use crate::print;
use crate::store::Object;

/// In which form the client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Metadata,
    Table,
}

impl Form {
    /// The first form of the Accept header that is served.
    pub(crate) fn of(request: &Request) -> Self {
        for range in request.accepts() {
            let parameter = |name: &str| {
                range.split(';').filter_map(|part| part.trim().split_once('=')).find(|(key, _)| *key == name)
            };
            if !range.starts_with("application/json")
                && !range.starts_with("*/*")
                && !range.starts_with("application/*")
            {
                continue;
            }
            return match parameter("as") {
                Some((_, "Table")) => Self::Table,
                Some((_, "PartialObjectMetadata" | "PartialObjectMetadataList")) => Self::Metadata,
                _ => Self::Whole,
            };
        }
        Self::Whole
    }

    /// One object in this form.
    pub(crate) fn one(self, kind: &Kind, object: &Value) -> Value {
        match self {
            Self::Whole => object.clone(),
            Self::Metadata => metadata(object),
            Self::Table => {
                let version = object["metadata"]["resourceVersion"].clone();
                print::table(kind, &json!({"resourceVersion": version}), std::iter::once(object), true)
            }
        }
    }
}

/// The metadata of an object, as an object of its own.
pub(crate) fn metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// The bytes of an object in the version of this kind.
pub(crate) fn whole(kind: &Kind, object: &Object) -> Bytes {
    if kind.stored.is_some() {
        return converted(kind, object).to_string().into();
    }
    let Some(definition) = &kind.custom else { return object.bytes().clone() };
    let head = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", kind.kind, kind.api_version());
    let stale = definition.fills_defaults_of(object.version);
    if !stale && object.bytes().starts_with(head.as_bytes()) {
        return object.bytes().clone();
    }
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&object.without_kind());
    if stale {
        // The schema has defaults that are younger than the object.
        let mut value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        definition.fill_defaults(&mut value);
        return value.to_string().into();
    }
    bytes.into()
}

/// The bytes of a list item, which has no kind of its own where the kind is built in.
pub(crate) fn item(kind: &Kind, object: &Object) -> Bytes {
    if kind.custom.is_some() {
        return whole(kind, object);
    }
    if kind.stored.is_some() {
        let mut value = converted(kind, object);
        if let Value::Object(entries) = &mut value {
            entries.retain(|key, _| key != "kind" && key != "apiVersion");
        }
        // The caller opens the object.
        return Bytes::from(value.to_string()).slice(1..);
    }
    object.without_kind()
}

/// An object that is stored in another version of its kind.
fn converted(kind: &Kind, object: &Object) -> Value {
    let mut value = object.value();
    if let Some((_, conversion)) = &kind.stored {
        conversion.serve(&mut value);
        defaults::fill(kind, &mut value);
    }
    value
}
