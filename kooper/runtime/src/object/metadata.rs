//! The metadata of an object, read without decoding the rest.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::kind::KindInfo;
use super::{DecodeError, Object};

/// The label of a child that cannot have an owner reference, with the uid of its owner.
pub const OWNER: &str = "kooper.rs/owner";

/// The part of an object's metadata that the runtime itself uses.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The finalizers, in order.
    pub finalizers: Vec<String>,
    /// The owner references.
    pub owner_references: Vec<OwnerReference>,
    /// The generation; it increases with each change of the spec.
    pub generation: Option<i64>,
    #[serde(deserialize_with = "is_present")]
    deletion_timestamp: bool,
}

impl Metadata {
    /// Returns `true` if the object is being deleted: it has a deletion timestamp.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.deletion_timestamp
    }

    /// The owner reference of the object's controller.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    /// The same, if the controller is of this kind.
    pub(crate) fn controller_of_kind(&self, kind: &KindInfo) -> Option<&OwnerReference> {
        self.controller().filter(|owner| is_of_kind(owner, kind))
    }

    /// Returns `true` if the object has this finalizer.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|one| one == finalizer)
    }
}

/// An object with a part of its metadata.
#[derive(Deserialize)]
struct Head<M> {
    metadata: M,
}

impl Object {
    /// Decodes the metadata; spec and status are skipped.
    ///
    /// # Errors
    /// If the metadata is not that of a Kubernetes object.
    pub fn metadata(&self) -> Result<Metadata, DecodeError> {
        self.decode::<Head<Metadata>>().map(|head| head.metadata)
    }

    /// One of the annotations. An object whose bytes lack its name is not decoded.
    pub(crate) fn annotation(&self, name: &str) -> Option<String> {
        self.text.read(|bytes| {
            // JSON may have a part of the name as an escape.
            let may_be_escaped = self.protobuf.is_none() && memchr::memchr(b'\\', bytes).is_some();
            if !may_be_escaped && memchr::memmem::find(bytes, name.as_bytes()).is_none() {
                return None;
            }
            let mut head: Head<Metadata> = self.decode_text(bytes).ok()?;
            head.metadata.annotations.remove(name)
        })
    }

    /// Decodes the owner references; the rest is skipped.
    ///
    /// # Errors
    /// If they are not those of a Kubernetes object.
    #[doc(hidden)]
    pub fn owner_references(&self) -> Result<Vec<OwnerReference>, DecodeError> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Owned {
            owner_references: Vec<OwnerReference>,
        }
        self.decode::<Head<Owned>>().map(|head| head.metadata.owner_references)
    }

    /// Decodes the finalizers; the rest is skipped.
    pub(crate) fn finalizers(&self) -> Result<Vec<String>, DecodeError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Finalized {
            finalizers: Vec<String>,
        }
        self.decode::<Head<Finalized>>().map(|head| head.metadata.finalizers)
    }

    /// Returns `true` if a deleted object still exists, because of its grace period or finalizers.
    #[doc(hidden)]
    #[must_use]
    pub fn remains(&self) -> bool {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Deleted {
            deletion_grace_period_seconds: u64,
            finalizers: Vec<String>,
        }
        let remains = |deleted: Deleted| deleted.deletion_grace_period_seconds > 0 || !deleted.finalizers.is_empty();
        self.decode::<Head<Deleted>>().is_ok_and(|head| remains(head.metadata))
    }
}

/// Returns `true` if an owner is of a kind, in any version.
#[doc(hidden)]
#[must_use]
pub fn is_of_kind(owner: &OwnerReference, kind: &KindInfo) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    owner.kind == kind.kind && group == kind.group
}

fn is_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::<IgnoredAny>::deserialize(deserializer).map(|value| value.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_decoded_whatever_the_rest_contains() {
        let json =
            br#"{"kind":"Odd","spec":[1,{"metadata":7}],"metadata":{"name":"a","namespace":"b","labels":{"x":"y"},
            "finalizers":["one/a","two/b"],"deletionTimestamp":"2026-01-01T00:00:00Z","generation":3,
            "ownerReferences":[{"apiVersion":"v1","kind":"A","name":"p","uid":"1"},
                {"apiVersion":"v1","kind":"B","name":"q","uid":"2","controller":true}]}}"#;
        let object = Object::parse(json).expect("an object");
        let metadata = object.metadata().expect("metadata");
        assert_eq!(object.finalizers().as_ref(), Ok(&metadata.finalizers));
        assert!(metadata.is_deleted() && metadata.has_finalizer("two/b") && !metadata.has_finalizer("two"));
        assert_eq!(metadata.controller().map(|owner| owner.name.as_str()), Some("q"));
        assert_eq!((metadata.generation, metadata.labels["x"].as_str()), (Some(3), "y"));
    }

    #[test]
    fn metadata_without_optional_fields_is_the_default() {
        let object = Object::parse(br#"{"metadata":{"name":"a","deletionTimestamp":null}}"#).expect("an object");
        assert_eq!(object.metadata().expect("metadata"), Metadata::default());
    }
}
