//! The `AdmissionReview` that a webhook gets and answers.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::super::Attributes;
use super::Failure;
use super::client;
use super::hook::{WebhookEntry, as_kind};
use crate::http::syntax::{self, SCHEME};
use crate::kinds::Kind;
use crate::patch::json::JsonPatch;
use crate::random;
use crate::status::StatusError;

/// The answer of a webhook that allows a request.
pub(super) struct Allowed {
    pub(super) warnings: Vec<String>,
    pub(super) patch: Option<Patch>,
}

/// The changes that a webhook wants.
pub(super) struct Patch {
    operations: Vec<Value>,
    text: Vec<u8>,
}

impl Patch {
    /// Changes an object. The error names the operation that does not fit.
    pub(super) fn apply(&self, object: &mut Value) -> Result<(), String> {
        let apply = |count: usize, object: &mut Value| {
            JsonPatch::new(self.operations[..count].to_vec(), &self.text).apply(object)
        };
        let before = object.clone();
        if apply(self.operations.len(), object).is_ok() {
            return Ok(());
        }
        let wrong = (1..=self.operations.len()).find(|count| apply(*count, &mut before.clone()).is_err());
        let operation = wrong.and_then(|count| self.operations.get(count - 1)).unwrap_or(&Value::Null);
        let text = |key: &str| operation[key].as_str().unwrap_or_default();
        Err(match (text("op"), text("path")) {
            ("test", path) => format!("testing value {path} failed: test failed"),
            ("replace", path) => {
                format!("replace operation does not apply: doc is missing path: {path}: missing value")
            }
            (op, path) => format!("{op} operation does not apply: doc is missing path: {path:?}: missing value"),
        })
    }
}

/// Asks a webhook about a request. A failure has warnings, too.
pub(super) async fn call(
    hook: &WebhookEntry,
    request: &Attributes<'_>,
    kind: &Arc<Kind>,
    object: &Value,
    old: &Value,
    mutates: bool,
) -> Result<Allowed, (Failure, Vec<String>)> {
    let failure = |why: String| (Failure::Call(why), Vec::new());
    if request.dry_run && !matches!(hook.text("sideEffects"), "None" | "NoneOnDryRun") {
        let why = format!("admission webhook {:?} does not support dry run", hook.name());
        return Err((Failure::Denied(Box::new(StatusError::bad_request(why))), Vec::new()));
    }
    let uid = random::uid();
    let mut review = request.review(kind);
    review["uid"] = json!(uid);
    review["object"] = as_kind(object, kind);
    review["oldObject"] = as_kind(old, kind);
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": review});
    let location = hook.location(request.cluster).map_err(&failure)?;
    let answer = match request.cluster.faults.webhook(hook.name()) {
        Some(fault) => client::broken(&location, fault).await,
        None => client::post(location, review.to_string().into()).await,
    };
    let answer = answer.and_then(|answer| decoded(&answer));
    let answer = answer.map_err(|why| failure(format!("failed to call webhook: {why}")))?;
    let response = verified(&uid, &answer, mutates);
    let response = response.map_err(|why| failure(format!("received invalid webhook response: {why}")))?;
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(ToOwned::to_owned).collect();
    if response["allowed"] != true {
        return Err((Failure::Denied(Box::new(denial(hook.name(), &response["status"]))), warnings));
    }
    let patch = patch(response, mutates);
    let patch = patch.map_err(|why| failure(format!("received undecodable patch in webhook response: {why}")))?;
    Ok(Allowed { warnings, patch })
}

