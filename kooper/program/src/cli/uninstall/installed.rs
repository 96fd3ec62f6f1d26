//! The Deployments and pods of installations, and the webhooks of their earlier versions.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kooper_access::Controller;
use kooper_runtime::internal::error::refusal::{is_missing, unless_missing};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::super::objects::{unless_forbidden, untyped};
use super::leases;
use crate::cli::lease::{LeaseOwnerMark, cautious_now, holder};
use crate::manifests::{INSTALLATION, workload_name};
use crate::rbac::Place;

/// The Deployment of the installation, and whether it has replicas.
pub(super) async fn deployment(client: &Client, place: &Place) -> kube::Result<Option<(String, bool)>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &place.namespace, &untyped::<Deployment>());
    let found = unless_missing(api.get(&workload_name(place)).await)?;
    let is_ours = |one: &DynamicObject| one.labels().get(INSTALLATION) == Some(&place.account());
    let runs = |one: &DynamicObject| one.data["spec"]["replicas"] != 0;
    Ok(found.filter(is_ours).map(|one| (one.name_any(), runs(&one))))
}

/// Deletes the configurations of the webhooks of an earlier version, if they can be read. `say` prints each step.
pub(super) async fn unregister(
    client: &Client,
    place: &Place,
    dry_run: bool,
    say: impl Fn(&str, String),
) -> kube::Result<()> {
    let instance = place.installation.instance.iter().map(|instance| format!(".{instance}"));
    // As in `kooper_webhooks`, which a program without webhooks need not contain.
    let name = format!("{}--webhooks.{}{}", place.installation.program, place.namespace, instance.collect::<String>());
    for resource in [untyped::<ValidatingWebhookConfiguration>(), untyped::<MutatingWebhookConfiguration>()] {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        if unless_forbidden(unless_missing(api.get_metadata(&name).await))?.flatten().is_none() {
            continue;
        }
        say("delete", format!("{} {name}", resource.kind));
        if !dry_run {
            unless_missing(api.delete(&name, &DeleteParams::default()).await)?;
        }
    }
    Ok(())
}

/// Scales a Deployment to zero.
pub(super) async fn stop(client: &Client, place: &Place, deployment: &str) -> kube::Result<()> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &place.namespace, &untyped::<Deployment>());
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    match api.patch_subresource("scale", deployment, &PatchParams::default(), &none).await {
        Err(kube::Error::Api(status)) if is_missing(&status) => Ok(()),
        done => done.map(drop),
    }
}

/// The pods of the installation that have not ended.
pub(super) async fn pods(client: &Client, place: &Place) -> kube::Result<Vec<String>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &place.namespace, &untyped::<Pod>());
    let found = api.list(&of(place)).await?;
    let has_ended = |pod: &DynamicObject| matches!(pod.data["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    Ok(found.items.iter().filter(|pod| !has_ended(pod)).map(ResourceExt::name_any).collect())
}

/// Another installation of the program, or of one of its previous names, as `namespace/name`: one with a Deployment, or
/// with a process that holds a Lease. They are only found with the permissions to list these in all namespaces.
pub(super) async fn other(client: &Client, controllers: &[Controller], place: &Place) -> kube::Result<Option<String>> {
    let mut programs: BTreeSet<&str> = controllers.iter().filter_map(Controller::previous_program).collect();
    programs.insert(&place.installation.program);
    let names: Vec<&str> = programs.iter().copied().collect();
    let labels = format!("app.kubernetes.io/name in ({}),{INSTALLATION}", names.join(","));
    let deployments: Api<DynamicObject> = Api::all_with(client.clone(), &untyped::<Deployment>());
    let found = unless_forbidden(deployments.list_metadata(&ListParams::default().labels(&labels)).await)?;
    let ours = (Some(place.namespace.clone()), Some(place.account()));
    let mut all = found.into_iter().flatten().map(|one| (one.namespace(), one.labels().get(INSTALLATION).cloned()));
    if let Some((namespace, account)) = all.find(|one| *one != ours) {
        return Ok(Some(format!("{}/{}", namespace.unwrap_or_default(), account.unwrap_or_default())));
    }
    let (own, now) = (leases::of(controllers, place), cautious_now());
    let is_other = |lease: &Lease| {
        let (Some(_), Some(mark)) = (holder(lease, now), LeaseOwnerMark::of(lease)) else { return false };
        let (namespace, name) = (lease.namespace().unwrap_or_default(), lease.name_any());
        let is_own = mark.installation == place.account() && namespace == place.lease_namespace;
        programs.contains(mark.program()) && !is_own && !own.iter().any(|lease| lease.is(&namespace, &name))
    };
    let leases: Api<Lease> = Api::all(client.clone());
    let found = unless_forbidden(leases.list(&ListParams::default()).await)?;
    let held = found.iter().flatten().find(|lease| is_other(lease));
    Ok(held.map(|lease| format!("with the Lease {}/{}", lease.namespace().unwrap_or_default(), lease.name_any())))
}

fn of(place: &Place) -> ListParams {
    ListParams::default().labels(&format!("{INSTALLATION}={}", place.account()))
}
