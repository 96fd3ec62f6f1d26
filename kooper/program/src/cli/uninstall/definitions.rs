//! The CRDs of the program.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use kube::core::{ApiResource, DynamicObject};
use kube::{Client, ResourceExt};

use crate::rbac::Place;
use kooper_access::Controller;
use kooper_access::internal::crd::{PROGRAM, merged};
use kooper_runtime::internal::error::refusal::{is_conflict, is_not_found, unless_missing};

/// The CRDs of the controllers' kinds, as far as the cluster has them.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// The names of those that are removed, with their uids.
    pub(super) ours: BTreeMap<String, Option<String>>,
    /// Those that are kept, with the reason.
    pub(super) kept: Vec<(String, String)>,
}

impl Definitions {
    pub(super) async fn find(
        client: &Client,
        controllers: &[Controller],
        place: &Place,
        keep: bool,
    ) -> kube::Result<Self> {
        let mut definitions = Self::default();
        // The role of a hook has no permission to read them.
        if keep {
            return Ok(definitions);
        }
        let mut programs: Vec<_> = controllers.iter().filter_map(Controller::previous_program).collect();
        programs.push(&place.installation.program);
        for name in merged(controllers.iter().filter_map(Controller::crd).map(|(crd, _)| crd)).into_keys() {
            let Some(crd) = get(client, &name).await? else { continue };
            match owner(&crd) {
                Some(owner) if programs.contains(&&*owner) => {
                    definitions.ours.insert(name, crd.uid());
                }
                Some(owner) => definitions.kept.push((name, format!("it belongs to the program `{owner}`"))),
                None => {
                    let reason =
                        format!("it was not installed by this program: `kubectl delete crd {name}` removes it");
                    definitions.kept.push((name, reason));
                }
            }
        }
        Ok(definitions)
    }
}

/// The program that a CRD belongs to.
fn owner(crd: &CustomResourceDefinition) -> Option<String> {
    crd.annotations().get(PROGRAM).cloned()
}

pub(super) async fn get(client: &Client, name: &str) -> kube::Result<Option<CustomResourceDefinition>> {
    unless_missing(Api::<CustomResourceDefinition>::all(client.clone()).get(name).await)
}

/// Deletes the CRD with this uid, unless it is being deleted. Returns the CRD of this name as it was before, which may be
/// another one.
pub(super) async fn delete(
    client: &Client,
    name: &str,
    uid: Option<&str>,
) -> kube::Result<Option<CustomResourceDefinition>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let Some(crd) = get(client, name).await? else { return Ok(None) };
    if crd.uid().as_deref() == uid && crd.metadata.deletion_timestamp.is_none() {
        let same = Preconditions { uid: uid.map(ToOwned::to_owned), resource_version: None };
        match api.delete(name, &DeleteParams::default().preconditions(same)).await {
            // It was removed, or replaced, meanwhile: the next call finds out.
            Err(kube::Error::Api(status)) if is_not_found(&status) || is_conflict(&status) => {}
            done => drop(done?),
        }
    }
    Ok(Some(crd))
}

/// Returns the number of objects of a CRD, which is zero if the CRD does not exist or is
/// not served.
pub(super) async fn objects(client: &Client, name: &str) -> kube::Result<i64> {
    let Some(crd) = get(client, name).await? else { return Ok(0) };
    let Some(version) = crd.spec.versions.iter().find(|version| version.served) else { return Ok(0) };
    let resource = ApiResource {
        group: crd.spec.group.clone(),
        version: version.name.clone(),
        api_version: format!("{}/{}", crd.spec.group, version.name),
        kind: crd.spec.names.kind.clone(),
        plural: crd.spec.names.plural.clone(),
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(0),
        page => page.map(|page| {
            let first = i64::try_from(page.items.len()).unwrap_or_default();
            first + page.metadata.remaining_item_count.unwrap_or_default()
        }),
    }
}

/// Why a CRD is still being deleted, as the API server reports it.
pub(super) fn terminating(crd: &CustomResourceDefinition) -> String {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let message = conditions.filter(|one| one.type_ == "Terminating").find_map(|one| one.message.clone());
    let message = message.map_or_else(String::new, |message| format!(" ({message})"));
    format!(
        "{message}: its objects may have finalizers of other programs, see `kubectl get {} -A -o yaml`",
        crd.name_any()
    )
}
