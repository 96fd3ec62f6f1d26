//! Who owns what after a write that isn't an apply.
//!
//! Source: "Field management" of the server-side apply reference, and the
//! `Update` functions below `managedfields/internal` of apimachinery.

use serde_json::Value;

use super::cap::cap;
use super::field_manager::{FieldManager, without_identity};
use super::managed::{self, Operation, Owned, Owners};
use super::typed::Mismatches;
use super::typed::validate::validate;

impl FieldManager<'_> {
    /// The object that a create, update or patch is about to store, with its
    /// `managedFields`: what it adds or changes is owned by the writer alone
    /// from now on.
    ///
    /// `live` is the stored object, or [`FieldManager::zero`] for a create.
    /// The request may set `managedFields` itself; an empty list ends the
    /// tracking, until the next apply.
    #[must_use]
    pub fn update(&self, live: &Value, mut new: Value, writer: &str, now: &str) -> Value {
        let owners = self.recorded(live, &new);
        managed::set(&mut new, Vec::new());
        let exists = live["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty());
        if owners.is_empty() && exists {
            return new;
        }
        // If the fields don't fit the schema, they have no owners.
        if let Ok(owners) = self.after_update(live, &new, owners, writer, now) {
            managed::set(&mut new, managed::encode(&owners));
        }
        new
    }

    /// The owners before the write, which the request may have set, unless it
    /// is for a subresource.
    fn recorded(&self, live: &Value, new: &Value) -> Owners {
        let sent = managed::of(new);
        if self.subresource.is_empty() {
            let is_reset = match sent.as_array().map(Vec::as_slice) {
                Some([]) => true,
                Some([only]) => only.as_object().is_some_and(serde_json::Map::is_empty),
                _ => false,
            };
            if is_reset {
                return Owners::new();
            }
            if let Some(owners) = managed::decode(sent).ok().filter(|owners| !owners.is_empty()) {
                return owners;
            }
        }
        managed::decode(managed::of(live)).unwrap_or_default()
    }

    /// The owners after a write.
    pub(super) fn after_update(
        &self,
        live: &Value,
        new: &Value,
        owners: Owners,
        writer: &str,
        now: &str,
    ) -> Result<Owners, Mismatches> {
        if let Some(schema) = self.versions.schema(self.api_version) {
            let node = schema.root();
            validate(&node, new, true)?;
            validate(&node, live, true)?;
        }
        let mut owners = self.reconciled(owners);
        // A forced write has no conflicts. The writer's own entry loses what
        // changed like the others, and gets it back below.
        let changes = self.take(live, new, &mut owners, None, true).unwrap_or_default();
        let written = without_identity(&self.reset.filter(changes.modified.union(&changes.added)));
        if !written.is_empty() {
            let manager = self.manager(writer, Operation::Update);
            let set = owners.remove(&manager).map(|owned| owned.set).unwrap_or_default().union(&written);
            let (api_version, time) = (self.api_version.to_owned(), Some(now.to_owned()));
            owners.insert(manager, Owned { set, api_version, time });
        }
        cap(&mut owners);
        Ok(owners)
    }
}
