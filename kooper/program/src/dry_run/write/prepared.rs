//! A write before it is sent.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tower::{BoxError, ServiceExt};

use super::super::answer::{Answer, formed};
use super::super::entry::Author;
use super::super::layer::UnsentError;
use super::super::request::{Form, Target, dry, parameter};
use super::MERGE_PATCH;
use kooper_access::internal::three_way_merge::merge;
use kooper_runtime::internal::client::Next;

/// A write that is ready to be sent.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) parts: request::Parts,
    body: Bytes,
    pub(super) json: Value,
    pub(super) target: Target,
    pub(super) form: Form,
    pub(super) change: Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Create,
    Put,
    Apply,
    Merge,
    /// A list of operations.
    Operations,
    Strategic,
    Delete,
    Evict,
    /// Anything else, such as a scale: the result is not kept.
    Other,
}

impl Write {
    pub(super) async fn read(request: Request<Body>, target: Target) -> Result<Self, BoxError> {
        let (mut parts, body) = request.into_parts();
        parts.uri = dry(&parts.uri)?;
        parts.headers.remove(CONTENT_LENGTH);
        let form = Form::accept_json(&mut parts.headers);
        if form == Form::Metadata {
            // The whole object is needed; the client gets its metadata.
            parts.headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
        }
        let mut body = body.collect().await?.to_bytes();
        let json: Option<Value> = if body.is_empty() { Some(Value::Null) } else { serde_json::from_slice(&body).ok() };
        if parts.method == Method::DELETE && !body.is_empty() {
            // The API server ignores the parameters of a deletion with a body.
            let Some(Value::Object(mut options)) = json.clone() else {
                let (method, path) = (parts.method, parts.uri.path().to_owned());
                return Err(UnsentError::Body { method, path }.into());
            };
            options.insert("dryRun".to_owned(), json!(["All"]));
            body = Value::Object(options).to_string().into();
        }
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let change = match (&parts.method, target.subresource.as_deref()) {
            _ if json.is_none() => Change::Other,
            (&Method::POST, None) => Change::Create,
            (&Method::POST, Some("eviction")) => Change::Evict,
            (_, subresource) if subresource.is_some_and(|subresource| subresource != "status") => Change::Other,
            (&Method::PUT, _) => Change::Put,
            (&Method::DELETE, None) => Change::Delete,
            (&Method::PATCH, _) => match content_type.split(';').next().unwrap_or_default() {
                "application/apply-patch+yaml" => Change::Apply,
                MERGE_PATCH => Change::Merge,
                "application/json-patch+json" => Change::Operations,
                "application/strategic-merge-patch+json" => Change::Strategic,
                _ => Change::Other,
            },
            _ => Change::Other,
        };
        Ok(Self { parts, body, json: json.unwrap_or_default(), target, form, change })
    }

    pub(super) async fn send(&self, next: &Next) -> Result<Answer, BoxError> {
        let request = Request::from_parts(self.parts.clone(), Body::from(self.body.clone()));
        Answer::read(next.clone().oneshot(request).await?).await
    }

    /// The same request with another body.
    pub(super) fn with(&self, json: Value) -> Self {
        Self { body: json.to_string().into(), json, ..self.clone() }
    }

    /// The same request as a merge patch.
    pub(super) fn as_merge_patch(&self, patch: Value) -> Self {
        let mut write = self.with(patch);
        write.parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(MERGE_PATCH));
        write
    }

    /// A request that creates the object of the target.
    pub(super) fn as_creation(&self, object: &Value) -> Result<Self, BoxError> {
        let mut write = self.with(unstored(object));
        write.parts.method = Method::POST;
        write.parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let manager = parameter(&self.parts.uri, "fieldManager");
        let manager = manager.map_or(String::new(), |manager| format!("&fieldManager={}", encoded(&manager)));
        write.parts.uri = format!("{}?dryRun=All{manager}", self.target.path_of(None)).parse()?;
        Ok(write)
    }

    /// Returns the fields of an apply, either those of the status or all others.
    pub(super) fn stated(&self) -> Value {
        let is_status = self.target.is_status();
        let own = self.json.as_object().into_iter().flatten().filter(|(field, _)| (*field == "status") == is_status);
        own.map(|(field, value)| (field.clone(), value.clone())).collect()
    }

    /// Returns the same apply with these fields, too.
    pub(super) fn stating(&self, stated: &Value) -> Self {
        let mut json = stated.clone();
        merge(&mut json, &self.json, true);
        self.with(json)
    }

    /// Returns `true` for an apply without fields, which gives up all fields of its field manager.
    pub(super) fn gives_up(&self) -> bool {
        let identity = ["apiVersion", "kind", "metadata"];
        let own = ["name", "namespace", "uid"];
        let has_only = |object: &Value, names: &[&str]| {
            object.as_object().is_none_or(|fields| fields.keys().all(|field| names.contains(&field.as_str())))
        };
        self.change == Change::Apply && has_only(&self.json, &identity) && has_only(&self.json["metadata"], &own)
    }

    /// A request that creates such an object with another name, which the server generates.
    pub(super) fn as_unnamed_creation(&self, name: &str) -> Result<Self, BoxError> {
        let mut object = self.json.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("name");
        }
        object["metadata"]["generateName"] = format!("{name}-").into();
        self.as_creation(&object)
    }

    pub(super) fn author(&self) -> Option<Author> {
        let manager = parameter(&self.parts.uri, "fieldManager").unwrap_or_default();
        (self.change == Change::Apply).then_some((manager, self.target.is_status()))
    }

    /// The object in a successful response with a whole object.
    pub(super) fn object(&self, answer: &Answer) -> Option<Value> {
        let json = answer.json().filter(|_| answer.is_success())?;
        (json["kind"] != "Status" && json["metadata"]["name"].is_string()).then_some(json)
    }

    /// A successful response with an object.
    pub(super) fn answered(&self, code: StatusCode, object: &Value) -> Answer {
        Answer::own(code, &formed(object, self.form))
    }

    /// Why this object is not the one that the request is for.
    pub(super) fn conflict(&self, now: &Value) -> Option<Answer> {
        let (wanted, is) = match self.change {
            Change::Delete => (&self.json["preconditions"], &now["metadata"]),
            _ => (&self.json["metadata"], &now["metadata"]),
        };
        let differs =
            |field: &str| wanted[field].as_str().is_some_and(|wanted| !wanted.is_empty() && is[field] != wanted);
        let field = ["uid", "resourceVersion"].into_iter().find(|field| differs(field))?;
        let id = self.target.id(self.target.name.as_deref().unwrap_or_default());
        Some(Answer::conflict(&id, &format!("the {field} of the request is not that of the object")))
    }
}

/// An object without what only the dry run knows of it.
pub(super) fn unstored(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp", "generation"]
        {
            metadata.remove(field);
        }
        metadata.remove("deletionGracePeriodSeconds");
    }
    object
}

/// A text in a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
