//! Children that other clients have edited: fields that collide with those that
//! the controller applies are removed, and for exclusive children all others, too.

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::ObjectReference;
use kooper_runtime::error::chain;
use kooper_runtime::object::Object;
use kooper_runtime::{Note, ObjectKey};
use serde_json::{Value, json};

use super::error::AccessError;
use super::foreign::{Comparison, Fault, Foreign, disown, removal};
use super::owner::Parent;
use super::patch::PatchBody;
use super::request::{ApiResponse, Operation, ResourceClient};

/// Maximum number of attempts to edit an object that changes in the meantime.
const TRIES: usize = 3;

impl ResourceClient<'_> {
    /// Applies to the child with this uid. If the server rejects that because of
    /// entries of other field managers, these are removed first. If the child is
    /// applied exclusively, all of their entries are removed afterwards.
    pub(super) async fn remove_conflicting_fields(
        &self,
        parent: &Parent,
        key: &ObjectKey,
        uid: &str,
        mut body: Value,
    ) -> Result<Option<Object>, AccessError> {
        let (mut object, answer) = match self.apply(key, body.clone()).await {
            Err(rejected) if rejected.code() == Some(422) && !rejected.is_another() => {
                // The edit changes the version, so an adoption can no longer require the old one.
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
                let errors = field_errors(&rejected);
                match self.remove(parent, key, uid, &body, Some(&errors)).await {
                    Ok(Some(_)) => self.apply(key, body.clone()).await?,
                    Err(error) if !is_lasting(&error) => return Err(error),
                    // The error of the apply is more useful than that of the edit.
                    _ => return Err(rejected),
                }
            }
            applied => applied?,
        };
        if self.exclusive {
            match self.remove(parent, key, uid, &body, None).await {
                Ok(edited) => object = edited.or(object),
                Err(error) if is_lasting(&error) => {
                    let kind = &self.kind.kind;
                    let text = format!("{kind} `{key}` keeps entries of other field managers: {}", chain(&error));
                    self.report(parent, object.as_ref(), "ForeignEntryKept", text);
                }
                Err(error) => return Err(error),
            }
        }
        // An edit, in this call or in one that was interrupted, may have set applied fields. They are applied now,
        // so only the apply should own them.
        let repair_manager = self.repair_manager();
        if answer.contains(&repair_manager) {
            match self.edit(key, uid, |live| disown(live, &repair_manager)).await {
                Ok(disowned) => object = disowned.map_or(object, |(disowned, _)| disowned),
                // The child is applied nevertheless; the next apply finds these fields again.
                Err(error) if is_lasting(&error) => {
                    tracing::debug!(controller = %self.controller.controller, "{}", chain(&error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(object)
    }

    /// Removes entries of other field managers: those that cause the errors, also
    /// defaults, or all beneath the lists and maps that are applied. Returns the object without
    /// them, or `None` if there are none.
    async fn remove(
        &self,
        parent: &Parent,
        key: &ObjectKey,
        uid: &str,
        body: &Value,
        errors: Option<&[[String; 3]]>,
    ) -> Result<Option<Object>, AccessError> {
        let (manager, kept, kind) = (self.controller.field_manager(), &self.children.kept, &self.kind.kind);
        let mut entries = Vec::new();
        let plan = |live: &Value| {
            let comparison = Comparison::new(body, live, &manager);
            entries = match errors {
                Some(errors) => {
                    let errors = errors.iter().map(|[reason, message, field]| Fault { reason, message, field });
                    comparison.causes(&errors.collect::<Vec<_>>())
                }
                None => comparison.beneath(),
            };
            entries.retain(|entry| !kept.has(uid, &entry.shown));
            let edits = !entries.is_empty() && !parent.has_lost(live);
            edits.then(|| removal(live, errors.map(|_| body), &entries))
        };
        let Some((object, answer)) = self.edit(key, uid, plan).await? else { return Ok(None) };
        let why = if errors.is_some() {
            "it conflicted with a field that the controller applies"
        } else {
            "the controller applies the object exclusively"
        };
        // An entry that an admission webhook adds again during this write may have no managed fields.
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        for entry in &entries {
            let Foreign { shown, manager, .. } = entry;
            if !entry.is_in(&answer) {
                // A default is no client's.
                if !manager.is_empty() {
                    let text =
                        format!("`{shown}` of {kind} `{key}` was set by `{manager}` and has been removed: {why}");
                    self.report(parent, object.as_ref(), "ForeignEntryRemoved", text);
                }
            } else if kept.keep(uid, shown) {
                let text = format!(
                    "`{shown}` of {kind} `{key}` was added again while it was being removed, probably by an admission \
                     webhook: it is kept"
                );
                self.report(parent, object.as_ref(), "ForeignEntryKept", text);
            }
        }
        Ok(object)
    }

    /// Edits the object with a JSON patch made from its latest version. Returns
    /// `None` if there is nothing to edit, or if the object keeps changing.
    async fn edit(
        &self,
        key: &ObjectKey,
        uid: &str,
        mut plan: impl FnMut(&Value) -> Option<Value> + Send,
    ) -> Result<Option<ApiResponse>, AccessError> {
        let mut live = self.read(key, Some(uid)).await?;
        for _ in 0..TRIES {
            let Some(operations) = plan(&live) else { return Ok(None) };
            let rejected =
                match self.send_raw(key, Operation::Patch(PatchBody::json(operations), self.repair_manager())).await {
                    Err(error) if matches!(error.code(), Some(409 | 422)) => error,
                    edited => return edited.map(Some),
                };
            let now = self.read(key, Some(uid)).await?;
            if now["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"] {
                return Err(rejected);
            }
            live = now;
        }
        // Each change queues the owner again.
        Ok(None)
    }

    /// The object with its managed fields. It is read with a patch that changes
    /// nothing, which needs no permission to get objects.
    async fn read(&self, key: &ObjectKey, uid: Option<&str>) -> Result<Value, AccessError> {
        let nothing = match uid {
            Some(uid) => PatchBody::merge(json!({})).of_uid(uid),
            None => PatchBody::merge(json!({})),
        };
        let (_, text) = self.send_raw(key, Operation::Patch(nothing, self.controller.field_manager())).await?;
        serde_json::from_str(&text).map_err(|error| AccessError::Unanswered {
            verb: "read",
            kind: self.kind.kind.clone(),
            object: key.clone(),
            source: error.into(),
        })
    }

    /// Returns `true` if other field managers have entries beneath the lists and maps of an object to apply.
    pub(super) async fn has_foreign_entries(&self, key: &ObjectKey, body: &Value) -> Result<bool, AccessError> {
        let live = self.read(key, None).await?;
        Ok(!Comparison::new(body, &live, &self.controller.field_manager()).beneath().is_empty())
    }

    /// The field manager of edits. The one that applies would own the fields
    /// twice.
    pub(super) fn repair_manager(&self) -> String {
        format!("{}/heal", self.controller.field_manager())
    }

    pub(super) fn report(&self, parent: &Parent, child: Option<&Object>, reason: &str, message: String) {
        tracing::info!(controller = %self.controller.controller, "{message}");
        let mut note = Note::warning(parent.reference.clone(), reason, "Apply", message);
        note.related = child.map(|child| self.reference(child));
        self.controller.events.publish(note);
    }

    /// A reference to a child, for Events.
    pub(super) fn reference(&self, child: &Object) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.kind.api_version()),
            kind: Some(self.kind.kind.clone()),
            namespace: child.key().namespace().map(str::to_owned),
            name: Some(child.key().name().to_owned()),
            uid: Some(child.uid().to_owned()),
            ..ObjectReference::default()
        }
    }
}

/// Returns whether the server rejected an edit and would also reject a retry.
fn is_lasting(error: &AccessError) -> bool {
    matches!(error.code(), Some(403 | 409 | 422)) && !error.is_another() && !error.is_of_quota()
}

/// Reason, message and field of each cause of a rejection.
pub(super) fn field_errors(rejected: &AccessError) -> Vec<[String; 3]> {
    let details = rejected.status().and_then(|status| status.details.as_ref());
    let causes = details.into_iter().flat_map(|details| &details.causes);
    causes.map(|cause| [cause.reason.clone(), cause.message.clone(), cause.field.clone()]).collect()
}
