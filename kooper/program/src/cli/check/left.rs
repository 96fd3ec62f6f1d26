//! Objects with the finalizer of a controller that does not watch them.

use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};

use crate::cli::objects::{NAMED, PAGE, resource};
use kooper_access::Controller;

/// The objects outside of the controller's namespaces that have its finalizer:
/// `namespace/name` of the first ones, and the number of all.
pub(super) async fn left_behind(client: &Client, controller: &Controller) -> Result<(Vec<String>, usize), kube::Error> {
    let Some(finalizers) = controller.finalizers().filter(|_| !controller.namespaces().is_empty()) else {
        return Ok((Vec::new(), 0));
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(controller.kind_info()));
    let (mut found, mut count, mut params) = (Vec::new(), 0, ListParams::default().limit(PAGE));
    loop {
        let page = api.list_metadata(&params).await?;
        for object in page.items {
            let namespace = object.namespace().unwrap_or_default();
            if finalizers.are_among(object.finalizers()) && !controller.namespaces().contains(&namespace) {
                count += 1;
                if found.len() < NAMED {
                    found.push(format!("{namespace}/{}", object.name_any()));
                }
            }
        }
        let Some(next) = page.metadata.continue_.filter(|next| !next.is_empty()) else { return Ok((found, count)) };
        params = params.continue_token(&next);
    }
}
