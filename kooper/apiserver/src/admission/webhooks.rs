//! The plugins `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`: programs outside of the server that change
//! or judge what a request writes.
//!
//! They are called for requests of clients, and not for what the server's own controllers do.

mod client;
mod hook;
mod mutation;
mod review;

use futures_util::future::join_all;
use serde_json::Value;

use self::hook::{VALIDATING, WebhookEntry, hooks};
pub(crate) use self::mutation::Mutation;
use super::Attributes;
use crate::status::StatusError;

/// Why a hook has not let a request pass.
enum Failure {
    /// It was not reached, or its answer is none: its failure policy decides.
    Call(String),
    /// It has denied the request, or must not be called for it.
    Denied(Box<StatusError>),
}

impl Failure {
    /// The refusal of the request, unless the failure policy of the hook ignores it.
    fn refusal(self, hook: &WebhookEntry) -> Option<StatusError> {
        match self {
            Self::Denied(refusal) => Some(*refusal),
            Self::Call(_) if hook.ignores_failures() => None,
            Self::Call(why) => {
                Some(StatusError::internal_error(&format!("failed calling webhook {:?}: {why}", hook.name())))
            }
        }
    }
}

/// Lets all hooks that concern a request judge it at the same time. `object` is null in a deletion.
pub(super) async fn validate(
    request: &Attributes<'_>,
    object: &Value,
    old: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), StatusError> {
    let hooks = hooks(request.cluster, VALIDATING);
    let mut calls = Vec::new();
    for hook in &hooks {
        if let Some(kind) = hook.concerns(request, object, old)? {
            calls.push(async move { (hook, review::call(hook, request, &kind, object, old, false).await) });
        }
    }
    let mut first = None;
    for (hook, answered) in join_all(calls).await {
        match answered {
            Ok(allowed) => warnings.extend(allowed.warnings),
            Err((failure, said)) => {
                warnings.extend(said);
                first = first.or(failure.refusal(hook));
            }
        }
    }
    first.map_or(Ok(()), Err)
}
