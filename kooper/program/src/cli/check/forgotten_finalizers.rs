//! Objects with a finalizer that the handler of a controller has set, and that nothing
//! removes.

use kube::Client;

use crate::cli::objects::{FoundObjects, Pages, scopes};
use crate::cli::verdict::Verdict;
use kooper_access::Controller;
use kooper_access::internal::Installation;
use kooper_runtime::internal::call::finalizer::set_by;
use kooper_runtime::internal::error::chain;

/// Maximum number of pages to read. In a larger collection, an affected object is likely
/// among the first.
const PAGES: usize = 20;

/// Objects with such a finalizer.
#[derive(Default)]
struct ForgottenFinalizers {
    /// Those that are being deleted, if there are any.
    found: FoundObjects,
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
    let ForgottenFinalizers { found, terminating, finalizer } =
        match forgotten_finalizers(client, controller, installation).await {
            Ok(forgotten_finalizers) => forgotten_finalizers,
            // Kinds that are not served, or may not be listed, were reported already.
            Err(kube::Error::Api(status)) if status.code == 403 => return None,
            Err(error) => {
                let text =
                    format!("{kinds} with a finalizer that the controller `{name}` does not remove: {}", chain(&error));
                return Some((Verdict::Note, text));
            }
        };
    let objects = format!("{kinds} {found}");
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
    (found.count > 0).then_some((Verdict::Note, text))
}

/// The objects of a controller with a finalizer that it has set, unless it removes it.
async fn forgotten_finalizers(
    client: &Client,
    controller: &Controller,
    installation: &Installation,
) -> Result<ForgottenFinalizers, kube::Error> {
    let mut forgotten_finalizers = ForgottenFinalizers::default();
    if !controller.ignores_deletion() || controller.has_own_retriever() {
        return Ok(forgotten_finalizers);
    }
    let managers = controller.managers(installation);
    for scope in scopes(client, controller.kind_info(), controller.namespaces()) {
        let mut pages = Pages::new(scope);
        for _ in 0..PAGES {
            let Some(page) = pages.next().await? else { break };
            for object in &page {
                let Some(finalizer) = set_by(&managers, &object.metadata) else { continue };
                let terminating = object.metadata.deletion_timestamp.is_some();
                if terminating && !forgotten_finalizers.terminating {
                    forgotten_finalizers = ForgottenFinalizers { terminating, ..ForgottenFinalizers::default() };
                }
                if terminating == forgotten_finalizers.terminating {
                    forgotten_finalizers.found.add(object);
                    forgotten_finalizers.finalizer = finalizer;
                }
            }
        }
    }
    Ok(forgotten_finalizers)
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
