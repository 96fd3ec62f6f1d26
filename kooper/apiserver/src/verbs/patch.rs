//! PATCH: how each content type changes the present state.

mod parse;

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::Value;

use super::update::{self, Owners};
use super::written_part::WrittenPart;
use super::{Call, WriteOptions, body, warned};
use crate::cause::Cause;
use crate::http::Answer;
use crate::kinds::Kind;
use crate::patch::apply::kind_of;
use crate::patch::duplicates::PatchWithDuplicates;
use crate::patch::format::display;
use crate::patch::json::JsonPatch;
use crate::patch::merge::merge_patch;
use crate::patch::strategic::{consumed, strategic_merge};
use crate::status::StatusError;
use crate::{decode, fields, meta};

/// A patch that was parsed, in one of its languages.
pub(super) enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

pub(super) async fn patch(call: &Call<'_>) -> Result<Answer, StatusError> {
    // A language that the kind does not know is refused before the options are read.
    Patch::check_language(call)?;
    let options = WriteOptions::parse(call.request, "PatchOptions")?;
    if !Patch::creates(call) {
        // An absent object is reported before errors in the patch.
        super::present(call)?;
    }
    let patch = Patch::parse(call, options.validation)?;
    if let Patch::Apply(config) = &patch {
        return apply(call, &options, config).await;
    }
    let bytes = &call.request.body;
    let strict = patch.strict(bytes);
    let duplicates = if let Patch::Json(_) = patch { PatchWithDuplicates::parse(bytes) } else { None };
    let warnings = Mutex::default();
    let next = |present: &Value| {
        let mut patched = patch.apply(&call.kind, present)?;
        let shown = patch.shown(&call.kind, present, &patched);
        let misfit = |why: &str| StatusError::invalid("", "", "", &[Cause::invalid("patch", &shown, why)]);
        if matches!(patch, Patch::Strategic(_))
            && let Some(definition) = call.kind.typed().name
        {
            decode::convert(&mut patched, definition).map_err(|why| misfit(&why))?;
            // The real server has patched a value of its own type.
            for key in ["kind", "apiVersion"] {
                patched[key] = present[key].clone();
            }
        }
        let text = duplicates.as_ref().and_then(|duplicates| duplicates.patched(present));
        let (object, unknown) =
            body::patched(call, patched, text, strict.clone(), options.validation).map_err(|refusal| {
                // The client did not send the patched object, so this is not a bad request.
                let why = body::reason(&refusal, &call.kind.kind);
                if refusal.code == StatusCode::BAD_REQUEST { misfit(why) } else { refusal }
            })?;
        *warnings.lock() = unknown;
        update::check_names(call, &object)?;
        Ok(object)
    };
    let answer = update::write(call, &options, Owners::Found, next, None).await;
    Ok(warned(answer, &warnings.into_inner()))
}

/// Server-side apply: creates an object that is absent.
async fn apply(call: &Call<'_>, options: &WriteOptions, config: &Value) -> Result<Answer, StatusError> {
    let kind = &call.kind;
    let subresource = call.target.subresource.as_deref().unwrap_or_default();
    let warnings = Mutex::default();
    let next = |present: Option<&Value>| {
        let mut applied =
            fields::applied(call.cluster, kind, subresource, present, config, &options.manager, options.force)?;
        if let Some(definition) = kind.typed().name {
            decode::convert(&mut applied, definition).map_err(|why| misfit(config, &why))?;
        }
        let emptied = meta::emptied(&applied);
        let (mut object, unknown) = body::patched(call, applied, None, Vec::new(), options.validation)?;
        *warnings.lock() = unknown;
        update::check_names(call, &object)?;
        // This write deletes the object, so these fields are not dropped by storing and reading it.
        if kind.custom.is_some() && meta::is_deleting(&object) && meta::finalizers(&object).is_empty() {
            meta::of(&mut object).extend(emptied.into_iter().map(|key| (key, Value::Null)));
        }
        Ok(object)
    };
    // Without an object there is no part of it that could be applied.
    let absent = match call.kind.table.get(&call.key()?) {
        None if WrittenPart::of(call).creates(call) => {
            if !meta::text(config, "uid").is_empty() {
                let name = call.target.name.as_deref().unwrap_or_default();
                let why = format!(
                    "uid mismatch: the provided object specified uid {}, and no existing object was found",
                    meta::text(config, "uid")
                );
                return Err(StatusError::conflict(kind, name, why));
            }
            let mut object = next(None)?;
            meta::of(&mut object).remove("resourceVersion");
            Some(object)
        }
        _ => None,
    };
    let answer = update::write(call, options, Owners::Applied, |present| next(Some(present)), absent.as_ref()).await;
    Ok(warned(answer, &warnings.into_inner()))
}

/// The refusal of a configuration that fits the schema, but not the type.
fn misfit(config: &Value, why: &str) -> StatusError {
    let (namespace, name) = (meta::text(config, "namespace"), meta::text(config, "name"));
    let kind = kind_of(config);
    let message = format!(
        "failed to convert new object ({namespace}/{name}; {kind}) to proper version: unable to convert unstructured \
         object to {kind}: {why}"
    );
    StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
}

impl Patch {
    /// Returns the value that error messages show if the result of a patch is not of the kind.
    fn shown(&self, kind: &Kind, present: &Value, patched: &Value) -> Value {
        match self {
            Self::Strategic(patch) => display(&consumed(present, patch, &kind.typed().schema)).into(),
            _ => patched.to_string().into(),
        }
    }

    /// An apply may create the object.
    fn creates(call: &Call<'_>) -> bool {
        call.request.content_type() == "application/apply-patch+yaml"
    }

    pub(super) fn check_language(call: &Call<'_>) -> Result<(), StatusError> {
        let known = match call.request.content_type() {
            "application/json-patch+json" | "application/merge-patch+json" | "application/apply-patch+yaml" => true,
            "application/strategic-merge-patch+json" => call.kind.custom.is_none(),
            _ => false,
        };
        if known { Ok(()) } else { Err(Self::unknown_language(call)) }
    }

    fn unknown_language(call: &Call<'_>) -> StatusError {
        if call.kind.custom.is_some() {
            return StatusError::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            );
        }
        let refusal = StatusError::unsupported_media_type("415: Unsupported Media Type");
        refusal.with_details(serde_json::json!({}))
    }

    pub(super) fn apply(&self, kind: &Kind, present: &Value) -> Result<Value, StatusError> {
        let mut object = present.clone();
        match self {
            Self::Json(patch) => {
                patch.apply(&mut object).map_err(|_| {
                    StatusError::new(
                        StatusCode::UNPROCESSABLE_ENTITY,
                        "Invalid",
                        "the server rejected our request due to an error in our request",
                    )
                    .with_details(serde_json::json!({}))
                })?;
            }
            Self::Merge(patch) | Self::Apply(patch) => object = merge_patch(object, patch.clone()),
            Self::Strategic(patch) => {
                object = strategic_merge(object, patch.clone(), &kind.typed().schema).map_err(|error| {
                    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
                    let reason = match error.code() {
                        400 => "BadRequest",
                        422 => "Invalid",
                        _ => "",
                    };
                    StatusError::new(code, reason, error.to_string())
                })?;
            }
        }
        if !object.is_object() {
            let why = format!("couldn't get version/kind; json parse error: {}", body::not_a(&object, body::HEADER));
            let cause = Cause::invalid("patch", &object.to_string().into(), why);
            return Err(StatusError::invalid("", "", "", &[cause]));
        }
        Ok(object)
    }
}
