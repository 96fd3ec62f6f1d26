//! The Deployments and pods of installations.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::manifests::{INSTALLATION, workload_name};
use crate::rbac::Place;

/// The Deployment of the installation, if it has replicas.
pub(super) async fn running(client: &Client, place: &Place) -> kube::Result<Option<String>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), &place.namespace);
    let found = api.get_opt(&workload_name(place)).await?;
    let is_ours = |one: &Deployment| one.labels().get(INSTALLATION) == Some(&place.account());
    let runs = |one: &Deployment| one.spec.as_ref().and_then(|spec| spec.replicas) != Some(0);
    Ok(found.filter(|one| is_ours(one) && runs(one)).map(|one| one.name_any()))
}

/// Scales a Deployment to zero.
pub(super) async fn stop(client: &Client, place: &Place, deployment: &str) -> kube::Result<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), &place.namespace);
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    match api.patch_scale(deployment, &PatchParams::default(), &none).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done.map(drop),
    }
}

/// The pods of the installation that have not ended.
pub(super) async fn pods(client: &Client, place: &Place) -> kube::Result<Vec<String>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &place.namespace);
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let found = api.list(&of(place)).await?;
    let runs = |pod: &&Pod| !["Succeeded", "Failed"].contains(&&*phase(pod));
    Ok(found.items.iter().filter(runs).map(ResourceExt::name_any).collect())
}

/// Another installation of the program, as `namespace/name`. It is only found with
/// the permission to list Deployments in all namespaces.
pub(super) async fn other(client: &Client, place: &Place) -> kube::Result<Option<String>> {
    let api: Api<Deployment> = Api::all(client.clone());
    let name = format!("app.kubernetes.io/name={},{INSTALLATION}", place.installation.program);
    let found = match api.list_metadata(&ListParams::default().labels(&name)).await {
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(None),
        found => found?,
    };
    let ours = (Some(place.namespace.clone()), Some(place.account()));
    let mut all = found.items.into_iter().map(|one| (one.namespace(), one.labels().get(INSTALLATION).cloned()));
    let other = all.find(|one| *one != ours);
    Ok(other.map(|(namespace, account)| format!("{}/{}", namespace.unwrap_or_default(), account.unwrap_or_default())))
}

fn of(place: &Place) -> ListParams {
    ListParams::default().labels(&format!("{INSTALLATION}={}", place.account()))
}
