//! The sections of an object whose changes are distinguished.

mod paths;

use std::collections::BTreeMap;
use std::ops::Range;

use kooper_protobuf::{Kind, RawField};
use serde_json::Value;

use super::Object;
use super::protobuf::extend;
use paths::{Members, members};

/// Which changes of an object trigger a reconcile: the filter that the key
/// `changed` and `Builder::changed` take.
///
/// The first sight of an object, its deletion timestamp and a new uid always
/// trigger one. [`Field`](Self::Field) is for single fields.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use kooper::{Changed, Controller};
///
/// let builder = Controller::builder::<Deployment>("rollouts").changed([Changed::Generation, Changed::Labels]);
/// # let _ = builder;
/// ```
#[doc(alias = "predicate")]
#[doc(alias = "event filter")]
#[doc(alias = "GenerationChangedPredicate")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// `metadata.generation`; for kinds without one, anything outside metadata and
    /// status. With `metadata_only`, that is not fetched, so any change of such an object
    /// calls the handler.
    Generation,
    /// `metadata.labels`.
    Labels,
    /// `metadata.annotations`.
    Annotations,
    /// `metadata.finalizers`.
    Finalizers,
    /// `status`.
    Status,
    /// The field with this path, named as in JSON: `spec.replicas`. The key of a map is in brackets, as in
    /// `metadata.labels['example.com/tier']`, and a list is compared as a whole.
    Field(&'static str),
    /// Anything.
    Any,
}

/// The sections of one object.
#[derive(Debug)]
struct Sections<'a> {
    metadata: Members<'a>,
    status: &'a [u8],
    /// Everything outside metadata and status.
    others: Members<'a>,
}

/// Returns `true` if one of these sections or the deletion timestamp differs, or if
/// the object was replaced by another one with the same name.
pub(crate) fn differs(old: &Object, new: &Object, sections: &[Changed]) -> bool {
    if sections.contains(&Changed::Any) || old.uid() != new.uid() {
        return true;
    }
    if old.protobuf == new.protobuf {
        let (old_text, new_text) = (old.text.plain(), new.text.plain());
        let of = |text| old.protobuf.map_or_else(|| Sections::of(text), |kind| Sections::of_protobuf(kind, text));
        let field_differs = |path: &str| match old.protobuf {
            Some(kind) => paths::differs_in_protobuf(kind, &old_text, &new_text, path)
                .unwrap_or_else(|| paths::in_json(&old.json(), path) != paths::in_json(&new.json(), path)),
            None => paths::in_json(&old_text, path) != paths::in_json(&new_text, path),
        };
        return of(&old_text).differs(&of(&new_text), sections, |one, other| one == other)
            || fields(sections).any(field_differs);
    }
    // The members of our JSON are in another order than those of the server's.
    let is_equal = |one: &[u8], other: &[u8]| {
        let value = |json| serde_json::from_slice::<Value>(json).ok();
        one == other || value(one).is_some_and(|one| Some(one) == value(other))
    };
    let (old, new) = (old.json(), new.json());
    Sections::of(&old).differs(&Sections::of(&new), sections, is_equal)
        || fields(sections).any(|path| !is_equal(paths::in_json(&old, path), paths::in_json(&new, path)))
}

/// The paths among the sections.
pub(crate) fn fields(sections: &[Changed]) -> impl Iterator<Item = &'static str> {
    sections.iter().filter_map(|section| match section {
        Changed::Field(path) => Some(*path),
        _ => None,
    })
}

impl<'a> Sections<'a> {
    /// The sections of an object. The API server serializes equal sections to equal
    /// bytes.
    fn of(json: &'a [u8]) -> Self {
        let all = members(json);
        let metadata = all.get(b"metadata".as_slice()).copied().map(members).unwrap_or_default();
        Self::new(all, metadata)
    }

    /// The sections of a canonical object in protobuf. Equal sections have equal bytes: Kubernetes writes
    /// fields by their numbers and maps by their keys. A field that the table lacks is part of its section.
    fn of_protobuf(kind: Kind, raw: &'a [u8]) -> Self {
        let metadata = kind.fields(raw).find(|field| field.name() == "metadata");
        // JSON omits the generation of a kind that has none.
        let is_set = |field: &RawField<'_>| field.name() != "generation" || field.integer() != 0;
        let metadata = metadata.map(|metadata| fields_by_name(raw, metadata.fields().filter(is_set)));
        Self::new(fields_by_name(raw, kind.fields(raw)), metadata.unwrap_or_default())
    }

    fn new(mut all: Members<'a>, metadata: Members<'a>) -> Self {
        let status = all.remove(b"status".as_slice()).unwrap_or_default();
        all.retain(|name, _| ![b"metadata".as_slice(), b"kind", b"apiVersion"].contains(name));
        Self { metadata, status, others: all }
    }

    /// Returns `true` if one of these sections or the deletion timestamp differs.
    fn differs(&self, new: &Self, sections: &[Changed], is_equal: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let others_equal = || {
            let mut pairs = self.others.iter().zip(&new.others);
            self.others.len() == new.others.len()
                && pairs.all(|(one, other)| one.0 == other.0 && is_equal(one.1, other.1))
        };
        let both = |name: &str| [self, new].map(|one| one.metadata.get(name.as_bytes()).copied().unwrap_or_default());
        let metadata_differs = |name: &str| {
            let [old, new] = both(name);
            !is_equal(old, new)
        };
        let differs = |section: &Changed| match section {
            Changed::Generation if both("generation") == [b""; 2] => !others_equal(),
            Changed::Generation => metadata_differs("generation"),
            Changed::Labels => metadata_differs("labels"),
            Changed::Annotations => metadata_differs("annotations"),
            Changed::Finalizers => metadata_differs("finalizers"),
            Changed::Status => !is_equal(self.status, new.status),
            // It is looked for by its path.
            Changed::Field(_) => false,
            Changed::Any => true,
        };
        metadata_differs("deletionTimestamp") || sections.iter().any(differs)
    }
}

/// The fields of a canonical object or of a message in it, each with all of its occurrences, which follow each other.
fn fields_by_name<'a>(raw: &'a [u8], fields: impl Iterator<Item = RawField<'a>>) -> Members<'a> {
    let mut ranges: BTreeMap<&'static str, Range<usize>> = BTreeMap::new();
    for field in fields {
        extend(ranges.entry(field.name()).or_insert(0..0), &field);
    }
    ranges.into_iter().map(|(name, range)| (name.as_bytes(), raw.get(range).unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests;
