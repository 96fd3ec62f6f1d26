//! Children that others have edited: what collides with the controller's own
//! fields, or has no place beside them, is removed.

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};

use super::error::AccessError;
use super::foreign::{Comparison, Fault, Foreign, disown, removal};
use super::owned::Parent;
use super::patch::PatchBody;
use super::request::{Answer, Doing, Objects};
use crate::call::events::Note;
use crate::object::Object;
use crate::object::key::ObjectKey;

/// How often the object is read again, where it changes meanwhile.
const TRIES: usize = 3;

impl Objects<'_> {
    /// Applies to the child with this uid. Where the server refuses that
    /// because of entries that others have set, they are removed first; where
    /// the child is applied exclusively, all of them are removed afterwards.
    pub(super) async fn heal(
        &self,
        parent: &Parent,
        key: &ObjectKey,
        uid: &str,
        mut body: Value,
    ) -> Result<Option<Object>, AccessError> {
        let (mut object, answer) = match self.apply(key, body.clone()).await {
            Err(refused) if refused.code() == Some(422) && !refused.is_another() => {
                // The version that an object is adopted in does not outlive the edit.
                if let Some(metadata) = body["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
                let faults = faults(&refused);
                match self.remove(parent, key, uid, &body, Some(&faults)).await {
                    Ok(Some(_)) => self.apply(key, body.clone()).await?,
                    Err(error) if !is_lasting(&error) => return Err(error),
                    // What the apply was refused for says more than why the edit was.
                    _ => return Err(refused),
                }
            }
            applied => applied?,
        };
        if self.exclusive {
            match self.remove(parent, key, uid, &body, None).await {
                Ok(edited) => object = edited.or(object),
                Err(error) if is_lasting(&error) => {
                    let kind = &self.kind.kind;
                    let text = format!("what others have set in {kind} `{key}` is left as it is: {error}");
                    self.tell(parent, object.as_ref(), "ForeignEntryKept", text);
                }
                Err(error) => return Err(error),
            }
        }
        // An edit sets what stands in for an entry, in this pass or in one that was interrupted. It is applied now:
        // it belongs to the apply alone.
        let healer = self.healer();
        if answer.contains(&healer) {
            match self.edit(key, uid, |live| disown(live, &healer)).await {
                Ok(disowned) => object = disowned.map_or(object, |(disowned, _)| disowned),
                // It is applied all the same; the next apply shows the fields again.
                Err(error) if is_lasting(&error) => tracing::debug!(controller = %self.backing.controller, "{error}"),
                Err(error) => return Err(error),
            }
        }
        Ok(object)
    }

    /// Removes entries of others: those that cause the faults, or all beneath
    /// the lists and maps that are applied. The object without them, or `None`
    /// where there are none.
    async fn remove(
        &self,
        parent: &Parent,
        key: &ObjectKey,
        uid: &str,
        body: &Value,
        faults: Option<&[[String; 3]]>,
    ) -> Result<Option<Object>, AccessError> {
        let (manager, kept, kind) = (self.backing.field_manager(), &self.backing.kept, &self.kind.kind);
        let compared = comparable(body);
        let mut entries = Vec::new();
        let plan = |live: &Value| {
            let comparison = Comparison::new(&compared, live, &manager);
            entries = match faults {
                Some(faults) => {
                    let faults = faults.iter().map(|[reason, message, field]| Fault { reason, message, field });
                    comparison.accused(&faults.collect::<Vec<_>>())
                }
                None => comparison.beneath(),
            };
            entries.retain(|entry| !kept.has(uid, &entry.shown));
            let edits = !entries.is_empty() && !parent.has_lost(live);
            edits.then(|| removal(live, faults.map(|_| body), &entries))
        };
        let Some((object, answer)) = self.edit(key, uid, plan).await? else { return Ok(None) };
        let why = if faults.is_some() {
            "it collided with what the controller applies"
        } else {
            "the controller applies the object exclusively"
        };
        // What an admission webhook adds again to this very write may have no managed fields.
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        for entry in &entries {
            let Foreign { shown, manager, .. } = entry;
            if !entry.is_in(&answer) {
                let text = format!("`{shown}` of {kind} `{key}` was set by `{manager}` and is removed: {why}");
                self.tell(parent, object.as_ref(), "ForeignEntryRemoved", text);
            } else if kept.keep(uid, shown) {
                let text = format!(
                    "`{shown}` of {kind} `{key}` was added again while it was removed, as an admission webhook does: it is \
                     left as it is"
                );
                self.tell(parent, object.as_ref(), "ForeignEntryKept", text);
            }
        }
        Ok(object)
    }

    /// Edits the object by a JSON patch that is made from its latest version;
    /// `None` where there is nothing to edit, or the object keeps changing.
    async fn edit(
        &self,
        key: &ObjectKey,
        uid: &str,
        mut plan: impl FnMut(&Value) -> Option<Value> + Send,
    ) -> Result<Option<Answer>, AccessError> {
        let mut live = self.read(key, uid).await?;
        for _ in 0..TRIES {
            let Some(operations) = plan(&live) else { return Ok(None) };
            let refused = match self.exchange(key, Doing::Patch(PatchBody::json(operations), self.healer())).await {
                Err(error) if matches!(error.code(), Some(409 | 422)) => error,
                edited => return edited.map(Some),
            };
            let now = self.read(key, uid).await?;
            if now["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"] {
                return Err(refused);
            }
            live = now;
        }
        // Every change brings another pass.
        Ok(None)
    }

    /// The object with its managed fields. A patch that changes nothing
    /// returns it, and needs no rule for reading.
    async fn read(&self, key: &ObjectKey, uid: &str) -> Result<Value, AccessError> {
        let nothing = PatchBody::merge(json!({})).of_uid(uid);
        let (_, text) = self.exchange(key, Doing::Patch(nothing, self.backing.field_manager())).await?;
        serde_json::from_str(&text).map_err(|error| AccessError::Unanswered {
            verb: "read",
            kind: self.kind.kind.clone(),
            object: key.clone(),
            source: error.into(),
        })
    }

    /// The field manager of edits: not the one that applies, which would own
    /// fields twice.
    fn healer(&self) -> String {
        format!("{}/heal", self.backing.field_manager())
    }

    fn tell(&self, parent: &Parent, child: Option<&Object>, reason: &str, message: String) {
        tracing::info!(controller = %self.backing.controller, "{message}");
        self.backing.events.publish(Note {
            regarding: parent.reference.clone(),
            related: child.map(|child| self.reference(child)),
            warning: true,
            reason: reason.to_owned(),
            action: "Apply".to_owned(),
            message,
        });
    }

    /// A child, as Events name it.
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

/// Whether the server refuses an edit, and will do so again.
fn is_lasting(error: &AccessError) -> bool {
    matches!(error.code(), Some(403 | 409 | 422)) && !error.is_another()
}

/// What is applied, in the fields that the server keeps it in.
fn comparable(body: &Value) -> Value {
    let mut body = body.clone();
    let keys: Vec<String> = body["stringData"].as_object().into_iter().flat_map(|data| data.keys().cloned()).collect();
    for key in keys {
        body["data"][key] = json!("");
    }
    body
}

/// Reason, message and field of each cause of a refusal.
fn faults(refused: &AccessError) -> Vec<[String; 3]> {
    let details = refused.status().and_then(|status| status.details.as_ref());
    let causes = details.into_iter().flat_map(|details| &details.causes);
    causes.map(|cause| [cause.reason.clone(), cause.message.clone(), cause.field.clone()]).collect()
}
