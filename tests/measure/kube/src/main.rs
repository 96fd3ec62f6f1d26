//! A Deployment, a status and a finalizer for each Site, on kube's Controller.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher;
use kube::{Client, CustomResource, CustomResourceExt, KubeSchema, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};

#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
#[kube(status = "SiteStatus")]
struct SiteSpec {
    image: String,
    #[schemars(range(min = 0, max = 100))]
    replicas: i32,
}

#[derive(KubeSchema, Clone, Debug, Serialize, Deserialize)]
struct SiteStatus {
    available: Option<i32>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the finalizer: {0}")]
    Finalizer(#[source] Box<kube::runtime::finalizer::Error<Error>>),
}

async fn reconcile(object: Arc<Site>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let sites: Api<Site> = Api::namespaced(Client::clone(&client), &namespace);
    let result = finalizer(&sites, "example.com/site", object, |event| async {
        match event {
            Event::Apply(object) => apply(&object, Client::clone(&client), &namespace).await,
            Event::Cleanup(_) => Ok(Action::await_change()),
        }
    });
    result.await.map_err(|error| Error::Finalizer(Box::new(error)))
}

async fn apply(object: &Site, client: Client, namespace: &str) -> Result<Action, Error> {
    let (name, spec) = (object.name_any(), &object.spec);
    let labels = json!({"app": "site", "instance": name});
    let pod = json!({"containers": [{"name": "main", "image": spec.image}]});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let child: Deployment = from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "ownerReferences": [object.controller_owner_ref(&())]},
        "spec": {"replicas": spec.replicas, "selector": {"matchLabels": labels}, "template": template},
    }))?;
    let parameters = PatchParams::apply("site").force();
    let children: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let applied = children.patch(&name, &parameters, &Patch::Apply(&child)).await?;
    let available = applied.status.unwrap_or_default().available_replicas;
    let status = json!({
        "apiVersion": Site::api_version(&()), "kind": Site::kind(&()),
        "status": SiteStatus { available },
    });
    let sites: Api<Site> = Api::namespaced(client, namespace);
    sites.patch_status(&name, &parameters, &Patch::Apply(status)).await?;
    Ok(Action::requeue(Duration::from_secs(180)))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    if std::env::args().any(|argument| argument == "crd") {
        println!("{}", serde_json::to_string_pretty(&Site::crd())?);
        return Ok(());
    }
    let client = Client::try_default().await?;
    let deployments: Api<Deployment> = Api::all(client.clone());
    Controller::new(Api::<Site>::all(client.clone()), watcher::Config::default())
        .owns(deployments, watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), Arc::new(client))
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::warn!(%error, "failed");
            }
        })
        .await;
    Ok(())
}
