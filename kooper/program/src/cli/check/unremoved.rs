//! Objects with a finalizer that the handler of a controller has set, and that nothing
//! removes.

use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};

use crate::cli::objects::{self, NAMED, PAGE, resource};
use crate::cli::verdict::Verdict;
use kooper_access::Controller;
use kooper_access::internal::Installation;
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::call::finalizer::set_by;
use kooper_runtime::internal::error::chain;

/// Maximum number of pages to read. In a larger collection, an affected object is likely
/// among the first.
const PAGES: usize = 20;

/// Objects with such a finalizer.
#[derive(Default)]
struct Unremoved {
    /// The first ones: those that are being deleted, if there are any.
    named: Vec<String>,
    /// The number of all such objects.
    count: usize,
    /// `true` if the objects are being deleted, which lasts until the finalizer is
    /// removed.
    terminating: bool,
    finalizer: String,
}

/// A finding if there are such objects, or if they cannot be listed.
pub(super) async fn inspect(
    client: &Client,
    controller: &Controller,
    installation: &Installation,
) -> Option<(Verdict, String)> {
    let (name, kinds) = (controller.name(), controller.kind_info().resource());
    let Unremoved { named, count, terminating, finalizer } = match unremoved(client, controller, installation).await {
        Ok(found) => found,
        // Kinds that are not served, or may not be listed, were reported already.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return None,
        Err(error) => {
            let text =
                format!("{kinds} with a finalizer that the controller `{name}` does not remove: {}", chain(&error));
            return Some((Verdict::Note, text));
        }
    };
    let objects = format!("{kinds} {}", objects::named(&named, count));
    let advice = format!(
        "write `cleanup = path, finalizer = \"{finalizer}\"`, or `while_deleting` so that its handler is called and can \
         remove it"
    );
    if terminating {
        let text = format!(
            "{objects}: being deleted, and the finalizer {finalizer}, which the controller `{name}` has set, keeps them: {advice}"
        );
        return Some((Verdict::Missing, text));
    }
    let text = format!(
        "{objects}: the finalizer {finalizer}, which the controller `{name}` has set, would keep them when they are \
         deleted: {advice}"
    );
    (count > 0).then_some((Verdict::Note, text))
}

/// The objects of a controller with a finalizer that it has set, unless it removes it.
async fn unremoved(
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kooper_access::KindExt;
    use kooper_tests::responses;

    use super::*;

    #[tokio::test]
    async fn an_error_is_shown_unless_it_was_reported_before() {
        let controller = ConfigMap::controller("maps").handler(async || {}).build().expect("a controller");
        let found = async |code: u16| {
            let client = responses::client("default", move |_| responses::rejection(code, "the reason"));
            inspect(&client, &controller, &Installation::new("shop", None)).await
        };
        for code in [403, 404] {
            assert!(found(code).await.is_none(), "{code}");
        }
        let Some((Verdict::Note, text)) = found(500).await else { panic!("a note") };
        assert!(text.starts_with("configmaps with a finalizer that the controller `maps` does not remove: "), "{text}");
        assert!(text.contains("the reason"), "{text}");
    }
}
