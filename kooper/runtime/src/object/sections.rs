//! The sections of an object whose changes are distinguished.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Object;
use super::scan::Cursor;

/// Which changes of an object trigger a reconcile: the filter that the key
/// `changed` and `Builder::changed` take.
///
/// The first sight of an object, its deletion timestamp and a new uid always
/// trigger one.
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
    let (old, new) = (old.json(), new.json());
    let (old, new) = (Sections::of(&old), Sections::of(&new));
    let differs = |section: &Changed| match section {
        Changed::Generation if old.generation.is_empty() && new.generation.is_empty() => old.others != new.others,
        Changed::Generation => old.generation != new.generation,
        Changed::Labels => old.labels != new.labels,
        Changed::Annotations => old.annotations != new.annotations,
        Changed::Finalizers => old.finalizers != new.finalizers,
        Changed::Status => old.status != new.status,
        Changed::Any => true,
    };
    old.deletion != new.deletion || sections.iter().any(differs)
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
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(change: impl Fn(&mut Value)) -> Object {
        let mut value = json!({
            "metadata": {"name": "a", "uid": "1", "generation": 1, "labels": {"a": "b"}, "annotations": {}, "finalizers": ["x"]},
            "spec": {"replicas": 1}, "status": {"ready": 0},
        });
        change(&mut value);
        Object::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn each_section_is_distinguished_from_the_others() {
        let before = object(|_| ());
        type Edit = fn(&mut Value);
        let edits: [(Changed, Edit); 5] = [
            (Changed::Generation, |v| v["metadata"]["generation"] = 2.into()),
            (Changed::Labels, |v| v["metadata"]["labels"]["a"] = "c".into()),
            (Changed::Annotations, |v| v["metadata"]["annotations"]["a"] = "c".into()),
            (Changed::Finalizers, |v| v["metadata"]["finalizers"] = json!([])),
            (Changed::Status, |v| v["status"]["ready"] = 1.into()),
        ];
        for (edited, edit) in edits {
            let after = object(edit);
            for (asked, _) in edits {
                assert_eq!(differs(&before, &after, &[asked]), asked == edited, "{edited:?} edited, {asked:?} asked");
            }
            assert!(differs(&before, &after, &[Changed::Any]));
        }
    }

    #[test]
    fn a_deletion_timestamp_and_a_new_uid_always_count() {
        let before = object(|_| ());
        let marked = object(|v| v["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
        let successor = object(|v| v["metadata"]["uid"] = "2".into());
        assert!(differs(&before, &marked, &[Changed::Labels]));
        assert!(differs(&before, &successor, &[Changed::Labels]));
    }

    #[test]
    fn without_generations_changes_outside_metadata_and_status_count() {
        let without = |edit: fn(&mut Value)| {
            object(|v| {
                v["metadata"].as_object_mut().unwrap().remove("generation");
                edit(v);
            })
        };
        let before = without(|_| ());
        assert!(differs(&before, &without(|v| v["data"] = json!({"a": "b"})), &[Changed::Generation]));
        assert!(!differs(&before, &without(|v| v["status"]["ready"] = 1.into()), &[Changed::Generation]));
        assert!(!differs(&before, &without(|v| v["metadata"]["labels"] = json!({})), &[Changed::Generation]));
    }
}
