//! Removal of the fields that an applier gives up.
//!
//! Source: `prune` of structured-merge-diff's `merge/update.go`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field_manager::FieldManager;
use super::fields::FieldSet;
use super::managed::{Owned, Owners};
use super::schema::Node;
use super::typed::field_set::field_set;
use super::typed::remove::remove;

impl FieldManager<'_> {
    /// The merged object without the fields that the applier gave before,
    /// doesn't give now, and that have no owner. `before` is what it owned, `owners`
    /// has what it gives now.
    pub(super) fn prune(&self, merged: Value, owners: &Owners, before: &Owned) -> Value {
        // Fields written in a version that isn't served can't be found.
        let Some((object, node)) = self.versions.view(&merged, &before.api_version) else { return merged };
        let gone = before.set.with_declared(Some(&node));
        let pruned = remove(&node, &object, &gone);
        let pruned = self.keep_owned(&object, pruned, owners, &before.api_version);
        let Some((pruned, _)) = self.versions.view(&pruned, &before.api_version) else { return merged };

        // Of what is gone by now, only what the applier owned may go.
        let gone_without_owner = fields(&node, &object).difference(&fields(&node, &pruned)).intersection(&gone);
        let pruned = remove(&node, &object, &gone_without_owner);
        match self.versions.view(&pruned, self.api_version) {
            Some((pruned, _)) => pruned.into_owned(),
            None => merged,
        }
    }

    /// The pruned object, with the fields that have an owner. Those of the
    /// version that was pruned come first: others may be converted by them.
    fn keep_owned(&self, merged: &Value, pruned: Value, owners: &Owners, pruned_version: &str) -> Value {
        let mut by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for owned in owners.values() {
            let set = by_version.entry(&owned.api_version).or_default();
            *set = std::mem::take(set).union(&owned.set);
        }
        let first = by_version.remove_entry(pruned_version);
        let mut pruned = pruned;
        for (version, owned) in first.into_iter().chain(by_version) {
            let Some((merged, node)) = self.versions.view(merged, version) else { continue };
            let Some((rest, _)) = self.versions.view(&pruned, version) else { continue };
            let kept = fields(&node, &rest).union(&owned.with_declared(Some(&node)));
            let gone = fields(&node, &merged).difference(&kept);
            pruned = remove(&node, &merged, &gone);
        }
        pruned
    }
}

/// The fields of an object, with the declared ones that contain others.
fn fields(node: &Node<'_>, object: &Value) -> FieldSet {
    field_set(node, object).with_declared(Some(node))
}
