//! The API server's errors.

use std::time::Duration;

use http::StatusCode;
use kooper_protobuf::{Envelope, Kind};
use kube::core::response::Status;

use super::RetrieveError;

/// The JSON of a `Status` in protobuf. Errors come in it where objects were requested in it, though the response to
/// another server's error may be text.
fn decoded(body: &[u8]) -> Option<Vec<u8>> {
    let envelope = Envelope::open(body).ok()?;
    Kind::of(envelope.api_version(), envelope.kind())?.decode_json(envelope.raw()).ok()
}

/// The error in a `Status`, or in a body without one.
pub(super) fn status_error(body: &[u8], code: Option<StatusCode>, pause: Option<Duration>) -> RetrieveError {
    let decoded = decoded(body);
    let body = decoded.as_deref().unwrap_or(body);
    let status: Status = serde_json::from_slice(body).unwrap_or_default();
    let code = code.map_or(status.code, |code| code.as_u16());
    let message = if status.message.is_empty() {
        let text = String::from_utf8_lossy(body.get(..body.len().min(200)).unwrap_or_default()).trim().to_owned();
        if text.is_empty() { format!("HTTP {code}") } else { text }
    } else {
        status.message
    };
    let too_large = status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|cause| cause.reason == "ResourceVersionTooLarge");
    match (code, status.reason.as_str()) {
        (410, _) | (_, "Expired" | "Gone") => RetrieveError::Expired(message),
        _ if too_large => RetrieveError::TooLargeVersion(message),
        (401, _) => RetrieveError::Unauthorized(message),
        (403, _) => RetrieveError::Forbidden(message),
        (404, _) => RetrieveError::NotFound(message),
        (429, _) => RetrieveError::Busy { after: pause.unwrap_or(Duration::from_secs(1)), message },
        _ => match pause {
            Some(after) => RetrieveError::Busy { after, message },
            None => RetrieveError::Status { code, message },
        },
    }
}
