//! The responses of a cluster.

use std::sync::Arc;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;

use super::{Inner, Reply, Sent};
use kooper_access::internal::three_way_merge::merge;
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
            ("create", None, None) => self.written(sent, created(sent), &Value::Null),
            ("create", Some(_), _) => Reply::status(&Status::success()),
            // The fields that the object has besides those that were sent may be of others, so it counts as unchanged.
            ("apply", None, stored) => self.written(sent, applied(sent, &stored.unwrap_or_default()), &Value::Null),
            ("get" | "delete" | "apply" | "patch" | "update", _, None) => {
                Reply::rejected(404, "NotFound", &format!("{resource} {:?} not found", sent.key.name()))
            }
            ("get", _, Some(stored)) => Reply::object(&stored),
            ("delete", None, Some(_)) => Reply::status(&Status::success()),
            ("apply" | "update" | "patch", Some("status"), Some(mut stored)) => {
                match sent.body.get("status") {
                    Some(status) if sent.merges => merge(&mut stored["status"], status, false),
                    Some(status) if sent.verb != "patch" => stored["status"] = status.clone(),
                    _ => {}
                }
                self.written(sent, stored, &Value::Null)
            }
            ("patch", None, Some(stored)) => {
                let mut patched = stored.clone();
                if sent.merges {
                    merge(&mut patched, &sent.body, false);
                }
                keep_status(&mut patched, &stored);
                self.written(sent, patched, &stored)
            }
            ("update", None, Some(stored)) => self.written(sent, applied(sent, &stored), &stored),
            _ => {
                let message = format!("this cluster has no response to `{sent}`: set one with `FakeCluster::reply`");
                Reply::rejected(501, "NotImplemented", &message)
            }
        }
    }

    /// The response to a write: the object with a new version. `before` is the object that it changes, or `null`.
    fn written(&self, sent: &Sent, mut object: Value, before: &Value) -> Reply {
        self.complete(&mut object, (&sent.group, &sent.resource), before);
        let metadata = &mut object["metadata"];
        if !metadata["name"].is_string()
            && let Some(prefix) = metadata["generateName"].as_str()
        {
            metadata["name"] = format!("{prefix}{:05}", self.next()).into();
        }
        Reply::object(&object)
    }
}

/// The fields of metadata that only a server writes.
const OF_SERVER: [&str; 4] = ["uid", "creationTimestamp", "generation", "deletionTimestamp"];

/// The object that was sent, without what only a server writes.
fn created(sent: &Sent) -> Value {
    let mut object = sent.body.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| !OF_SERVER.contains(&field.as_str()));
        if let Some(namespace) = sent.key.namespace() {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    }
    keep_status(&mut object, &Value::Null);
    object
}

/// The object that was sent, with what only a server writes.
fn applied(sent: &Sent, stored: &Value) -> Value {
    let mut object = created(sent);
    for field in OF_SERVER {
        if let Some(value) = stored["metadata"].get(field) {
            object["metadata"][field] = value.clone();
        }
    }
    keep_status(&mut object, stored);
    object
}

/// Gives an object the status of the stored one: only the subresource writes it.
fn keep_status(object: &mut Value, stored: &Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        fields.extend(stored.get("status").map(|status| ("status".to_owned(), status.clone())));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, PodSpec};
    use kube::api::{Api, Patch, PatchParams, PostParams};
    use serde_json::{Value, json};

    use crate::FakeCluster;
    use kooper::prelude::*;

    fn pod(name: &str, phase: &str) -> Result<Pod> {
        Ok(serde_json::from_value(json!({"metadata": {"name": name}, "status": {"phase": phase}}))?)
    }

    #[tokio::test]
    async fn only_a_write_of_the_status_changes_the_status() -> Result<()> {
        let cluster = FakeCluster::new();
        let stored = cluster.put(&pod("web", "Pending")?)?;
        let pods = Api::<Pod>::default_namespaced(cluster.client());
        let running = json!({"metadata": {"labels": {"tier": "web"}}, "status": {"phase": "Running"}});
        let patched = pods.patch("web", &PatchParams::default(), &Patch::Merge(&running)).await?;
        assert_eq!((&patched.status, patched.labels()["tier"].as_str()), (&stored.status, "web"));
        let replaced = pods.replace("web", &PostParams::default(), &pod("web", "Running")?).await?;
        assert_eq!((&replaced.status, replaced.uid()), (&stored.status, stored.uid()));
        let created = pods.create(&PostParams::default(), &pod("other", "Running")?).await?;
        assert_eq!(created.status, None);
        let patched = pods.patch_status("web", &PatchParams::default(), &Patch::Merge(&running)).await?;
        assert_eq!(patched.status, pod("web", "Running")?.status);
        Ok(())
    }

    #[tokio::test]
    async fn the_response_to_a_write_has_the_metadata_that_the_write_results_in() -> Result<()> {
        let cluster = FakeCluster::new();
        let stored = cluster.put(&pod("web", "Pending")?)?;
        let pods = Api::<Pod>::default_namespaced(cluster.client());
        let generation = |pod: &Pod| pod.metadata.generation;
        let patch = async |body: Value| pods.patch("web", &PatchParams::default(), &Patch::Merge(&body)).await;
        assert_eq!(generation(&patch(json!({"metadata": {"labels": {"tier": "web"}}})).await?), Some(1));
        assert_eq!(generation(&patch(json!({"spec": {"nodeName": "one"}})).await?), Some(2), "its spec has changed");
        let mut changed = Pod::clone(&stored);
        assert_eq!(generation(&pods.replace("web", &PostParams::default(), &changed).await?), Some(1));
        changed.spec = Some(PodSpec { node_name: Some("one".to_owned()), ..PodSpec::default() });
        assert_eq!(generation(&pods.replace("web", &PostParams::default(), &changed).await?), Some(2));

        changed.metadata.name = Some("copy".to_owned());
        changed.metadata.generation = Some(7);
        let copy = pods.create(&PostParams::default(), &changed).await?;
        assert_eq!((generation(&copy), copy.uid() == stored.uid()), (Some(1), false), "a copy is another object");
        Ok(())
    }
}
