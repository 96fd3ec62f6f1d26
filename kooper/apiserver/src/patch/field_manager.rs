//! Keeps `metadata.managedFields` of the objects of a kind.

use std::collections::HashMap;

use serde_json::Value;

use super::conflict::Conflicts;
use super::fields::FieldSet;
use super::managed::{Manager, Operation, Owners};
use super::path::Path;
use super::reset::Reset;
use super::typed::compare::{Comparison, compare};
use super::typed::reconcile::reconcile;
use super::versions::Versions;

/// Keeps track of who owns which fields of the objects of a kind, for writes
/// through one path: the object itself or a subresource.
///
/// [`FieldManager::update`] follows a write of any kind but apply,
/// [`FieldManager::apply`] is the apply itself.
#[derive(Clone, Copy)]
pub struct FieldManager<'k> {
    /// The version of the request, such as `apps/v1`.
    pub api_version: &'k str,
    /// The kind, such as `Deployment`.
    pub kind: &'k str,
    /// The subresource, or empty.
    pub subresource: &'k str,
    /// The served versions of the kind.
    pub versions: &'k dyn Versions,
    /// Fields that writes through this path can't change.
    pub reset: &'k Reset,
    /// The object before it exists: what an object without any field is
    /// encoded as (see [`super::zero::zero`]).
    pub zero: &'k Value,
}

impl std::fmt::Debug for FieldManager<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FieldManager")
            .field("api_version", &self.api_version)
            .field("kind", &self.kind)
            .field("subresource", &self.subresource)
            .finish_non_exhaustive()
    }
}

impl FieldManager<'_> {
    /// The key of the entry of a manager that applies, or writes otherwise.
    pub(super) fn manager(&self, name: &str, operation: Operation) -> Manager {
        let api_version = if operation == Operation::Apply { "" } else { self.api_version };
        let name = if name.is_empty() { "unknown" } else { name };
        let (name, subresource) = (name.to_owned(), self.subresource.to_owned());
        Manager { name, operation, api_version: api_version.to_owned(), subresource }
    }

    /// The owners as the present schemas would have recorded them, without
    /// those that wrote in versions that aren't served any more.
    pub(super) fn reconciled(&self, owners: Owners) -> Owners {
        let known = owners.into_iter().filter_map(|(manager, mut owned)| {
            owned.set = reconcile(&self.versions.schema(&owned.api_version)?.root(), &owned.set);
            Some((manager, owned))
        });
        known.collect()
    }

    /// Removes the fields that a write changes from all owners except the writer.
    ///
    /// # Errors
    ///
    /// The fields that others own, if the write isn't forced.
    pub(super) fn take(
        &self,
        live: &Value,
        new: &Value,
        owners: &mut Owners,
        writer: Option<&Manager>,
        force: bool,
    ) -> Result<Comparison, Conflicts> {
        let mut by_version: HashMap<String, Comparison> = HashMap::new();
        by_version.insert(self.api_version.to_owned(), self.changes(live, new, self.api_version).unwrap_or_default());
        for owned in owners.values() {
            if !by_version.contains_key(&owned.api_version)
                && let Some(changes) = self.changes(live, new, &owned.api_version)
            {
                by_version.insert(owned.api_version.clone(), changes);
            }
        }
        owners.retain(|manager, owned| Some(manager) == writer || by_version.contains_key(&owned.api_version));

        let others = owners.iter().filter(|(manager, _)| Some(*manager) != writer);
        let changed = others.map(|(manager, owned)| {
            let changes = &by_version[&owned.api_version];
            (manager.clone(), owned.set.intersection(&changes.modified.clone().union(&changes.added)))
        });
        let changed: std::collections::BTreeMap<_, _> = changed.filter(|(_, set)| !set.is_empty()).collect();
        if !force && let Some(conflicts) = Conflicts::new(changed.clone()) {
            return Err(conflicts);
        }
        for (manager, owned) in owners.iter_mut().filter(|(manager, _)| Some(*manager) != writer) {
            if let Some(changed) = changed.get(manager) {
                owned.set = owned.set.difference(changed);
            }
            owned.set = owned.set.difference(&by_version[&owned.api_version].removed);
        }
        owners.retain(|_, owned| !owned.set.is_empty());
        Ok(by_version.remove(self.api_version).unwrap_or_default())
    }

    /// Returns the fields that a write changes, in the given version; `None` if that
    /// version isn't served.
    fn changes(&self, live: &Value, new: &Value, api_version: &str) -> Option<Comparison> {
        let (live, node) = self.versions.view(live, api_version)?;
        let (new, _) = self.versions.view(new, api_version)?;
        Some(compare(&node, &live, &new).map(|set| self.reset.filter(set)))
    }
}

/// The set without the fields that never have an owner: those that identify an object
/// and those that the server sets.
pub(super) fn without_identity(set: &FieldSet) -> FieldSet {
    const METADATA: [&str; 9] = [
        "clusterName",
        "creationTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    let mut identity = FieldSet::new();
    for name in ["apiVersion", "kind", "metadata"] {
        identity.insert(&Path::of_fields(&[name]).0);
    }
    for name in METADATA {
        identity.insert(&Path::of_fields(&["metadata", name]).0);
    }
    set.difference(&identity)
}
