//! The responses of a cluster.

use std::sync::Arc;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;

use super::{Inner, Reply, Sent};
use kooper_runtime::BoxError;

/// A client whose requests are answered here.
pub(super) fn client(inner: &Arc<Inner>) -> Client {
    let inner = inner.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move { inner.serve(request).await }
    });
    Client::new(service, "default")
}

impl Inner {
    async fn serve(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let sent = Sent::read(&parts, &body.collect().await?.to_bytes());
        let replies = self.replies.lock().clone();
        let reply = replies.iter().rev().find_map(|reply| reply(&sent));
        let reply = reply.unwrap_or_else(|| self.answer(&sent)).about(&sent);
        self.sent.lock().push(sent);
        let response = Response::builder().status(reply.code);
        Ok(response.body(Body::from(reply.body.to_string().into_bytes()))?)
    }

    fn answer(&self, sent: &Sent) -> Reply {
        // The key of an object with a generated name has the prefix alone, which another object may have as its name.
        let is_generated =
            sent.verb == "create" && sent.subresource.is_none() && sent.body["metadata"]["name"].is_null();
        let stored = self.store(&sent.group, &sent.resource).get(&sent.key).filter(|_| !is_generated);
        let stored = stored.and_then(|object| serde_json::from_slice::<Value>(&object.json()).ok());
        let resource = sent.qualified();
        match (sent.verb, sent.subresource.as_deref(), stored) {
            ("create", None, Some(_)) => {
                let message = format!("{resource} {:?} already exists", sent.key.name());
                Reply::rejected(409, "AlreadyExists", &message)
            }
            ("create", None, None) => self.written(sent, created(sent)),
            ("create", Some(_), _) => Reply::status(&Status::success()),
            ("apply", None, stored) => self.written(sent, applied(sent, &stored.unwrap_or_default())),
            ("get" | "delete" | "apply" | "patch" | "update", _, None) => {
                Reply::rejected(404, "NotFound", &format!("{resource} {:?} not found", sent.key.name()))
            }
            ("get", _, Some(stored)) => Reply::object(&stored),
            ("delete", None, Some(_)) => Reply::status(&Status::success()),
            ("apply" | "update" | "patch", Some("status"), Some(mut stored)) => {
                match sent.body.get("status") {
                    Some(status) if sent.merges => merge(&mut stored["status"], status),
                    Some(status) if sent.verb != "patch" => stored["status"] = status.clone(),
                    _ => {}
                }
                self.written(sent, stored)
            }
            ("patch", None, Some(mut stored)) => {
                if sent.merges {
                    merge(&mut stored, &sent.body);
                }
                self.written(sent, stored)
            }
            ("update", None, Some(_)) => self.written(sent, sent.body.clone()),
            _ => {
                let message = format!("this cluster has no response to `{sent}`: set one with `FakeCluster::reply`");
                Reply::rejected(501, "NotImplemented", &message)
            }
        }
    }

    /// The response to a write: the object with a new version.
    fn written(&self, sent: &Sent, mut object: Value) -> Reply {
        self.complete(&mut object, (&sent.group, &sent.resource), &Value::Null);
        let metadata = &mut object["metadata"];
        if !metadata["name"].is_string()
            && let Some(prefix) = metadata["generateName"].as_str()
        {
            metadata["name"] = format!("{prefix}{:05}", self.next()).into();
        }
        Reply::object(&object)
    }
}

fn created(sent: &Sent) -> Value {
    let mut object = sent.body.clone();
    if let (Some(namespace), Some(metadata)) = (sent.key.namespace(), object["metadata"].as_object_mut()) {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    object
}

/// The object that was sent, with the fields that only a server writes.
fn applied(sent: &Sent, stored: &Value) -> Value {
    let mut object = created(sent);
    for field in ["uid", "creationTimestamp", "generation", "deletionTimestamp"] {
        if let Some(value) = stored["metadata"].get(field) {
            object["metadata"][field] = value.clone();
        }
    }
    if let Some(status) = stored.get("status") {
        object["status"] = status.clone();
    }
    object
}

/// Changes an object by a JSON merge patch (RFC 7396).
fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(serde_json::Map::new());
    }
    for (field, value) in patch {
        match value {
            Value::Null => {
                if let Some(fields) = object.as_object_mut() {
                    fields.remove(field);
                }
            }
            value => merge(&mut object[field], value),
        }
    }
}
