//! The envelope of a request: an `AdmissionReview` whose objects stay raw JSON.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::UserInfo;
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::object::kind::KindInfo;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::admission::{Notes, Operation, RequestInfo};
use crate::denied::Denied;
use crate::patch::Patch;

/// The version of reviews that is spoken. Every API server since Kubernetes 1.16 does.
pub(crate) const VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The most characters of a caller's text that a message quotes.
const QUOTED: usize = 100;

/// Why a body is not a request that can be decided on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReviewError {
    #[error("the body is not an AdmissionReview in JSON (line {line}, column {column})")]
    Garbage { line: usize, column: usize },
    #[error("the body is `{found}`, but must be `{VERSION}, Kind={KIND}`")]
    Version { found: String },
    #[error("the review has no request")]
    NoRequest,
    #[error("the request has no {0}")]
    NoObject(&'static str),
    #[error("the object is `{found}`, but this webhook is for `{expected}`")]
    Kind { expected: String, found: String },
    #[error("the operation is {found}, but this webhook is for {expected}")]
    Operation { expected: String, found: &'static str },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a, T> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    request: Option<T>,
}

impl<T> Review<'_, T> {
    fn request(self) -> Result<T, ReviewError> {
        let Self { api_version, kind, request } = self;
        if (&*api_version, &*kind) != (VERSION, KIND) {
            let found: String = format!("{api_version}, Kind={kind}").chars().take(QUOTED).collect();
            return Err(ReviewError::Version { found });
        }
        request.ok_or(ReviewError::NoRequest)
    }
}

/// A request whose objects are not decoded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request<'a> {
    pub(crate) uid: String,
    kind: Kind,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    sub_resource: String,
    pub(crate) operation: Operation,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(borrow)]
    pub(crate) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) old_object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

/// An object, of which only the name is read.
#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

