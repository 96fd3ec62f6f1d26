//! Children that others have edited: what collides with the controller's own
//! fields, or has no place beside them, is removed.

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};

use super::error::Error;
use super::foreign::{Comparison, Fault, Foreign, disown, removal};
use super::owned::Parent;
use super::patch::Patch;
use super::request::{Doing, Objects};
use crate::events::Note;
use crate::key::ObjectKey;
use crate::object::Object;

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
        body: Value,
    ) -> Result<Option<Object>, Error> {
        let compared = comparable(&body);
        let refused = match self.apply(key, body.clone()).await {
            Err(error) if error.code() == Some(422) && !error.is_another() => error,
            applied if !self.exclusive => return applied,
            applied => {
                let applied = applied?;
                let removed = self.remove(parent, key, uid, &compared, None).await?;
                return Ok(removed.or(applied));
            }
        };
        let faults = faults(&refused);
        let faults: Vec<_> = faults.iter().map(|[reason, message, field]| Fault { reason, message, field }).collect();
        if self.remove(parent, key, uid, &compared, Some(&faults)).await?.is_none() {
            return Err(refused);
        }
        let applied = self.apply(key, body).await?;
        // What stood in for an entry is applied now: it belongs to the apply alone.
        let healer = self.healer();
        let disowned = self.edit(key, uid, |live| disown(live, &healer)).await?;
        Ok(disowned.or(applied))
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
        faults: Option<&[Fault<'_>]>,
    ) -> Result<Option<Object>, Error> {
        let (manager, kept, kind) = (self.backing.field_manager(), &self.backing.kept, &self.kind.kind);
        let select = |live: &Value| {
            let comparison = Comparison::new(body, live, &manager);
            faults.map_or_else(|| comparison.beneath(), |faults| comparison.accused(faults))
        };
        let mut entries = Vec::new();
        let plan = |live: &Value| {
            entries = select(live);
            entries.retain(|entry| !kept.has(uid, &entry.shown));
            (!entries.is_empty()).then(|| removal(live, body, &entries))
        };
        let Some(object) = self.edit(key, uid, plan).await? else { return Ok(None) };
        let why = if faults.is_some() {
            "it collided with what the controller applies"
        } else {
            "the controller applies the object exclusively"
        };
        for Foreign { shown, manager, .. } in &entries {
            let text = format!("`{shown}` of {kind} `{key}` was set by `{manager}` and is removed: {why}");
            self.tell(parent, &object, "ForeignEntryRemoved", text);
        }
        // An admission webhook may have added them again to this very write: they are left to it.
        let again = select(&self.read(key, uid).await?);
        let removed = |entry: &&Foreign| entries.iter().any(|removed| removed.shown == entry.shown);
        for Foreign { shown, .. } in again.iter().filter(removed) {
            if kept.keep(uid, shown) {
                let text = format!(
                    "`{shown}` of {kind} `{key}` was added again while it was removed, as an admission webhook does: it is \
                     left as it is"
                );
                self.tell(parent, &object, "ForeignEntryKept", text);
            }
        }
        Ok(Some(object))
    }

    /// Edits the object by a JSON patch that is made from its latest version;
    /// `None` where there is nothing to edit.
    async fn edit(
        &self,
        key: &ObjectKey,
        uid: &str,
        mut plan: impl FnMut(&Value) -> Option<Value> + Send,
    ) -> Result<Option<Object>, Error> {
        let mut tries = 1;
        loop {
            let live = self.read(key, uid).await?;
            let Some(operations) = plan(&live) else { return Ok(None) };
            match self.send(key, Doing::Patch(Patch::json(operations), self.healer())).await {
                // The version that the patch tests is not the latest any more.
                Err(error) if tries < TRIES && matches!(error.code(), Some(409 | 422)) => tries += 1,
                edited => return edited,
            }
        }
    }

    /// The object with its managed fields. A patch that changes nothing
    /// returns it, and needs no rule for reading.
    async fn read(&self, key: &ObjectKey, uid: &str) -> Result<Value, Error> {
        let nothing = Patch::merge(json!({})).of_uid(uid);
        let text = self.ask(key, Doing::Patch(nothing, self.backing.field_manager())).await?;
        serde_json::from_str(&text).map_err(|error| Error::Unanswered {
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

    fn tell(&self, parent: &Parent, child: &Object, reason: &str, message: String) {
        tracing::info!(controller = %self.backing.controller, "{message}");
        self.backing.events.publish(Note {
            regarding: parent.reference.clone(),
            related: Some(self.reference(child)),
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
fn faults(refused: &Error) -> Vec<[String; 3]> {
    let details = refused.status().and_then(|status| status.details.as_ref());
    let causes = details.into_iter().flat_map(|details| &details.causes);
    causes.map(|cause| [cause.reason.clone(), cause.message.clone(), cause.field.clone()]).collect()
}
