//! The webhooks that change an object: in their order, and once more where that was asked for.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::Attributes;
use super::hook::{MUTATING, as_kind, hooks};
use super::review;
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::{decode, defaults, meta, schema};

/// The rounds of the webhooks that change one object.
#[derive(Debug, Default)]
pub(crate) struct Mutation {
    /// Those that were called, and may be called again.
    reinvocable: BTreeSet<String>,
    /// Those that are called in the second round.
    again: BTreeSet<String>,
    /// The object after the first round.
    output: Option<Value>,
    /// A webhook has changed the object, so there is a second round, after the other plugins.
    pub(crate) changed: bool,
}

impl Mutation {
    /// Calls the webhooks that concern a request, one after the other. `object` is null in a deletion.
    pub(crate) async fn round(
        &mut self,
        request: &Attributes<'_>,
        object: &mut Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), StatusError> {
        let first = self.output.is_none();
        if self.output.as_ref().is_some_and(|output| output != object) {
            self.again.append(&mut self.reinvocable);
        }
        for hook in hooks(request.cluster, MUTATING) {
            let Some(kind) = hook.concerns(request, object, old)? else { continue };
            if !first && !self.again.contains(&hook.id) {
                continue;
            }
            let answered = review::call(&hook, request, &kind, object, old, true).await;
            let mut patch = None;
            match answered {
                Ok(allowed) => {
                    warnings.extend(allowed.warnings);
                    patch = allowed.patch;
                }
                Err((failure, said)) => {
                    warnings.extend(said);
                    if let Some(refusal) = failure.refusal(&hook) {
                        return Err(refusal);
                    }
                }
            }
            if let Some(patch) = patch {
                if object.is_null() {
                    return Err(hook.modifies_nothing());
                }
                let before = as_kind(object, &kind);
                let mut after = before.clone();
                patch.apply(&mut after).map_err(|why| StatusError::internal_error(&why))?;
                let changed = after != before;
                *object = as_kind(&after, request.kind);
                complete(request.kind, object)?;
                if changed {
                    self.again.append(&mut self.reinvocable);
                    self.changed = true;
                }
            }
            if hook.text("reinvocationPolicy") == "IfNeeded" {
                self.reinvocable.insert(hook.id);
            }
        }
        self.output = Some(object.clone());
        Ok(())
    }
}

/// Makes a changed object one of its kind, as if a client had sent it. Fields that the schema does not know are dropped.
fn complete(kind: &Kind, object: &mut Value) -> Result<(), StatusError> {
    meta::normalize(kind, object).map_err(|refusal| StatusError::internal_error(refusal.message()))?;
    match &kind.custom {
        Some(definition) => {
            drop(definition.prune(object));
            definition.fill_defaults(object);
        }
        None => {
            if let Some(why) = decode::check(&*object, kind.typed().name).error {
                return Err(StatusError::internal_error(&why));
            }
            drop(schema::prune_builtin(object, &kind.typed().definition));
            defaults::decode(kind, object);
        }
    }
    Ok(())
}
