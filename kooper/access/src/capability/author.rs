//! Determines whether a write made the version of the object in its response.
//!
//! The response to a write that changes nothing has the current version of the
//! object, which may be another client's change that no cache has yet. The watch
//! event of that version is not an echo of the write.

use kooper_runtime::object::Object;
use serde::Deserialize;
use serde_json::Value;

use super::patch::{PatchBody, PatchType};

/// The evidence by which a response shows that the request made its version.
#[derive(Debug)]
pub(super) enum Author {
    /// The object did not exist before.
    Creation,
    /// The deletion mark is new.
    Deletion,
    /// The newest managed fields are those of this manager, or what it sent changes the
    /// object.
    Manager(String, SentBody),
    /// The request changes nothing.
    NoChange,
}

/// The body that a field manager has sent.
#[derive(Debug)]
pub(super) enum SentBody {
    Applied(Value),
    Patch(PatchBody),
}

/// The field managers of an object.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ManagedObject {
    pub(super) metadata: ManagedMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ManagedMetadata {
    pub(super) managed_fields: Vec<ManagedEntry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ManagedEntry {
    pub(super) manager: String,
    pub(super) operation: String,
    pub(super) subresource: String,
    time: Option<String>,
}

impl Author {
    /// Returns whether the request made the version in its response. `before` is the cached object
    /// from before the request.
    pub(super) fn made(&self, answer: &Object, text: &str, before: Option<&Object>) -> bool {
        if before.is_some_and(|before| (before.uid(), before.version()) == (answer.uid(), answer.version())) {
            return false;
        }
        match self {
            Self::Creation => true,
            Self::Deletion => !answer.remains() || before.is_some_and(|before| !before.is_terminating()),
            Self::Manager(own, sent) => {
                let before = before.and_then(|before| before.decode::<Value>().ok());
                let changes = || before.as_ref().is_some_and(|before| sent.changes(before));
                match newest(text, own) {
                    NewestManager::Own => true,
                    NewestManager::Both => changes(),
                    // The removal of a field does not renew the time of its manager.
                    NewestManager::Other => {
                        matches!(sent, SentBody::Patch(_)) && before.as_ref().is_some_and(is_whole) && changes()
                    }
                }
            }
            Self::NoChange => false,
        }
    }
}

/// Who owns the newest managed fields. Their times have a resolution of one second.
enum NewestManager {
    Own,
    Other,
    Both,
}

/// Returns the owners of the newest managed fields. A manager below `own`, such as `own/heal`,
/// counts as `own`.
fn newest(text: &str, own: &str) -> NewestManager {
    let Ok(ManagedObject { metadata }) = serde_json::from_str(text) else { return NewestManager::Other };
    let entries = metadata.managed_fields;
    let Some(newest) = entries.iter().filter_map(|entry| entry.time.as_deref()).max() else {
        return NewestManager::Other;
    };
    let is_own = |manager: &str| manager.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let entries = entries.iter().filter(|entry| entry.time.as_deref() == Some(newest));
    let (own, other): (Vec<_>, Vec<_>) = entries.partition(|entry| is_own(&entry.manager));
    match (own.is_empty(), other.is_empty()) {
        (false, true) => NewestManager::Own,
        (false, false) => NewestManager::Both,
        (true, _) => NewestManager::Other,
    }
}

/// Returns whether a cached object has more than its metadata.
fn is_whole(object: &Value) -> bool {
    object.as_object().is_some_and(|fields| fields.keys().any(|field| !is_head(field)))
}

fn is_head(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind" | "metadata")
}

impl SentBody {
    /// Returns whether the body would change an object.
    fn changes(&self, before: &Value) -> bool {
        match self {
            Self::Applied(applied) => lacks(before, applied),
            Self::Patch(PatchBody { patch_type: PatchType::Json, value, .. }) => {
                let mut after = before.clone();
                let operations = serde_json::from_value::<json_patch::Patch>(value.clone());
                // An object that the operations do not fit is not the one that they were sent for.
                let done = operations.is_ok_and(|operations| json_patch::patch(&mut after, &operations).is_ok());
                !done || after != *before
            }
            Self::Patch(PatchBody { value, .. }) => lacks(before, value),
        }
    }
}

/// Returns whether an object lacks some of the sent fields, or has other values in them.
fn lacks(before: &Value, sent: &Value) -> bool {
    let Value::Object(fields) = sent else { return false };
    // Objects of a list have no type, and the version is a condition.
    fields.iter().any(|(name, sent)| match (name.as_str(), sent) {
        ("apiVersion" | "kind", _) => false,
        ("metadata", Value::Object(sent)) => {
            sent.iter().any(|(name, sent)| name != "resourceVersion" && !has(&before["metadata"][name], sent))
        }
        _ => !has(&before[name], sent),
    })
}

fn has(before: &Value, sent: &Value) -> bool {
    match (before, sent) {
        (_, Value::Object(sent)) => sent.iter().all(|(name, sent)| has(&before[name], sent)),
        (Value::Array(before), Value::Array(sent)) => {
            before.len() >= sent.len() && before.iter().zip(sent).all(|(before, sent)| has(before, sent))
        }
        _ => before == sent,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(version: &str, managers: &[(&str, u32)]) -> (Object, String) {
        let entry = |(manager, second): &(&str, u32)| -> Value {
            json!({"manager": manager, "time": format!("2026-01-01T00:00:{second:02}Z"), "operation": "Apply"})
        };
        let fields: Vec<_> = managers.iter().map(entry).collect();
        let metadata = json!({"name": "a", "uid": "u", "resourceVersion": version, "managedFields": fields});
        let text = json!({"metadata": metadata}).to_string();
        (Object::parse(text.as_bytes()).unwrap(), text)
    }

    fn made(managers: &[(&str, u32)]) -> bool {
        let (object, text) = answer("5", managers);
        let before = answer("4", &[]).0;
        Author::Manager("shop/web".to_owned(), SentBody::Applied(json!({"metadata": {"name": "a"}}))).made(
            &object,
            &text,
            Some(&before),
        )
    }

    #[test]
    fn a_version_belongs_to_the_request_if_its_manager_wrote_last() {
        assert!(made(&[("shop/web", 7), ("kubelet", 6)]));
        assert!(made(&[("shop/web", 6), ("shop/web/heal", 7)]));
    }

    #[test]
    fn a_write_without_a_change_returns_the_version_of_another_write() {
        assert!(!made(&[("shop/web", 6), ("kubelet", 7)]));
        assert!(!made(&[("shop/web", 7), ("kubelet", 7)]), "both in one second");
        assert!(!made(&[("shop/web2", 7)]));
        assert!(!made(&[]));
    }

    #[test]
    fn two_writes_in_one_second_are_distinguished_by_the_fields_that_were_missing_before() {
        let (object, text) = answer("5", &[("shop/web", 7), ("kubectl", 7)]);
        let before = answer("4", &[]).0;
        let sent = |sent| Author::Manager("shop/web".to_owned(), sent).made(&object, &text, Some(&before));
        assert!(sent(SentBody::Applied(json!({"metadata": {"annotations": {"calls": "1"}}}))));
        assert!(!sent(SentBody::Applied(json!({"kind": "Pod", "metadata": {"uid": "u", "annotations": null}}))));
        let patch = |operations| sent(SentBody::Patch(PatchBody::json(operations)));
        assert!(patch(json!([{"op": "add", "path": "/spec", "value": {}}])));
        assert!(!patch(json!([{"op": "replace", "path": "/metadata/uid", "value": "u"}])));
    }

    #[test]
    fn the_removal_of_a_field_is_found_by_what_was_there_before() {
        let (object, text) = answer("5", &[("kubectl", 7)]);
        let before = |labels: Value| {
            let metadata = json!({"name": "a", "uid": "u", "resourceVersion": "4", "labels": labels});
            Object::parse(json!({"metadata": metadata, "data": {}}).to_string().as_bytes()).unwrap()
        };
        let made = |patch, labels| {
            let author = Author::Manager("shop/web".to_owned(), SentBody::Patch(patch));
            author.made(&object, &text, Some(&before(labels)))
        };
        let merge = || PatchBody::merge(json!({"metadata": {"labels": {"a": null}, "resourceVersion": "4"}}));
        assert!(made(merge(), json!({"a": "b"})));
        assert!(!made(merge(), json!({"b": "b"})), "another client has changed it since");
        let json = || PatchBody::json(json!([{"op": "remove", "path": "/metadata/labels/a"}]));
        assert!(made(json(), json!({"a": "b"})));
        let author = Author::Manager("shop/web".to_owned(), SentBody::Patch(merge()));
        assert!(!author.made(&object, &text, Some(&answer("4", &[]).0)), "metadata alone does not show it");
    }

    #[test]
    fn a_version_that_was_cached_before_the_request_is_not_its_own() {
        let (object, text) = answer("5", &[("shop/web", 7)]);
        let author = Author::Manager("shop/web".to_owned(), SentBody::Applied(Value::Null));
        assert!(author.made(&object, &text, None));
        assert!(!author.made(&object, &text, Some(&object)));
    }

    #[test]
    fn creations_and_deletions_need_no_manager_and_a_read_is_not_a_write() {
        let (object, text) = answer("5", &[]);
        assert!(Author::Creation.made(&object, &text, None));
        assert!(Author::Deletion.made(&object, &text, None), "it was deleted");
        assert!(!Author::NoChange.made(&object, &text, None));
        let marked = |version: &str| {
            let metadata = json!({
                "name": "a", "uid": "u", "resourceVersion": version, "finalizers": ["b"],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            });
            Object::parse(json!({"metadata": metadata}).to_string().as_bytes()).unwrap()
        };
        assert!(Author::Deletion.made(&marked("6"), &text, Some(&object)));
        assert!(!Author::Deletion.made(&marked("6"), &text, Some(&marked("5"))), "it was marked already");
    }
}
