//! PATCH: how each content type changes the present state.

use serde_json::Value;

use super::update::{self, Part};
use super::{Call, WriteOptions, body};
use crate::fields;
use crate::http::Answer;
use crate::kinds::Kind;
use crate::meta;
use crate::patch::strategic::strategic_merge;
use crate::status::{Cause, Refusal};
use http::StatusCode;

/// The operations that one JSON patch may have, as on the real server.
const MOST_OPERATIONS: usize = 10_000;

/// A patch that was parsed, in one of its languages.
pub(super) enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

pub(super) fn patch(call: &Call<'_>) -> Result<Answer, Refusal> {
    let options = WriteOptions::parse(call.request, "PatchOptions")?;
    let patch = Patch::parse(call)?;
    let status = call.target.subresource.is_some();
    if let Patch::Apply(config) = &patch {
        return apply(call, &options, config, status);
    }
    let part = if status { Part::Status } else { Part::Main };
    let next = |present: &Value| {
        let patched = patch.apply(&call.kind, present)?;
        let (object, _) = body::admit(call, patched, options.validation)?;
        update::check_names(call, &object)?;
        Ok(object)
    };
    update::write(call, &options, part, next, None)
}

/// Server-side apply: creates an object that is absent.
fn apply(call: &Call<'_>, options: &WriteOptions, config: &Value, status: bool) -> Result<Answer, Refusal> {
    let kind = &call.kind;
    let subresource = call.target.subresource.as_deref().unwrap_or_default();
    let next = |present: Option<&Value>| {
        let config = named(call, config);
        let applied =
            fields::applied(call.cluster, kind, subresource, present, &config, &options.manager, options.force)?;
        let (object, _) = body::admit(call, applied, options.validation)?;
        update::check_names(call, &object)?;
        Ok(object)
    };
    let part = if status { Part::AppliedStatus } else { Part::Applied };
    // Without an object there is nothing whose status could be applied.
    let absent = match call.kind.table.get(&call.target.key()) {
        None if !status => {
            if !meta::text(config, "uid").is_empty() {
                let name = call.target.name.as_deref().unwrap_or_default();
                let why = format!(
                    "uid mismatch: the provided object specified uid {}, and no existing object was found",
                    meta::text(config, "uid")
                );
                return Err(Refusal::conflict(kind, name, why));
            }
            let mut object = next(None)?;
            meta::of(&mut object).remove("resourceVersion");
            Some(object)
        }
        _ => None,
    };
    update::write(call, options, part, |present| next(Some(present)), absent.as_ref())
}

/// The configuration with the namespace of the path.
fn named(call: &Call<'_>, config: &Value) -> Value {
    let mut config = config.clone();
    let unnamed = config["metadata"].as_object().is_some_and(|metadata| !metadata.contains_key("namespace"));
    if let Some(namespace) = call.target.namespace.as_deref().filter(|_| unnamed) {
        config["metadata"]["namespace"] = namespace.into();
    }
    config
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
                serde_json::from_slice(bytes).map(Self::Strategic).map_err(refused)
            }
            "application/apply-patch+yaml" => {
                let config =
                    body::yaml(bytes).map_err(|error| Refusal::bad_request(format!("error decoding YAML: {error}")))?;
                Ok(Self::Apply(config))
            }
            _ if call.kind.custom.is_some() => Err(Refusal::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => {
                let refusal = Refusal::unsupported_media_type("415: Unsupported Media Type");
                Err(refusal.with_details(serde_json::json!({})))
            }
        }
    }

    pub(super) fn apply(&self, kind: &Kind, present: &Value) -> Result<Value, Refusal> {
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
            Self::Merge(patch) | Self::Apply(patch) => json_patch::merge(&mut object, patch),
            Self::Strategic(patch) => {
                object = strategic_merge(object, patch.clone(), &kind.typed().schema).map_err(|error| {
                    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
                    let reason = match error.code() {
                        400 => "BadRequest",
                        422 => "Invalid",
                        _ => "",
                    };
                    Refusal::new(code, reason, error.to_string())
                })?;
            }
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
