//! The bodies of patches.

use serde_json::{Value, json};

/// The body of a patch, for [`Patcher`](super::Patcher).
///
/// ```
/// use kooper::capability::PatchBody;
/// use serde_json::json;
///
/// let label = PatchBody::merge(json!({"metadata": {"labels": {"tier": "web"}}}));
/// let remove = PatchBody::json(json!([{"op": "remove", "path": "/metadata/labels/tier"}]));
/// # let _ = (label, remove);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PatchBody {
    pub(super) patch_type: PatchType,
    pub(super) value: Value,
    /// `true` if the patch is sent to the status subresource.
    pub(super) status: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchType {
    Merge,
    Json,
    Strategic,
}

impl PatchBody {
    /// A JSON merge patch: fields replace fields, `null` removes a field, and a
    /// list replaces the whole list.
    #[must_use]
    pub fn merge(value: Value) -> Self {
        Self { patch_type: PatchType::Merge, value, status: false }
    }

    /// A JSON patch: a list of operations, of which all or none are done. A
    /// `test` that fails is an error with the code 422.
    #[must_use]
    pub fn json(operations: Value) -> Self {
        Self { patch_type: PatchType::Json, value: operations, status: false }
    }

    /// A strategic merge patch: lists are merged by their keys. Custom resources
    /// do not support it.
    #[must_use]
    pub fn strategic(value: Value) -> Self {
        Self { patch_type: PatchType::Strategic, value, status: false }
    }

    /// The same patch for the object with this uid only.
    pub(super) fn of_uid(mut self, uid: &str) -> Self {
        match self.patch_type {
            PatchType::Merge | PatchType::Strategic => {
                if self.value.is_object() {
                    if !self.value["metadata"].is_object() {
                        self.value["metadata"] = json!({});
                    }
                    self.value["metadata"]["uid"] = uid.into();
                }
            }
            PatchType::Json => {
                if let Value::Array(operations) = &mut self.value {
                    // The error of a failed `test` does not name the field; that of a changed uid does.
                    operations.insert(0, json!({"op": "replace", "path": "/metadata/uid", "value": uid}));
                }
            }
        }
        self
    }

    /// The same patch by the status subresource.
    pub(super) fn of_status(self) -> Self {
        Self { status: true, ..self }
    }

    /// Returns whether the patch changes nothing and only returns the object.
    pub(super) fn is_empty(&self) -> bool {
        let uid = &self.value["metadata"]["uid"];
        self.patch_type != PatchType::Json
            && (self.value == json!({}) || self.value == json!({"metadata": {"uid": uid}}))
    }

    /// Returns whether the patch applies only to one `resourceVersion` of the object.
    pub(super) fn names_version(&self) -> bool {
        match (self.patch_type, &self.value) {
            (PatchType::Json, Value::Array(operations)) => {
                operations.iter().any(|operation| operation["path"] == "/metadata/resourceVersion")
            }
            _ => !self.value["metadata"]["resourceVersion"].is_null(),
        }
    }

    pub(super) fn content_type(&self) -> http::HeaderValue {
        http::HeaderValue::from_static(match self.patch_type {
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Json => "application/json-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_that_only_returns_the_object_is_empty() {
        assert!(PatchBody::merge(json!({})).is_empty());
        assert!(PatchBody::merge(json!({})).of_uid("1").is_empty());
        assert!(!PatchBody::merge(json!({"metadata": {"labels": {}}})).of_uid("1").is_empty());
        assert!(!PatchBody::json(json!([])).of_uid("1").is_empty());
    }

    #[test]
    fn a_patch_can_be_for_one_uid_only() {
        let merge = PatchBody::merge(json!({"data": {"a": "b"}})).of_uid("1");
        assert_eq!(merge.value, json!({"metadata": {"uid": "1"}, "data": {"a": "b"}}));
        let merge = PatchBody::strategic(json!({"metadata": {"labels": {"a": "b"}}})).of_uid("1");
        assert_eq!(merge.value, json!({"metadata": {"labels": {"a": "b"}, "uid": "1"}}));
        let json = PatchBody::json(json!([{"op": "remove", "path": "/data"}])).of_uid("1");
        assert_eq!(json.value[0], json!({"op": "replace", "path": "/metadata/uid", "value": "1"}));
        assert_eq!(json.value[1]["op"], "remove");
    }
}
