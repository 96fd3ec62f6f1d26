#[cfg(feature = "webhooks")]
mod webhooks;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper_access::KindExt;
use kooper_tests::responses;
use serde_json::{Value, json};

use super::*;

const DENIED: &str = "admission webhook \"a.io\" denied the request: frozen";

/// Rejections of writes, and whether they are by a webhook.
const REJECTIONS: [(u16, &str, bool); 4] =
    [(404, DENIED, true), (409, DENIED, true), (404, "it was not found", false), (409, "it has changed", false)];

/// A client of a server that returns this for each `GET`, and rejects all other requests.
fn client(found: &Value, code: u16, message: &str) -> Client {
    let (found, refusal) = ((200, found.clone()), responses::rejection(code, message));
    responses::client("default", move |request| match *request.method() {
        Method::GET => found.clone(),
        _ => refusal.clone(),
    })
}

/// The message of the rejection that ends the command, if one does.
fn message<T>(result: kube::Result<T>) -> Option<String> {
    match result {
        Err(kube::Error::Api(status)) => Some(status.message),
        _ => None,
    }
}

#[tokio::test]
async fn a_webhook_that_rejects_the_change_of_an_object_ends_the_command_whatever_the_code() {
    let metadata = json!({
        "name": "one", "namespace": "shops", "uid": "1", "resourceVersion": "7", "finalizers": ["example.com/shop"],
    });
    let object = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata});
    let found = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": [object],
    });
    let controller = ConfigMap::controller("shops").cleanup("example.com/shop", async || {}).handler(async || {});
    let controller = controller.build().expect("a controller");
    let ours = [(controller.kind_info().resource(), None)].into();
    let definitions = Definitions { ours, kept: Vec::new() };
    let orphan = UninstallSettings { orphan: true, ..UninstallSettings::default() };
    for (chosen, action) in
        [(orphan, FinalizerAction::Release), (UninstallSettings::default(), FinalizerAction::Delete)]
    {
        let finalized = FinalizedObjects::of(&controller, &definitions, &chosen).expect("it has a finalizer");
        assert_eq!(finalized.action, action);
        for (code, words, is_by_webhook) in REJECTIONS {
            let ended = message(finalized.prepare(&client(&found, code, words)).await);
            assert_eq!(ended, is_by_webhook.then(|| words.to_owned()), "{action:?}, {code}");
        }
    }
}

#[tokio::test]
async fn a_webhook_that_rejects_the_deletion_of_a_crd_ends_the_command_whatever_the_code() {
    let found = json!({
        "metadata": {"name": "shops.example.com", "uid": "1"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Shop", "plural": "shops"}, "versions": [],
        },
    });
    for (code, words, is_by_webhook) in REJECTIONS {
        let client = client(&found, code, words);
        let ended = message(definitions::delete(&client, "shops.example.com", Some("1")).await);
        assert_eq!(ended, is_by_webhook.then(|| words.to_owned()), "{code}");
    }
}

#[tokio::test]
async fn a_deployment_that_a_webhook_or_a_proxy_keeps_running_is_not_taken_for_a_missing_one() {
    let place = Place::shop(None, "shops");
    let proxy = "404 page not found";
    for (response, ended) in [
        (responses::rejection(404, DENIED), Some(DENIED)),
        (responses::rejection(404, proxy), Some(proxy)),
        (responses::missing("shop"), None),
    ] {
        let client = responses::client("shops", move |_| response.clone());
        assert_eq!(message(installed::stop(&client, &place, "shop").await).as_deref(), ended);
        assert_eq!(message(definitions::get(&client, "shop").await).as_deref(), ended);
    }
}

#[tokio::test]
async fn the_configurations_of_an_earlier_version_are_deleted_by_one_without_webhooks() {
    let place = Place::shop(Some("blue"), "shops");
    let names = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
        .map(|kind| format!("delete {kind} shop--webhooks.shops.blue"));
    for (response, is_found) in [
        ((200, json!({"metadata": {"name": "shop--webhooks.shops.blue"}})), true),
        (responses::missing("shop--webhooks.shops.blue"), false),
        (responses::rejection(403, "no"), false),
    ] {
        let (deletions, steps) = (Arc::<AtomicUsize>::default(), RefCell::new(Vec::new()));
        let counted = deletions.clone();
        let client = responses::client("shops", move |request| {
            counted.fetch_add(usize::from(request.method() == Method::DELETE), Ordering::Relaxed);
            response.clone()
        });
        let say = |step: &str, what: String| steps.borrow_mut().push(format!("{step} {what}"));
        for (dry_run, expected) in [(true, 0), (false, if is_found { 2 } else { 0 })] {
            installed::unregister(&client, &place, dry_run, say).await.expect("nothing fails");
            assert_eq!(steps.take(), if is_found { names.to_vec() } else { Vec::new() });
            assert_eq!(deletions.load(Ordering::Relaxed), expected);
        }
    }
}
