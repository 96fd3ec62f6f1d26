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

    /// A whole `Status`, with its details. A failure without a code gets that of its reason.
    #[must_use]
    pub fn status(status: &Status) -> Self {
        let mut body = json!(status);
        body["apiVersion"] = "v1".into();
        body["kind"] = "Status".into();
        let code = match status.code {
            0 if status.is_failure() => code_of(&status.reason),
            0 => 200,
            code => code,
        };
        if status.is_failure() {
            body["code"] = code.into();
        }
        Self { code, body }
    }

    /// Adds the name of the object to a `Status` without details, as a server does.
    pub(super) fn about(mut self, sent: &Sent) -> Self {
        if self.body["kind"] == "Status" && self.body["details"].is_null() {
            self.body["details"] = json!({"name": sent.key.name(), "group": sent.group, "kind": sent.resource});
        }
        self
    }
}

/// The code of the API server's responses with this reason.
fn code_of(reason: &str) -> u16 {
    match reason {
        "BadRequest" => 400,
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "NotFound" => 404,
        "AlreadyExists" | "Conflict" => 409,
        "Expired" | "Gone" => 410,
        "Invalid" => 422,
        "TooManyRequests" => 429,
        "ServiceUnavailable" => 503,
        "Timeout" => 504,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_a_code_has_that_of_its_reason() {
        let failed = |reason| Reply::status(&Status::failure("not now", reason));
        assert_eq!(["Conflict", "NotFound", "Strange"].map(|reason| failed(reason).code), [409, 404, 500]);
        assert_eq!(failed("Forbidden").body["code"], 403);
        assert_eq!(Reply::status(&Status::success()).code, 200);
    }
}