impl<'a> Request<'a> {
    /// Reads a body.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, ReviewError> {
        let garbage = |error: serde_json::Error| ReviewError::Garbage { line: error.line(), column: error.column() };
        match serde_json::from_slice::<Review<'a, Self>>(body) {
            Ok(review) => review.request().map(Self::named),
            // Another version may have other fields: then the version is the mistake.
            Err(error) => {
                let review: Review<'_, IgnoredAny> = serde_json::from_slice(body).map_err(garbage)?;
                Err(review.request().err().unwrap_or_else(|| garbage(error)))
            }
        }
    }

    /// The same request with the name of its object. An API server that deletes a collection names no object of it.
    fn named(mut self) -> Self {
        if self.name.is_empty()
            && let Some(old) = self.old_object
        {
            let old: serde_json::Result<Named> = serde_json::from_str(old.get());
            self.name = old.map(|old| old.metadata.name).unwrap_or_default();
        }
        self
    }

    /// Checks that a webhook is for the kind and the operation, and that their objects are there.
    pub(crate) fn check(&self, expected: &KindInfo, operations: &BTreeSet<&str>) -> Result<(), ReviewError> {
        let Kind { group, version, kind } = &self.kind;
        if (group, version, kind) != (&expected.group, &expected.version, &expected.kind) {
            let slash = if group.is_empty() { "" } else { "/" };
            let found = format!("{group}{slash}{version}, Kind={kind}").chars().take(QUOTED).collect();
            let expected = format!("{}, Kind={}", expected.api_version(), expected.kind);
            return Err(ReviewError::Kind { expected, found });
        }
        let operation = self.operation.name();
        if !operations.contains(operation) {
            let expected = operations.iter().copied().collect::<Vec<_>>().join(", ");
            return Err(ReviewError::Operation { expected, found: operation });
        }
        match self.operation {
            Operation::Create | Operation::Update if self.object.is_none() => Err(ReviewError::NoObject("object")),
            Operation::Update | Operation::Delete if self.old_object.is_none() => {
                Err(ReviewError::NoObject("oldObject"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn info(&self, kind: &KindInfo) -> RequestInfo {
        // That of a Namespace is its own name.
        let namespace = Some(self.namespace.as_str()).filter(|name| kind.namespaced && !name.is_empty());
        RequestInfo {
            operation: self.operation,
            key: ObjectKey::new(namespace, &self.name),
            user: self.user_info.clone(),
            dry_run: self.dry_run.unwrap_or_default(),
            subresource: self.sub_resource.clone(),
        }
    }
}

/// The decision of a function.
#[derive(Debug)]
pub(crate) enum Verdict {
    Allowed(Patch),
    Denied(Denied),
}

/// The body of a response to a request.
pub(crate) fn response(request: &Request<'_>, kind: &KindInfo, verdict: &Verdict, notes: Notes) -> Vec<u8> {
    let mut response = json!({"uid": request.uid, "allowed": matches!(verdict, Verdict::Allowed(_))});
    match verdict {
        Verdict::Allowed(patch) if patch.is_empty() => {}
        Verdict::Allowed(patch) => {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch.to_json()).into();
        }
        Verdict::Denied(denied) => response["status"] = denied.status(kind, &request.name),
    }
    if !notes.warnings.is_empty() {
        response["warnings"] = notes.warnings.iter().map(|warning| on_one_line(warning)).collect();
    }
    if !notes.audit.is_empty() {
        response["auditAnnotations"] = notes.audit.into_iter().collect();
    }
    json!({"apiVersion": VERSION, "kind": KIND, "response": response}).to_string().into_bytes()
}

/// A warning without control characters: the API server drops one that has some, such as the end of a line.
fn on_one_line(warning: &str) -> String {
    let parts = warning.split(char::is_control).map(str::trim).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

/// The body of a response to a request that was not decided on.
pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Vec<u8> {
    let status: Value = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    status.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    fn body(kind: &KindInfo) -> String {
        // The API server sets the namespace of a Namespace to its name.
        let request = json!({
            "uid": "1", "operation": "CREATE", "name": "shop", "namespace": "shop", "userInfo": {}, "object": {},
            "kind": {"group": "", "version": "v1", "kind": kind.kind},
        });
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
    }

    #[test]
    fn a_warning_of_several_lines_reaches_the_client_on_one() {
        let kind = KindInfo::of::<ConfigMap>();
        let body = body(&kind);
        let request = Request::parse(body.as_bytes()).expect("a review");
        let warnings = ["one line", "two\r\n  lines\tand a tab\n"].map(str::to_owned).into();
        let notes = Notes { warnings, ..Notes::default() };
        let response = response(&request, &kind, &Verdict::Allowed(Patch::default()), notes);
        let response: Value = serde_json::from_slice(&response).expect("JSON");
        assert_eq!(response["response"]["warnings"], json!(["one line", "two lines and a tab"]));
    }

    #[test]
    fn the_name_of_an_object_that_is_deleted_with_a_collection_is_that_of_the_object() {
        let request = json!({
            "uid": "1", "operation": "DELETE", "name": "", "namespace": "shops", "userInfo": {}, "object": null,
            "oldObject": {"metadata": {"name": "one", "namespace": "shops"}, "data": {"name": "other"}},
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        });
        let body = json!({"apiVersion": VERSION, "kind": KIND, "request": request}).to_string();
        let request = Request::parse(body.as_bytes()).expect("a review");
        let kind = KindInfo::of::<ConfigMap>();
        assert_eq!(request.info(&kind).key, ObjectKey::new(Some("shops"), "one"));
        let denied = Verdict::Denied(Denied::new("it is in use"));
        let response: Value =
            serde_json::from_slice(&response(&request, &kind, &denied, Notes::default())).expect("JSON");
        assert_eq!(response["response"]["status"]["details"]["name"], "one");
    }

    #[test]
    fn the_key_of_an_object_without_a_namespace_has_none_also_that_of_a_namespace() {
        let key = |kind: &KindInfo| Request::parse(body(kind).as_bytes()).expect("a review").info(kind).key;
        assert_eq!(key(&KindInfo::of::<Namespace>()), ObjectKey::cluster_scoped("shop"));
        assert_eq!(key(&KindInfo::of::<ConfigMap>()), ObjectKey::new(Some("shop"), "shop"));
    }
}
