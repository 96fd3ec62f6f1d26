//! From a body to a patch.

use http::StatusCode;
use serde_json::{Value, json};

use super::super::{Call, FieldValidation, body};
use super::Patch;
use crate::decode;
use crate::http::syntax;
use crate::patch::json::JsonPatch;
use crate::status::StatusError;

/// The operations that one JSON patch may have, as on the real server.
const MOST_OPERATIONS: usize = 10_000;

fn decoded(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| syntax::error(bytes).unwrap_or_else(|| error.to_string()))
}

fn refused(why: impl std::fmt::Display) -> StatusError {
    StatusError::bad_request(format!("error decoding patch: {why}"))
}

impl Patch {
    /// The patch of a request. Where fields are not validated, the real server leaves out the first decoding of JSON
    /// patches and merge patches, so their mistakes are found by another decoder, or only by their effects.
    pub(in crate::verbs) fn parse(call: &Call<'_>, validation: FieldValidation) -> Result<Self, StatusError> {
        let bytes = &call.request.body;
        let checked = validation != FieldValidation::Ignore;
        match call.request.content_type() {
            "application/json-patch+json" => operations(bytes, checked).map(Self::Json),
            "application/merge-patch+json" => match decoded(bytes) {
                Ok(patch @ Value::Object(_)) => Ok(Self::Merge(patch)),
                Ok(patch @ Value::Array(_)) if !checked => Ok(Self::Merge(patch)),
                Ok(other) if checked && !other.is_null() => Err(refused(body::not_a(&other, body::MAP))),
                Err(why) if checked => Err(refused(why)),
                _ => Err(StatusError::bad_request("Invalid JSON Patch")),
            },
            "application/strategic-merge-patch+json" if call.kind.custom.is_none() => {
                match decoded(bytes).map_err(StatusError::bad_request)? {
                    patch @ Value::Object(_) => Ok(Self::Strategic(patch)),
                    Value::Null => Ok(Self::Strategic(json!({}))),
                    other => Err(StatusError::bad_request(body::not_a(&other, body::MAP))),
                }
            }
            "application/apply-patch+yaml" => {
                let config = body::yaml(bytes)
                    .map_err(|error| StatusError::bad_request(format!("error decoding YAML: {error}")))?;
                Ok(Self::Apply(config))
            }
            _ => Err(Self::unknown_language(call)),
        }
    }

    /// The fields of the patch itself that a strict client does not send: those that come twice, and in a JSON patch also
    /// those that operations do not have.
    pub(super) fn strict(&self, bytes: &[u8]) -> Vec<String> {
        match self {
            Self::Json(_) => {
                let found = decode::check_operations(bytes).strict.into_iter();
                found.map(|field| format!("json patch {field}")).collect()
            }
            _ => decode::check(&mut serde_json::Deserializer::from_slice(bytes), None).strict,
        }
    }
}

/// The operations of a JSON patch.
fn operations(bytes: &[u8], checked: bool) -> Result<JsonPatch, StatusError> {
    let patch = decoded(bytes).map_err(|why| if checked { refused(why) } else { StatusError::bad_request(why) })?;
    if checked && let Some(why) = decode::check_operations(bytes).error {
        return Err(refused(why));
    }
    let operations = match patch {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(StatusError::bad_request(body::not_a(&other, "jsonpatch.Patch"))),
    };
    if let Some(found) = operations.iter().find(|operation| !operation.is_object() && !operation.is_null()) {
        return Err(StatusError::bad_request(body::not_a(found, "jsonpatch.Operation")));
    }
    if operations.len() > MOST_OPERATIONS {
        let why = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        );
        return Err(StatusError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", why));
    }
    Ok(JsonPatch::new(operations, bytes))
}
