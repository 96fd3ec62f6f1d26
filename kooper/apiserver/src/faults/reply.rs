//! Refusals of requests by faults.

use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::RequestAttributes;
use crate::http::Answer;

/// A refusal: a `Status` with the code's usual reason and message, unless others are given.
///
/// ```
/// use kooper_apiserver::faults::Reply;
///
/// let slow_down = Reply::new(429).retry_after(3);
/// let quota = Reply::new(403).message("exceeded quota: pods");
/// let webhook = Reply::new(500).reason("InternalError").message("failed calling webhook");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "it does nothing by itself: give it to `On::reply`"]
pub struct Reply {
    code: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<u32>,
}

impl Reply {
    /// A refusal with a code, such as 403, 409, 410, 429, 500, 503 or 504.
    ///
    /// # Panics
    ///
    /// If it is not the code of an error.
    pub fn new(code: u16) -> Self {
        assert!((400..600).contains(&code), "{code} is not the code of an error: write one from 400 to 599");
        Self { code, reason: None, message: None, retry_after: None }
    }

    /// Sets the reason, such as `AlreadyExists`.
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    /// Sets the message.
    pub fn message(mut self, message: &str) -> Self {
        self.message = Some(message.to_owned());
        self
    }

    /// Adds the header `Retry-After`, in seconds.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(super) fn code(&self) -> u16 {
        self.code
    }

    /// The answer to this request.
    pub(super) fn answer(&self, request: &RequestAttributes) -> Answer {
        let (reason, message) = self.usual(request);
        let (resource, _) = request.resource.split_once('/').unwrap_or((&request.resource, ""));
        let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
        let mut details = Map::new();
        for (field, value) in [("name", request.name.as_str()), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(field.to_owned(), value.into());
            }
        }
        if let Some(seconds) = self.retry_after {
            details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message.clone().unwrap_or(message),
            "reason": self.reason.clone().unwrap_or(reason),
            "details": Value::Object(details),
            "code": self.code
        });
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let answer = Answer::json(code, &status);
        match self.retry_after {
            Some(seconds) => answer.with_header(header::RETRY_AFTER, &seconds.to_string()),
            None => answer,
        }
    }

    /// The reason and the message that a server gives with this code.
    fn usual(&self, request: &RequestAttributes) -> (String, String) {
        let RequestAttributes { resource, namespace, name, user, verb, .. } = request;
        let (reason, message) = match self.code {
            400 => ("BadRequest", "the server could not understand the request".to_owned()),
            401 => ("Unauthorized", "Unauthorized".to_owned()),
            403 => {
                let (whole, sub) = resource
                    .split_once('/')
                    .map_or((&**resource, String::new()), |(whole, sub)| (whole, format!("/{sub}")));
                let (kind, group) = whole.split_once('.').unwrap_or((whole, ""));
                let place = match namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let denied =
                    format!("User {user:?} cannot {verb} resource \"{kind}{sub}\" in API group {group:?} {place}");
                ("Forbidden", format!("{whole} {name:?} is forbidden: {denied}"))
            }
            404 => ("NotFound", format!("{resource} {name:?} not found")),
            409 if verb == "create" => ("AlreadyExists", format!("{resource} {name:?} already exists")),
            409 => (
                "Conflict",
                format!(
                    "Operation cannot be fulfilled on {resource} {name:?}: the object has been modified; please apply \
                     your changes to the latest version and try again"
                ),
            ),
            410 => ("Expired", "too old resource version".to_owned()),
            413 => ("RequestEntityTooLarge", "the request is too large".to_owned()),
            415 => ("UnsupportedMediaType", "the media type is not supported".to_owned()),
            422 => ("Invalid", format!("{resource} {name:?} is invalid")),
            429 => ("TooManyRequests", "the server has received too many requests".to_owned()),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request".to_owned()),
            504 => ("Timeout", "the request did not complete within the time that it had".to_owned()),
            code if code < 500 => ("BadRequest", format!("the request was refused with {code}")),
            _ => ("InternalError", "Internal error occurred".to_owned()),
        };
        (reason.to_owned(), format!("{message} (injected fault)"))
    }
}

/// The usual refusal with this code. See [`Reply::new`].
impl From<u16> for Reply {
    fn from(code: u16) -> Self {
        Self::new(code)
    }
}
