//! The sections of an object whose changes are distinguished.

mod paths;

use std::collections::BTreeMap;
use std::ops::Range;

use kooper_protobuf::Kind;
use serde_json::Value;

use super::Object;
use super::protobuf::extend;
use super::scan::Cursor;

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
    /// status.
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

/// Where the sections of one object are.
#[derive(Debug, Default)]
struct Sections<'a> {
    generation: &'a [u8],
    labels: &'a [u8],
    annotations: &'a [u8],
    finalizers: &'a [u8],
    status: &'a [u8],
    deletion: &'a [u8],
    /// Everything outside metadata and status.
    others: BTreeMap<&'a [u8], &'a [u8]>,
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
        let mut sections = Self::default();
        let value = |range: Range<usize>| json.get(range).unwrap_or_default();
        // An object in the store was scanned before, so it is complete.
        let _ = Cursor::new(json).members(|cursor, key| {
            let start = cursor.at;
            if key == b"metadata" && cursor.peek() == Some(b'{') {
                return cursor.members(|cursor, key| {
                    let start = cursor.at;
                    cursor.skip()?;
                    let value = value(start..cursor.at);
                    match key {
                        b"generation" => sections.generation = value,
                        b"labels" => sections.labels = value,
                        b"annotations" => sections.annotations = value,
                        b"finalizers" => sections.finalizers = value,
                        b"deletionTimestamp" => sections.deletion = value,
                        _ => {}
                    }
                    Ok(())
                });
            }
            cursor.skip()?;
            let value = value(start..cursor.at);
            match key {
                b"metadata" | b"kind" | b"apiVersion" => {}
                b"status" => sections.status = value,
                _ => drop(sections.others.insert(key, value)),
            }
            Ok(())
        });
        sections
    }

    /// The sections of a canonical object in protobuf. Equal sections have equal bytes: Kubernetes writes
    /// fields by their numbers and maps by their keys. A field that the table lacks is part of its section.
    fn of_protobuf(kind: Kind, raw: &'a [u8]) -> Self {
        let mut sections = Self::default();
        let [mut labels, mut annotations, mut finalizers] = [0..0, 0..0, 0..0];
        let mut others = BTreeMap::new();
        let value = |range: Range<usize>| raw.get(range).unwrap_or_default();
        for field in kind.fields(raw) {
            match field.name() {
                "metadata" => {
                    for field in field.fields() {
                        match field.name() {
                            // JSON omits the generation of a kind that has none.
                            "generation" if field.integer() != 0 => sections.generation = value(field.range()),
                            "labels" => extend(&mut labels, &field),
                            "annotations" => extend(&mut annotations, &field),
                            "finalizers" => extend(&mut finalizers, &field),
                            "deletionTimestamp" => sections.deletion = value(field.range()),
                            _ => {}
                        }
                    }
                }
                "status" => sections.status = value(field.range()),
                // The entries of a list follow each other.
                name => extend(others.entry(name.as_bytes()).or_insert(0..0), &field),
            }
        }
        (sections.labels, sections.annotations, sections.finalizers) =
            (value(labels), value(annotations), value(finalizers));
        sections.others = others.into_iter().map(|(name, range)| (name, value(range))).collect();
        sections
    }

    /// Returns `true` if one of these sections or the deletion timestamp differs.
    fn differs(&self, new: &Self, sections: &[Changed], is_equal: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        let others_equal = || {
            let mut pairs = self.others.iter().zip(&new.others);
            self.others.len() == new.others.len()
                && pairs.all(|(one, other)| one.0 == other.0 && is_equal(one.1, other.1))
        };
        let differs = |section: &Changed| match section {
            Changed::Generation if self.generation.is_empty() && new.generation.is_empty() => !others_equal(),
            Changed::Generation => !is_equal(self.generation, new.generation),
            Changed::Labels => !is_equal(self.labels, new.labels),
            Changed::Annotations => !is_equal(self.annotations, new.annotations),
            Changed::Finalizers => !is_equal(self.finalizers, new.finalizers),
            Changed::Status => !is_equal(self.status, new.status),
            // It is looked for by its path.
            Changed::Field(_) => false,
            Changed::Any => true,
        };
        !is_equal(self.deletion, new.deletion) || sections.iter().any(differs)
    }
}

#[cfg(test)]
mod tests;
