//! Objects with the finalizer of a controller that does not watch them.

use kube::api::Api;
use kube::{Client, ResourceExt};

use crate::cli::objects::{FoundObjects, Pages, resource};
use kooper_access::Controller;

/// The objects outside of the controller's namespaces that have its finalizer.
pub(super) async fn left_behind(client: &Client, controller: &Controller) -> kube::Result<FoundObjects> {
    let mut found = FoundObjects::default();
    let Some(finalizers) = controller.finalizers().filter(|_| !controller.namespaces().is_empty()) else {
        return Ok(found);
    };
    let mut pages = Pages::new(Api::all_with(client.clone(), &resource(controller.kind_info())));
    while let Some(page) = pages.next().await? {
        for object in &page {
            let namespace = object.namespace().unwrap_or_default();
            if finalizers.are_among(object.finalizers()) && !controller.namespaces().contains(&namespace) {
                found.add(object);
            }
        }
    }
    Ok(found)
}
