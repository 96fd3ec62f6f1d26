//! The forms of an answer: the whole object, its metadata alone, or rows of a table.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::defaults;
use crate::kinds::Kind;
use crate::print::{self, IncludeObject};
use crate::status::StatusError;
use crate::store::Object;

/// In which form the client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Metadata,
    /// The metadata of a list's items.
    MetadataList,
    Table(IncludeObject),
}

impl Form {
    /// One object in this form; lists have a form of their own.
    pub(crate) fn one(self, kind: &Kind, object: &Value) -> Result<Value, StatusError> {
        Ok(match self {
            Self::Whole => object.clone(),
            Self::Metadata => metadata(object),
            Self::MetadataList => {
                return Err(StatusError::not_acceptable(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                    go_type(kind, "")
                )));
            }
            Self::Table(included) => {
                let version = object["metadata"]["resourceVersion"].clone();
                print::table(kind, &json!({"resourceVersion": version}), std::iter::once(object), true, included)
            }
        })
    }

    /// A list in this form: its metadata and its items.
    pub(crate) fn list(self, kind: &Kind, metadata: &Value, items: &[Value]) -> Result<Value, StatusError> {
        match self {
            Self::Metadata => Err(StatusError::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                go_type(kind, "List")
            ))),
            Self::Table(included) => Ok(print::table(kind, metadata, items.iter(), true, included)),
            Self::Whole | Self::MetadataList => Ok(json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                "items": items.iter().map(self::metadata).collect::<Vec<_>>()
            })),
        }
    }
}

/// Returns the Go type of an object or a list on the real server.
fn go_type(kind: &Kind, suffix: &str) -> String {
    if kind.custom.is_some() {
        return format!("*unstructured.Unstructured{suffix}");
    }
    let package = match kind.internal_group() {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("*{package}.{}{suffix}", kind.kind)
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
    kind.read_custom(object).unwrap_or_else(|| object.bytes().clone())
}

/// A custom object in the version in which it is stored.
pub(super) fn stored(kind: &Kind, object: &Value) -> Value {
    let mut stored = object.clone();
    if let Some(definition) = kind.custom.as_ref().filter(|definition| definition.storage_version != kind.version) {
        stored["apiVersion"] = format!("{}/{}", kind.group, definition.storage_version).into();
        definition.store(&mut stored);
    }
    stored
}

/// Returns whether a custom object that is read and written as it is would be stored in another state.
pub(super) fn is_outdated(kind: &Kind, object: &Object) -> bool {
    let read = || -> Value { serde_json::from_slice(&whole(kind, object)).unwrap_or_default() };
    kind.custom.is_some() && stored(kind, &read()) != object.value()
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
