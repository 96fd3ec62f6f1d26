//! Objects with a finalizer that the handler of a controller has set, and that nothing
//! removes.

use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};

use crate::cli::objects::{NAMED, PAGE, resource};
use kooper_access::Controller;
use kooper_access::internal::Installation;
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::call::finalizer::set_by;

/// Maximum number of pages to read. In a larger collection, an affected object is likely
/// among the first.
const PAGES: usize = 20;

/// Objects with such a finalizer.
#[derive(Default)]
pub(super) struct Unremoved {
    /// The first ones: those that are being deleted, if there are any.
    pub(super) named: Vec<String>,
    /// The number of all such objects.
    pub(super) count: usize,
    /// `true` if the objects are being deleted, which lasts until the finalizer is
    /// removed.
    pub(super) terminating: bool,
    pub(super) finalizer: String,
}

/// The objects of a controller with a finalizer that it has set, unless it removes it.
pub(super) async fn unremoved(
    client: &Client,
    controller: &Controller,
    installation: &Installation,
) -> Result<Unremoved, kube::Error> {
    let mut found = Unremoved::default();
    if !controller.ignores_deletion() || controller.has_own_retriever() {
        return Ok(found);
    }
    let (managers, resource) = (controller.managers(installation), resource(controller.kind_info()));
    let apis: Vec<Api<DynamicObject>> = match controller.namespaces() {
        [] => vec![Api::all_with(client.clone(), &resource)],
        some => some.iter().map(|one| Api::namespaced_with(client.clone(), one, &resource)).collect(),
    };
    for api in apis {
        let mut params = ListParams::default().limit(PAGE);
        for _ in 0..PAGES {
            let page = api.list_metadata(&params).await?;
            for object in page.items {
                let Some(finalizer) = set_by(&managers, &object.metadata) else { continue };
                let terminating = object.metadata.deletion_timestamp.is_some();
                if terminating && !found.terminating {
                    found = Unremoved { terminating, ..Unremoved::default() };
                }
                if terminating == found.terminating {
                    found.count += 1;
                    found.finalizer = finalizer;
                    if found.named.len() < NAMED {
                        found.named.push(ObjectKey::new(object.namespace().as_deref(), &object.name_any()).to_string());
                    }
                }
            }
            let Some(next) = page.metadata.continue_.filter(|next| !next.is_empty()) else { break };
            params = params.continue_token(&next);
        }
    }
    Ok(found)
}
