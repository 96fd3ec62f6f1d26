//! Garbage collection and the end of namespaces, for a server beside which no
//! other program does either.
//!
//! A pass lists the metadata of the objects in a namespace and of all cluster-scoped objects.
//! `graph` derives the necessary writes.

mod content;
mod graph;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use self::content::Content;
use self::graph::Step;
use kooper_access::KindExt as _;
use kooper_access::{ConfigError, Controller};
use kooper_runtime::internal::error::refusal::is_denied;
use kooper_runtime::{Action, Result};

/// The time between two passes, if the first one has found nothing to do, and if it has.
const IDLE: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_millis(100);

/// The initial and the maximum delay after an object that cannot be changed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(10));

/// The controller of the namespace of a test and of those that the test creates. `is_of_tests` is whether a
/// namespace is that of some test: the others have controllers of their own.
pub(super) fn controller(own: &str, is_of_tests: fn(&str) -> bool) -> Result<Controller, ConfigError> {
    let own = own.to_owned();
    let is_ours = move |namespace: &Namespace| {
        let name = namespace.name_any();
        name == own || !(name == "default" || name.starts_with("kube-") || is_of_tests(&name))
    };
    let controller = Namespace::controller("garbage").resync(None).while_deleting().when(is_ours);
    // After an error, all objects of the namespace wait for the retry.
    controller.backoff(BACKOFF.0, BACKOFF.1).handler(reconcile).build()
}

async fn reconcile(namespace: Arc<Namespace>, client: Client) -> Result<Action> {
    let name = namespace.name_any();
    let content = Content::of(&client, &name).await?;
    let steps = graph::steps(&content.nodes, |owner, node| content.would_list(owner, node));
    // An object that cannot be changed does not keep the others.
    let mut done = Ok(());
    for step in &steps {
        done = done.and(take(step, &content).await);
    }
    if namespace.metadata.deletion_timestamp.is_some() {
        // Dependents are deleted because of the namespace, but owners may still wait for them.
        return end(&namespace, &client, &content, done).await;
    }
    done?;
    Ok(Action::requeue_after(if steps.is_empty() { IDLE } else { BUSY }))
}

/// Empties a namespace that is being deleted, and releases it when it is empty. `done` is the result of the steps.
async fn end(namespace: &Namespace, client: &Client, content: &Content, mut done: Result<()>) -> Result<Action> {
    let mut left = false;
    for node in content.nodes.iter().filter(|node| node.namespace.is_some()) {
        left = true;
        if !node.deleting {
            let deleted = content.api(node).delete(&node.name, &DeleteParams::background()).await.map(drop);
            done = done.and(expected(deleted));
        }
    }
    done?;
    if left {
        return Ok(Action::requeue_after(BUSY));
    }
    let mut released = serde_json::to_value(namespace)?;
    released["apiVersion"] = "v1".into();
    released["kind"] = "Namespace".into();
    // Clients remove their own.
    let finalizers = namespace.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten());
    let others: Vec<_> = finalizers.filter(|finalizer| *finalizer != "kubernetes").collect();
    released["spec"]["finalizers"] = json!(others);
    let request = http::Request::put(format!("/api/v1/namespaces/{}/finalize", namespace.name_any()))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_vec(&released)?)?;
    expected(client.request::<Value>(request).await.map(drop))?;
    Ok(Action::requeue_after(BUSY))
}

/// Does one step. If the object has changed since it was listed, the next pass decides again.
async fn take(step: &Step<'_>, content: &Content) -> Result<()> {
    match step {
        Step::Delete { node, policy, awaited } => {
            // The kinds are listed one after the other: an owner may be younger than the list of its kind.
            for owner in &node.owners {
                if !awaited && content.exists(owner, node.namespace.as_deref()).await? {
                    return Ok(());
                }
            }
            let params = DeleteParams {
                propagation_policy: Some(policy.clone()),
                preconditions: Some(Preconditions {
                    uid: Some(node.uid.clone()),
                    resource_version: Some(node.version.clone()),
                }),
                ..DeleteParams::default()
            };
            expected(content.api(node).delete(&node.name, &params).await.map(drop))
        }
        Step::Unblock { node } => {
            let mut owners = node.owners.clone();
            for owner in &mut owners {
                owner.block_owner_deletion = owner.block_owner_deletion.map(|_| false);
            }
            change(node, content, &json!({"ownerReferences": owners})).await
        }
        Step::Disown { node, owners } => {
            let rest: Vec<_> = node.owners.iter().filter(|owner| !owners.contains(&owner.uid.as_str())).collect();
            change(node, content, &json!({"ownerReferences": rest})).await
        }
        Step::Release { node, finalizer } => {
            let rest: Vec<_> = node.finalizers.iter().filter(|one| *one != finalizer).collect();
            change(node, content, &json!({"finalizers": rest})).await
        }
    }
}

/// Changes the metadata of an object, if it is as it was listed.
async fn change(node: &graph::Node, content: &Content, metadata: &Value) -> Result<()> {
    let mut metadata = metadata.clone();
    metadata["uid"] = node.uid.as_str().into();
    metadata["resourceVersion"] = node.version.as_str().into();
    let patch = Patch::Merge(json!({"metadata": metadata}));
    expected(content.api(node).patch_metadata(&node.name, &PatchParams::default(), &patch).await.map(drop))
}

/// Another write came first, or the object does not exist any more: the next pass sees that. A webhook rejects the write of
/// an object with any code.
fn expected(written: kube::Result<()>) -> Result<()> {
    match written {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) && !is_denied(&status) => Ok(()),
        written => Ok(written?),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kooper_apiserver::ApiServer;
    use kooper_apiserver::faults::{Reply, Verb};
    use kube::api::{Api, PostParams};
    use kube::core::Status;

    use super::*;

    const DENIED: &str = "admission webhook \"a.io\" denied the request: frozen";

    #[test]
    fn a_webhook_that_keeps_an_object_is_not_taken_for_another_write() {
        for code in [404, 409, 422] {
            for (message, is_another) in [(DENIED, false), ("it has changed", true)] {
                let status = Status { code, message: message.to_owned(), ..Status::default() };
                let written = expected(Err(kube::Error::Api(Box::new(status))));
                assert_eq!(written.is_ok(), is_another, "{code} {message}");
            }
        }
    }

    #[tokio::test]
    async fn an_object_that_a_webhook_keeps_is_an_error_and_does_not_keep_the_others() {
        let server = ApiServer::start().await.unwrap();
        let (client, denied) = (server.client(), Reply::new(409).message(DENIED));
        server.faults().on(Verb::Delete.of("configmaps").named("a")).reply(denied);
        let maps = Api::<ConfigMap>::default_namespaced(client.clone());
        for name in ["a", "b"] {
            // The server would collect it itself, if it served this version.
            let owner = json!({"apiVersion": "v0", "kind": "ConfigMap", "name": "owner", "uid": "1"});
            let orphan = json!({"metadata": {"name": name, "ownerReferences": [owner]}});
            maps.create(&PostParams::default(), &serde_json::from_value(orphan).unwrap()).await.unwrap();
        }
        let namespace = Api::<Namespace>::all(client.clone()).get("default").await.unwrap();
        let error = reconcile(Arc::new(namespace), client).await.unwrap_err().to_string();
        assert!(error.contains("frozen"), "{error}");
        assert!(maps.get_opt("a").await.unwrap().is_some());
        assert!(maps.get_opt("b").await.unwrap().is_none());
    }
}
