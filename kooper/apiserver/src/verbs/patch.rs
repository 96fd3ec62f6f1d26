//! PATCH: how each content type changes the present state.

use serde_json::Value;

use super::update::{self, Part};
use super::{Call, WriteOptions, body};
use crate::http::Answer;
use crate::meta;
use crate::status::{Cause, Refusal};
use http::StatusCode;

/// The operations that one JSON patch may have, as on the real server.
const MOST_OPERATIONS: usize = 10_000;

/// A patch that was parsed, in one of its languages.
pub(super) enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
}

pub(super) fn patch(call: &Call<'_>) -> Result<Answer, Refusal> {
    let options = WriteOptions::parse(&call.request.query, "PatchOptions")?;
    let patch = Patch::parse(call)?;
    let part = if call.target.subresource.is_some() { Part::Status } else { Part::Main };
    let next = |present: &Value| {
        let patched = patch.apply(present)?;
        let (object, _) = body::admit(call, patched, options.validation)?;
        update::check_names(call, &object)?;
        Ok(object)
    };
    update::write(call, &options, part, next, None)
}

impl Patch {
    pub(super) fn parse(call: &Call<'_>) -> Result<Self, Refusal> {
        let bytes = &call.request.body;
        let refused = |error: serde_json::Error| Refusal::bad_request(format!("error decoding patch: {error}"));
        match call.request.content_type() {
            "application/json-patch+json" => {
                let value: Value = serde_json::from_slice(bytes).map_err(refused)?;
                let Value::Array(operations) = &value else {
                    return Err(Refusal::bad_request(
                        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
                    ));
                };
                if operations.len() > MOST_OPERATIONS {
                    return Err(Refusal::new(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "RequestEntityTooLarge",
                        format!(
                            "Request entity too large: The allowed maximum operations in a JSON patch is \
                             {MOST_OPERATIONS}, got {}",
                            operations.len()
                        ),
                    ));
                }
                serde_json::from_value(value).map(Self::Json).map_err(refused)
            }
            "application/merge-patch+json" => match serde_json::from_slice(bytes).map_err(refused)? {
                patch @ Value::Object(_) => Ok(Self::Merge(patch)),
                _ => Err(Refusal::bad_request(
                    "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
                )),
            },
            "application/strategic-merge-patch+json" if call.kind.custom.is_none() => {
                Err(Refusal::not_implemented("strategic merge patches"))
            }
            "application/apply-patch+yaml" => Err(Refusal::not_implemented("server-side apply")),
            _ => {
                let refusal = Refusal::unsupported_media_type("415: Unsupported Media Type");
                Err(refusal.with_details(serde_json::json!({})))
            }
        }
    }

    pub(super) fn apply(&self, present: &Value) -> Result<Value, Refusal> {
        let mut object = present.clone();
        match self {
            Self::Json(patch) => {
                json_patch::patch(&mut object, patch).map_err(|_| {
                    Refusal::new(
                        StatusCode::UNPROCESSABLE_ENTITY,
                        "Invalid",
                        "the server rejected our request due to an error in our request",
                    )
                    .with_details(serde_json::json!({}))
                })?;
            }
            Self::Merge(patch) => json_patch::merge(&mut object, patch),
        }
        if !object.is_object() || !object["metadata"].is_object() {
            let cause = Cause::invalid("patch", &object, "the patched object has no metadata");
            return Err(Refusal::invalid("", "", "", &[cause]));
        }
        // A version that the patch does not name is no precondition, but the state that was patched.
        if meta::text(&object, "resourceVersion").is_empty() {
            let version = present["metadata"]["resourceVersion"].clone();
            meta::of(&mut object).insert("resourceVersion".into(), version);
        }
        Ok(object)
    }
}
