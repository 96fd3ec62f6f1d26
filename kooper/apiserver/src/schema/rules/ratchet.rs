//! Former values: unchanged ones may violate rules that do not compare them.

use serde_json::Value;

use crate::schema::validate::same_item;

/// A value, or the nearest one around it, beside what it was before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ratchet<'a> {
    current: Option<(&'a Value, &'a Value)>,
    /// The one around it.
    parent: Option<(&'a Value, &'a Value)>,
}

impl<'a> Ratchet<'a> {
    pub(super) fn of(object: &'a Value, present: Option<&'a Value>) -> Self {
        Self { current: present.map(|present| (object, present)), parent: None }
    }

    pub(super) fn is_unchanged(self) -> bool {
        self.current.or(self.parent).is_some_and(|(now, before)| now == before)
    }

    /// That of a field.
    pub(super) fn key(self, key: &str) -> Self {
        let Some((now, before)) = self.current else { return self };
        if self.parent.is_none() && matches!(key, "apiVersion" | "kind") {
            return Self::default();
        }
        Self { current: now.get(key).zip(before.get(key)), parent: self.current }
    }

    /// That of an element of a list with this schema.
    pub(super) fn element(self, schema: &Value, now: &'a Value) -> Self {
        let Some((_, before)) = self.current else { return self };
        let before = before.as_array().and_then(|before| same_item(schema, now, before));
        Self { current: before.map(|before| (now, before)), parent: self.current }
    }
}
