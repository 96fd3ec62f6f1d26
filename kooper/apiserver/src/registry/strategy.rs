//! The part that a kind has in writing and showing its objects.

use serde_json::Value;

use super::row::Row;
use crate::amounts::Amounts;
use crate::form;
use crate::identity::User;
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::task::Task;
use crate::validate::Write;
use crate::validate::field_value::FieldValue;

/// A kind's part in writing and showing its objects. A method that a kind leaves out does what most kinds do.
pub(crate) trait Strategy: Sync {
    /// The form of a name.
    fn name_form(&self) -> form::Check {
        form::dns_subdomain
    }

    /// The value of a field for selectors, where it is not the member at this path.
    fn field(&self, _object: &Value, _path: &str) -> Option<String> {
        None
    }

    /// kube-apiserver has a watch cache for the kind, which sends bookmarks.
    fn is_cached(&self) -> bool {
        true
    }

    /// Pods end before they are gone: a deletion gives them time, and marks them even where it gives none.
    fn ends_gracefully(&self) -> bool {
        false
    }

    /// A write of the status may create the object.
    fn is_created_by_status(&self) -> bool {
        false
    }

    /// An update leaves the spec as it is.
    fn keeps_spec(&self) -> bool {
        false
    }

    /// The metadata whose changes `metadata.generation` counts.
    fn counted_metadata(&self) -> &'static [&'static str] {
        &[]
    }

    /// The member whose values are in base64. Its emptiness is kept until the object is stored.
    fn encoded_data(&self) -> Option<&'static str> {
        None
    }

    /// The selector is a map of labels, and not of `matchLabels` and `matchExpressions`.
    fn selects_by_labels(&self) -> bool {
        false
    }

    /// The type that all versions share has a number of replicas where the versions may have none.
    fn counts_replicas(&self) -> bool {
        false
    }

    /// The warning of every answer about the kind.
    fn deprecation(&self) -> Option<&'static str> {
        None
    }

    /// The warning of a deletion without a policy for dependents.
    fn deletion_warning(&self) -> Option<&'static str> {
        None
    }

    /// Returns the fields that a write through a subresource leaves alone, if they are not exactly
    /// the spec.
    fn reset(&self, _subresource: &str) -> Option<Reset> {
        None
    }

    /// Takes over what a write of the status, or through `approval`, cannot change.
    fn merge_status(&self, _object: &mut Value, _present: &Value, _subresource: &str) {}

    /// Returns a value that is stored but not visible to clients.
    fn hidden<'a>(&self, _object: &'a Value) -> Option<&'a str> {
        None
    }

    /// Removes from an object what is hidden.
    fn hide(&self, _object: &mut Value) {}

    /// Adds to an object what is hidden.
    fn reveal(&self, _object: &mut Value, _hidden: &str) {}

    /// Records in a new object who has sent it.
    fn record_user(&self, _object: &mut Value, _user: &User) {}

    /// Readies a new object.
    fn prepare_for_create(
        &self,
        _kind: &Kind,
        _object: &mut Value,
        _allocation: Allocation,
    ) -> Result<(), StatusError> {
        Ok(())
    }

    /// Readies the next state of an object.
    fn prepare_for_update(&self, _kind: &Kind, _object: &mut Value, _update: Update<'_>) -> Result<(), StatusError> {
        Ok(())
    }

    /// Adds what reads show of an object that an update has left out, once it is known to be valid.
    fn complete(&self, _object: &mut Value) {}

    /// The work that follows from a state that was written, or from a deletion with this last state.
    fn follow_up(&self, _object: &Value, _deleted: bool) -> Option<Task> {
        None
    }

    /// The rules of an object, in a write that is not one of its status.
    fn validate(&self, _object: &FieldValue<'_>, _write: Write<'_>) {}

    /// The rules of a write of the status.
    fn validate_status(&self, _object: &FieldValue<'_>, _present: &Value) {}

    /// The warnings about a new object, or the next state of one: what has no effect or a surprising one.
    fn warnings(&self, _object: &Value, _present: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// The object that a row of a table shows, where that is another one.
    fn printed(&self, _object: &Value) -> Option<Value> {
        None
    }

    /// The cells of a row, where they are more than a name and a time.
    fn cells(&self, _row: Row<'_>) -> Option<Vec<Value>> {
        None
    }

    /// The conditions of a row.
    fn conditions(&self, _row: Row<'_>) -> Option<Value> {
        None
    }

    /// Quotas count the objects.
    fn is_counted(&self) -> bool {
        true
    }

    /// Returns whether the quota resource measures objects of the kind, besides their number.
    fn counts_for(&self, _name: &str) -> bool {
        false
    }

    /// Adds what an object uses, beside its number.
    fn add_usage(&self, _object: &Value, _used: &mut Amounts) {}

    /// An update may change what an object uses.
    fn may_change_usage(&self, _object: &Value, _present: &Value) -> bool {
        false
    }

    /// An object is in this scope of a quota.
    fn is_in_scope(&self, _object: &Value, _scope: &str, _operator: &str, _values: &Value) -> bool {
        false
    }

    /// The error of an object that has to name what a quota limits.
    fn unnamed_usage(&self, _object: &Value, _limited: &[&str]) -> Option<String> {
        None
    }
}

/// The fields that a write resets to what they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reset {
    /// These, and all their parts.
    Fields(&'static [&'static [&'static str]]),
    /// All but these; `*` is any item.
    AllBut(&'static [&'static [&'static str]]),
}

/// Takes a member over from another state, or removes it where that has none.
pub(crate) fn keep(object: &mut Value, from: &Value, key: &str) {
    match from.get(key) {
        Some(value) => object[key] = value.clone(),
        None => drop(object.as_object_mut().and_then(|entries| entries.remove(key))),
    }
}

/// A kind without anything of its own.
pub(super) struct Plain;

impl Strategy for Plain {}

/// Allocation of the cluster IPs and node ports of a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    Made,
    /// By a dry run, which may have what others have.
    Tried,
    /// It gets none.
    None,
}

/// An update that a kind prepares for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update<'a> {
    pub(crate) present: &'a Value,
    /// It writes the status.
    pub(crate) status: bool,
    pub(crate) dry_run: bool,
}