/// The review in the answer of a webhook.
fn decoded(answer: &client::Answer) -> Result<Value, String> {
    let client::Answer { status, content_type, body } = answer;
    if !(200..=206).contains(&status.as_u16()) {
        return Err(unexpected(*status, content_type, body));
    }
    if body.is_empty() {
        let status = status.as_u16();
        return Err(format!("0-length response with status code: {status} and content type: {content_type}"));
    }
    // The real server reads YAML, too, in which much is a string.
    let review = match serde_json::from_slice::<Value>(body) {
        Ok(review) => Ok(review),
        Err(error) if body.trim_ascii_start().starts_with(b"{") => {
            Err(syntax::error(body).unwrap_or_else(|| error.to_string()))
        }
        Err(_) => serde_saphyr::from_slice(body).map_err(|error| error.to_string()),
    };
    let why = match &review {
        Ok(Value::Object(_)) => None,
        Ok(other) => Some(syntax::not_a(other, syntax::HEADER)),
        Err(why) => Some(why.clone()),
    };
    if let Some(why) = why {
        return Err(format!("couldn't get version/kind; json parse error: {why}"));
    }
    let review = review?;
    if review["kind"] == "Status" && review["status"] != "Success" {
        return Err(review["message"].as_str().unwrap_or_default().to_owned());
    }
    let text = |key: &str| review[key].as_str().unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    // Without a kind it is taken for a review.
    if !kind.is_empty() && kind != "AdmissionReview" || !version.is_empty() && !version.starts_with("admission.k8s.io/")
    {
        return Err(format!("no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}"));
    }
    Ok(review)
}

/// The error that client-go makes of a response that is no success: the message of a Status, if it has one.
fn unexpected(status: StatusCode, content_type: &str, body: &Bytes) -> String {
    let status_object: Option<Value> = serde_json::from_slice(body).ok();
    if let Some(found) = status_object.filter(|found| found["kind"] == "Status" && found["status"] == "Failure") {
        return found["message"].as_str().unwrap_or_default().to_owned();
    }
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    let text = if is_text { String::from_utf8_lossy(body).trim().to_owned() } else { "unknown".to_owned() };
    match status.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => text,
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        409 => "the server reported a conflict".to_owned(),
        415 => "the server was unable to respond with a content type that the client supports".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the \
                request"
            .to_owned(),
        500.. => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// The response of a review, if it answers this request.
fn verified<'a>(uid: &str, review: &'a Value, mutates: bool) -> Result<&'a Value, String> {
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    if text(&response["uid"]) != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    let (version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
        let expected = "admission.k8s.io/v1, Kind=AdmissionReview";
        return Err(format!("expected webhook response of {expected}, got {version}, Kind={kind}"));
    }
    let has_patch = !text(&response["patch"]).is_empty();
    let patch_type = response["patchType"].as_str();
    match (mutates, has_patch, patch_type) {
        (true, true, None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (true, false, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (true, _, Some("")) => Err("webhook returned invalid response.patchType of \"\"".to_owned()),
        (false, true, _) => Err("validating webhook may not return response.patch".to_owned()),
        (false, _, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
        _ => Ok(response),
    }
}

/// The patch of a response.
fn patch(response: &Value, mutates: bool) -> Result<Option<Patch>, String> {
    let encoded = response["patch"].as_str().unwrap_or_default();
    if encoded.is_empty() || !mutates {
        return Ok(None);
    }
    let text = STANDARD.decode(encoded).map_err(|error| error.to_string())?;
    let operations: Option<Vec<Value>> =
        serde_json::from_slice(&text).map_err(|error| syntax::error(&text).unwrap_or_else(|| error.to_string()))?;
    let operations = operations.unwrap_or_default();
    Ok((!operations.is_empty()).then_some(Patch { operations, text }))
}

/// The refusal of a request that a webhook has denied.
fn denial(name: &str, status: &Value) -> StatusError {
    let text = |key: &str| status[key].as_str().filter(|text| !text.is_empty());
    let message = match text("message").or_else(|| text("reason")) {
        Some(why) => format!("admission webhook {name:?} denied the request: {why}"),
        None => format!("admission webhook {name:?} denied the request without explanation"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_REQUEST);
    let refusal = StatusError::with_reason(code, text("reason").unwrap_or_default().to_owned().into(), message);
    match &status["details"] {
        Value::Object(_) => refusal.with_details(status["details"].clone()),
        _ => refusal,
    }
}
