//! Server-side apply.
//!
//! Source: the server-side apply reference
//! (<https://kubernetes.io/docs/reference/using-api/server-side-apply/>),
//! KEP-555, and structured-merge-diff's `merge/update.go`.

use std::fmt;

use serde_json::Value;

use super::conflict::Conflicts;
use super::field_manager::{FieldManager, without_identity};
use super::fields::FieldSet;
use super::last_applied;
use super::literal::same;
use super::managed::{self, Manager, Operation, Owned, Owners};
use super::typed::combine::combine;
use super::typed::field_set::field_set;
use super::typed::validate::validate;

/// Why an apply was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The configuration isn't one for this request (400).
    BadRequest(String),
    /// It would change what others own (409).
    Conflict(Conflicts),
    /// It, or the stored object, doesn't fit the schema (500, as on the real server).
    Mismatch(String),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadRequest(message) | Self::Mismatch(message) => formatter.write_str(message),
            Self::Conflict(conflicts) => conflicts.fmt(formatter),
        }
    }
}

impl std::error::Error for ApplyError {}

/// An apply that succeeded: the object without `managedFields`, and those.
type Applied = (Value, Owners);

impl FieldManager<'_> {
    /// The stored object with a configuration applied to it: fields that the
    /// applier gave before and doesn't any more are removed, unless others own
    /// them. Defaults are the caller's.
    ///
    /// `live` is the stored object, or [`FieldManager::zero`] if there is none.
    ///
    /// # Errors
    ///
    /// If the configuration is of another kind or doesn't fit the schema, or
    /// if it would change what others own and `force` isn't set.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        applier: &str,
        force: bool,
        now: &str,
    ) -> Result<Value, ApplyError> {
        let owners = managed::decode(managed::of(live))
            .map_err(|error| ApplyError::Mismatch(format!("failed to decode managed fields: {error}")))?;
        if config["apiVersion"] != self.api_version || config["kind"] != self.kind {
            return Err(ApplyError::BadRequest(format!("invalid object type: {}", kind_of(config))));
        }
        let applied = match self.apply_tracked(live, config, &owners, applier, force, now) {
            Err(ApplyError::Conflict(conflicts)) if applier == last_applied::MANAGER => {
                match self.unless_last_applied(live, conflicts) {
                    None => self.apply_tracked(live, config, &owners, applier, true, now),
                    Some(conflicts) => Err(ApplyError::Conflict(conflicts)),
                }
            }
            other => other,
        };
        let (mut object, owners) = applied?;
        if applier == last_applied::MANAGER {
            last_applied::refresh(&mut object, config);
        }
        managed::set(&mut object, managed::encode(&owners));
        Ok(object)
    }

    /// Applies. The fields of an object that wasn't tracked so far are owned
    /// by a manager of their own.
    fn apply_tracked(
        &self,
        live: &Value,
        config: &Value,
        owners: &Owners,
        applier: &str,
        force: bool,
        now: &str,
    ) -> Result<Applied, ApplyError> {
        if !owners.is_empty() {
            return self.apply_to(live, config, owners.clone(), applier, force, now);
        }
        let mut live = live.clone();
        managed::set(&mut live, Vec::new());
        let owners =
            self.after_update(self.zero, &live, Owners::new(), "before-first-apply", now).map_err(|mismatches| {
                ApplyError::Mismatch(format!("failed to create manager for existing fields: {mismatches}"))
            })?;
        self.apply_to(&live, config, owners, applier, force, now)
    }

    fn apply_to(
        &self,
        live: &Value,
        config: &Value,
        owners: Owners,
        applier: &str,
        force: bool,
        now: &str,
    ) -> Result<Applied, ApplyError> {
        if managed::of(config).is_array() {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        let Some(schema) = self.versions.schema(self.api_version) else {
            return Err(ApplyError::BadRequest(format!("invalid object type: {}", kind_of(config))));
        };
        let node = schema.root();
        let mismatch = |which: &str, object: &Value, mismatches| {
            let metadata = &object["metadata"];
            let text = |name: &str| metadata[name].as_str().unwrap_or_default();
            let (namespace, name) = (text("namespace"), text("name"));
            let kind = kind_of(object);
            ApplyError::Mismatch(format!(
                "failed to create typed {which} object ({namespace}/{name}; {kind}): {mismatches}"
            ))
        };
        validate(&node, config, false).map_err(|mismatches| mismatch("patch", config, mismatches))?;
        validate(&node, live, true).map_err(|mismatches| mismatch("live", live, mismatches))?;

        let mut owners = self.reconciled(owners);
        let writer = self.manager(applier, Operation::Apply);
        let before = owners.remove(&writer);
        let set = self.reset.filter(field_set(&node, config));
        let time = before.as_ref().and_then(|before| before.time.clone());
        owners.insert(writer.clone(), Owned { set, api_version: self.api_version.to_owned(), time });

        let mut object = combine(&node, live, config);
        if let Some(before) = before.filter(|before| !before.set.is_empty()) {
            object = self.prune(object, &owners, &before);
        }
        self.take(live, &object, &mut owners, Some(&writer), force).map_err(ApplyError::Conflict)?;
        let changed = !same(live, &object);
        strip_identity(&mut owners, &writer);
        if let Some(owned) = owners.get_mut(&writer).filter(|_| changed) {
            owned.time = Some(now.to_owned());
        }
        managed::set(&mut object, Vec::new());
        Ok((object, owners))
    }
}

fn strip_identity(owners: &mut Owners, writer: &Manager) {
    if let Some(owned) = owners.get_mut(writer) {
        owned.set = without_identity(&owned.set);
        if owned.set == FieldSet::EMPTY {
            owners.remove(writer);
        }
    }
}

/// The kind of an object as messages show it: `apps/v1, Kind=Deployment`, or
/// `/v1, Kind=Pod` without a group.
pub(crate) fn kind_of(object: &Value) -> String {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}
