//! Refusals: the `Status` objects of the API.

use std::borrow::Cow;
use std::fmt::Display;

use http::StatusCode;
use serde_json::{Map, Value, json};

pub(crate) use crate::cause::Cause;
use crate::kinds::Kind;

/// Why a request was not served.
#[derive(Clone, Debug)]
pub(crate) struct StatusError {
    pub(crate) code: StatusCode,
    reason: Cow<'static, str>,
    message: String,
    details: Option<Box<Value>>,
    /// Seconds after which the client may try again.
    pub(crate) retry_after: Option<u32>,
    /// The token of the rest of a list.
    continues: Option<String>,
    pub(crate) warnings: Vec<String>,
}

impl StatusError {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self::with_reason(code, reason.into(), message)
    }

    /// A refusal by another program, which may give any reason.
    pub(crate) fn with_reason(code: StatusCode, reason: Cow<'static, str>, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
            continues: None,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds a cause to the details.
    pub(crate) fn with_cause(mut self, cause: &Value) -> Self {
        self.details.get_or_insert_default()["causes"] = json!([cause]);
        self
    }

    /// Gives the client a token by which it can read the rest of a list.
    pub(crate) fn with_continue(mut self, token: String) -> Self {
        self.continues = Some(token);
        self
    }

    /// Asks the client to come back after some seconds.
    pub(crate) fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default()["retryAfterSeconds"] = json!(seconds);
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// The resource is not served.
    pub(crate) fn unknown_resource() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
            .with_details(json!({}))
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::not_found_named(&kind.group, &kind.resource, name)
    }

    pub(crate) fn not_found_named(group: &str, resource: &str, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{} {name:?} not found", qualified(resource, group)))
            .with_details(details(name, group, resource))
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str, deleting: bool) -> Self {
        let why = if deleting { "object is being deleted: " } else { "" };
        let message = format!("{why}{} {name:?} already exists", qualified(&kind.resource, &kind.group));
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).with_details(details(
            name,
            &kind.group,
            &kind.resource,
        ))
    }

    /// Adds that no other name could be generated.
    pub(crate) fn not_generated(mut self) -> Self {
        self.message += ", the server was not able to generate a unique name for the object";
        self.with_retry_after(1)
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: impl Display) -> Self {
        Self::conflict_named(&kind.group, &kind.resource, name, why)
    }

    pub(crate) fn conflict_named(group: &str, resource: &str, name: &str, why: impl Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(resource, group));
        Self::new(StatusCode::CONFLICT, "Conflict", message).with_details(details(name, group, resource))
    }

    /// The object was written by another client in between.
    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let text = Cause::list(causes);
        let message = format!("{} {name:?} is invalid: {text}", qualified(kind, group));
        let mut about = details(name, group, kind);
        let causes: Vec<_> = causes
            .iter()
            .map(|cause| {
                let mut entry = json!({"reason": cause.reason, "message": cause.message});
                if !cause.field.is_empty() {
                    entry["field"] = json!(cause.field);
                }
                entry
            })
            .collect();
        about["causes"] = json!(causes);
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(about)
    }

    pub(crate) fn invalid_object(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        Self::invalid(kind.internal_group(), &kind.kind, name, causes)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(json!({}))
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// No media type that the client accepts is served; these are.
    pub(crate) fn not_producible(types: &[String]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", types.join(", "));
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message).with_details(json!({}))
    }

    /// The request took too long to arrive.
    pub(crate) fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted time";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with_details(json!({}))
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// The error for a failure inside the server, with its cause.
    pub(crate) fn internal_error(why: &str) -> Self {
        Self::internal(format!("Internal error occurred: {why}")).with_details(json!({"causes": [{"message": why}]}))
    }

    pub(crate) fn forbidden(message: impl Into<String>, details: Value) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details(details)
    }

    /// The error for a forbidden request for an object, or for a resource if the name is empty.
    pub(crate) fn forbidden_named(group: &str, resource: &str, name: &str, why: impl Display) -> Self {
        let subject = qualified(resource, group);
        let subject = if name.is_empty() { subject } else { format!("{subject} {name:?}") };
        Self::forbidden(format!("{subject} is forbidden: {why}"), details(name, group, resource))
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The object is there to look at, but this is not served yet.
    pub(crate) fn not_implemented(what: impl Display) -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "NotImplemented",
            format!("the embedded API server does not serve {what}"),
        )
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), json!("Status"));
        status.insert("apiVersion".into(), json!("v1"));
        let metadata = self.continues.as_ref().map_or_else(|| json!({}), |token| json!({"continue": token}));
        status.insert("metadata".into(), metadata);
        status.insert("status".into(), json!("Failure"));
        status.insert("message".into(), json!(self.message));
        if !self.reason.is_empty() {
            status.insert("reason".into(), json!(self.reason));
        }
        if let Some(details) = &self.details {
            status.insert("details".into(), Value::clone(details));
        }
        status.insert("code".into(), json!(self.code.as_u16()));
        Value::Object(status)
    }
}

/// The success of a request that has created no object to answer with.
pub(crate) fn created() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// `deployments.apps`, or `pods` in the core group.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// The details that name an object; empty parts are left out.
pub(crate) fn details(name: &str, group: &str, kind: &str) -> Value {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.into(), json!(value));
        }
    }
    Value::Object(details)
}

/// A success without an object.
pub(crate) fn success(details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
