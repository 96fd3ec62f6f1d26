//! Applies objects to the server: definitions and namespaces before the objects that need them.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::{self, Scope};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::cli::document::{Document, DocumentError, LAST_APPLIED, OF_SERVER};
use kooper_access::internal::crd::is_established;
use kooper_runtime::internal::error::chain;
use kooper_runtime::internal::object::segment::escape;

/// The field manager.
const MANAGER: &str = "kooper-dev";

/// Maximum size of all annotations of an object, in bytes.
const MOST_ANNOTATIONS: usize = 256 << 10;

/// Maximum time for a CRD to be established, and the polling interval.
const TIMEOUT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(10));

/// Applies CRDs, then namespaces, then the other objects. The default namespace is that of the client.
pub(super) async fn apply(client: &Client, mut documents: Vec<Document>) -> Result<(), DocumentError> {
    documents.sort_by_key(|document| match document.object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    });
    for document in &documents {
        apply_one(client, document).await?;
    }
    Ok(())
}

/// Applies a single object.
pub(super) async fn apply_one(client: &Client, document: &Document) -> Result<(), DocumentError> {
    let text = |field: &str| document.object[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("kind"));
    let Ok((resource, capabilities)) = discovery::pinned_kind(client, &kind).await else {
        let problem = format!(
            "the API server has no kind `{}` of `{}`: correct `kind` and `apiVersion`, or apply its CRD too",
            kind.kind,
            text("apiVersion")
        );
        return Err(document.error("kind", &problem));
    };
    let namespace = document.object["metadata"]["namespace"].as_str();
    let objects: Api<DynamicObject> = match (capabilities.scope, namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
    };
    let mut params = PatchParams::apply(MANAGER).force();
    params.field_validation = Some(ValidationDirective::Strict);
    let name = document.object["metadata"]["name"].as_str().unwrap_or_default();
    match objects.patch(&escape(name), &params, &Patch::Apply(with_last_applied(document))).await {
        Ok(_) if kind.kind == "CustomResourceDefinition" => {
            established(client, name).await.map_err(|problem| document.error("metadata.name", &problem))
        }
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 && status.message.starts_with("namespaces ") => {
            let namespace = namespace.unwrap_or_default();
            let problem =
                format!("the namespace `{namespace}` does not exist: add a Namespace of this name to the files");
            Err(document.error("metadata.namespace", &problem))
        }
        Err(kube::Error::Api(status)) => {
            let field = status.details.as_ref().and_then(|details| details.causes.first()).map(|cause| &*cause.field);
            Err(document.error(field.unwrap_or_default(), &status.message))
        }
        Err(error) => Err(document.error("", &chain(&error))),
    }
}

/// The object as kubectl applies it: a later `kubectl apply` of its file then removes fields that are no longer there. An
/// object whose annotation would be too large is applied without it, as with `kubectl apply --server-side`.
fn with_last_applied(document: &Document) -> Value {
    let mut object = document.object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        // An export has those of another cluster, which would be conflicts here.
        metadata.retain(|field, _| !OF_SERVER.contains(&field.as_str()));
    }
    if document.source.is_some() {
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(LAST_APPLIED);
        }
        let applied = object.to_string();
        let annotations = &mut object["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        let others = annotations.as_object().into_iter().flatten();
        let others: usize = others.map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
        if others + LAST_APPLIED.len() + applied.len() <= MOST_ANNOTATIONS {
            annotations[LAST_APPLIED] = applied.into();
        }
    }
    object
}

/// Waits until the API server serves a CRD.
async fn established(client: &Client, name: &str) -> Result<(), String> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut missing = String::new();
    let wait = async {
        loop {
            let crd = crds.get(name).await.map_err(|error| chain(&error))?;
            match is_established(&crd) {
                Ok(()) => return Ok(()),
                Err(problem) => missing = problem,
            }
            sleep(TIMEOUT.1).await;
        }
    };
    let ended = timeout(TIMEOUT.0, wait).await;
    ended.unwrap_or_else(|_| Err(format!("the CRD is not established: {missing}")))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kooper_apiserver::ApiServer;
    use kube::ResourceExt;

    use super::*;
    use crate::cli::document::parse;

    #[tokio::test]
    async fn a_namespace_that_does_not_exist_is_reported_with_its_line() {
        let server = ApiServer::start().await.expect("a server");
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: tea\n  namespace: shops\n";
        let documents = |text: &str| parse("shop.yaml", text).expect("it is valid");
        let error = apply(&server.client(), documents(map)).await.expect_err("there is no namespace").to_string();
        assert_eq!(
            error,
            "shop.yaml:5: the namespace `shops` does not exist: add a Namespace of this name to the files"
        );
        let both = format!("{map}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: shops}}\n");
        apply(&server.client(), documents(&both)).await.expect("it is created first");
    }

    #[tokio::test]
    async fn a_name_that_the_server_rejects_is_reported_with_its_line() {
        let server = ApiServer::start().await.expect("a server");
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a tea?\n";
        let documents = parse("tea.yaml", map).expect("it is read");
        let error = apply(&server.client(), documents).await.expect_err("it is no name").to_string();
        assert!(error.starts_with("tea.yaml:4: ") && error.contains("Invalid value: \"a tea?\""), "{error}");
    }

    #[tokio::test]
    async fn an_export_of_another_cluster_is_applied_without_what_its_server_has_set() {
        let server = ApiServer::start().await.expect("a server");
        let export = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: tea\n  namespace: default\n  \
                      uid: 4f2ad2b4-6ae5-4f1f-8f0e-2b7a3a0a5c11\n  resourceVersion: '7'\n  \
                      creationTimestamp: '2026-01-01T00:00:00Z'\n  managedFields: [{manager: kubectl, operation: Update}]\n";
        let documents = parse("tea.yaml", export).expect("it is valid");
        apply(&server.client(), documents).await.expect("it is created");
    }

    #[tokio::test]
    async fn an_object_that_is_too_large_for_the_annotation_of_kubectl_is_applied_without_it() {
        let server = ApiServer::start().await.expect("a server");
        let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
        for (name, size) in [("small", 100_000), ("large", 300_000)] {
            let metadata = format!("{{name: {name}, namespace: default}}");
            let text = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\ndata: {{tea: '{}'}}\n",
                "a".repeat(size)
            );
            let documents = parse("tea.yaml", &text).expect("it is valid");
            apply(&server.client(), documents).await.expect("it is applied");
            let stored = maps.get(name).await.expect("it is there");
            assert_eq!(stored.annotations().contains_key(LAST_APPLIED), name == "small", "{name}");
        }
    }
}
