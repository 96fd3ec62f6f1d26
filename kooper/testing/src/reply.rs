//! Responses that a test sets.

use std::sync::Arc;

use kube::core::Status;
use serde::Serialize;
use serde_json::{Value, json};

use super::Sent;

/// Returns the response to a request, or `None` to leave it to other rules.
pub(super) type ReplyRule = Arc<dyn Fn(&Sent) -> Option<Reply> + Send + Sync>;

/// A response of the API server, for
/// [`FakeCluster::reply`](super::FakeCluster::reply).
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Reply {
    /// An object, with the code 200.
    #[must_use]
    pub fn object(object: &impl Serialize) -> Self {
        match serde_json::to_value(object) {
            Ok(body) => Self { code: 200, body },
            Err(error) => {
                Self::rejected(500, "InternalError", &format!("the reply cannot be written as JSON: {error}"))
            }
        }
    }

    /// A rejection with code, reason and message, such as
    /// `Reply::rejected(409, "Conflict", "…")`.
    #[must_use]
    pub fn rejected(code: u16, reason: &str, message: &str) -> Self {
        Self::status(&Status::failure(message, reason).with_code(code))
    }

    /// A whole `Status`, with its details.
    #[must_use]
    pub fn status(status: &Status) -> Self {
        let mut body = json!(status);
        body["apiVersion"] = "v1".into();
        body["kind"] = "Status".into();
        Self { code: if status.code == 0 { 200 } else { status.code }, body }
    }

    /// Adds the name of the object to a `Status` without details, as a server does.
    pub(super) fn about(mut self, sent: &Sent) -> Self {
        if self.body["kind"] == "Status" && self.body["details"].is_null() {
            self.body["details"] = json!({"name": sent.key.name(), "group": sent.group, "kind": sent.resource});
        }
        self
    }
}
