//! Responses: those of the API server with the results of the dry run in them, and
//! those that only the dry run can give.

use std::collections::HashMap;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use http::{Response, StatusCode, response};
use http_body_util::BodyExt;
use kube::core::Status;
use serde_json::{Value, json};
use tower::BoxError;

use super::DryRun;
use super::mirrors::metadata_of;
use super::request::{Form, Id, Target, parameter, selects};
use kooper_runtime::internal::client::{ResponseBody, boxed};
use kooper_runtime::internal::error::refusal::is_denied;

/// A response whose body was read.
#[derive(Debug)]
pub(super) struct Answer {
    parts: response::Parts,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) async fn read(response: Response<ResponseBody>) -> Result<Self, BoxError> {
        let (parts, body) = response.into_parts();
        Ok(Self { parts, body: body.collect().await?.to_bytes() })
    }

    /// A response of the dry run itself.
    pub(super) fn own(code: StatusCode, body: &Value) -> Self {
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.status = code;
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { parts, body: body.to_string().into() }
    }

    /// An error about an object, in the form of the API server.
    pub(super) fn refusal(code: StatusCode, reason: &str, id: &Id, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "details": {"name": id.name, "group": id.group, "kind": id.plural},
            "code": code.as_u16(),
        });
        Self::own(code, &status)
    }

    /// The object does not exist.
    pub(super) fn not_found(target: &Target) -> Self {
        let id = target.id(target.name.as_deref().unwrap_or_default());
        let message = format!("{} \"{}\" not found", id.resource(), id.name);
        Self::refusal(StatusCode::NOT_FOUND, "NotFound", &id, &message)
    }

    /// The object is not the one that the request is for.
    pub(super) fn conflict(id: &Id, problem: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{}\": {problem}", id.resource(), id.name);
        Self::refusal(StatusCode::CONFLICT, "Conflict", id, &message)
    }

    pub(super) fn success() -> Self {
        Self::own(StatusCode::OK, &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))
    }

    pub(super) fn is_success(&self) -> bool {
        self.parts.status.is_success()
    }

    /// Returns `true` if an admission webhook or policy has rejected the request, which it does with any code.
    pub(super) fn is_denied(&self) -> bool {
        serde_json::from_slice::<Status>(&self.body).is_ok_and(|status| is_denied(&status))
    }

    pub(super) fn status(&self) -> StatusCode {
        self.parts.status
    }

    /// The body, if it is JSON.
    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The same response with another object.
    pub(super) fn with(mut self, object: &Value) -> Self {
        self.body = object.to_string().into();
        self.parts.headers.remove(CONTENT_LENGTH);
        self.parts.headers.remove(TRANSFER_ENCODING);
        self.parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self
    }

    pub(super) fn into_response(self) -> Response<ResponseBody> {
        Response::from_parts(self.parts, boxed(self.body.into()))
    }
}

/// An object in the form that the client takes.
pub(super) fn formed(object: &Value, form: Form) -> Value {
    if form == Form::Metadata { metadata_of(object) } else { object.clone() }
}

impl DryRun {
    /// The object as it is now; `None` if the dry run has not changed it.
    pub(super) fn read_one(&self, target: &Target, form: Form, answer: Answer) -> Answer {
        let Some(name) = &target.name else { return answer };
        let Some(entry) = self.entry(&target.id(name)).filter(|entry| entry.version() == target.version) else {
            return answer;
        };
        match entry.now() {
            Some(now) if answer.is_success() => answer.with(&formed(now, form)),
            Some(now) => Answer::own(StatusCode::OK, &formed(now, form)),
            None => Answer::not_found(target),
        }
    }

    /// Returns `true` if the dry run has changed objects of a list.
    pub(super) fn concerns(&self, target: &Target) -> bool {
        let in_list = |namespace: &Option<String>| target.namespace.is_none() || target.namespace == *namespace;
        self.entries
            .lock()
            .iter()
            .any(|(id, _)| (&id.group, &id.plural) == (&target.group, &target.plural) && in_list(&id.namespace))
    }

    /// The objects of a kind that the dry run has written, in a namespace or in all of them.
    pub(super) fn written(&self, target: &Target) -> Vec<Id> {
        let entries = self.entries.lock();
        let of_kind = entries.iter().filter(|(id, entry)| {
            (&id.group, &id.plural, entry.version()) == (&target.group, &target.plural, &*target.version)
                && (target.namespace.is_none() || target.namespace == id.namespace)
        });
        of_kind.map(|(id, _)| id.clone()).collect()
    }

    /// A list with the objects as they are now.
    pub(super) fn read_list(&self, target: &Target, uri: &http::Uri, form: Form, answer: Answer) -> Answer {
        let Some(mut list) = answer.json().filter(|_| answer.is_success()) else { return answer };
        let is_last = list["metadata"]["continue"].as_str().unwrap_or_default().is_empty();
        let (labels, fields) = (parameter(uri, "labelSelector"), parameter(uri, "fieldSelector"));
        let is_selected = |object: &Value| selects(labels.as_deref(), fields.as_deref(), object);
        let entries: Vec<_> =
            self.written(target).into_iter().filter_map(|id| Some((id.clone(), self.entry(&id)?))).collect();
        if !list["items"].is_array() {
            list["items"] = json!([]);
        }
        let Some(items) = list["items"].as_array_mut() else { return answer };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let key = |item: &Value| (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
        let places: HashMap<_, _> = items.iter().enumerate().map(|(at, item)| (key(item), at)).collect();
        for (id, entry) in entries {
            let at = places.get(&(id.namespace, Some(id.name))).copied();
            let now = entry.now().filter(|now| is_selected(now)).map(|now| formed(now, form));
            // Objects that the cluster lists are replaced on their own page; others are added to
            // the last page.
            let listed = entry.base().is_some_and(&is_selected);
            match (at, now) {
                (Some(at), Some(now)) => items[at] = now,
                (Some(at), None) => items[at] = Value::Null,
                (None, Some(now)) if is_last && !listed => items.push(now),
                (None, _) => {}
            }
        }
        items.retain(|item| !item.is_null());
        answer.with(&list)
    }
}
