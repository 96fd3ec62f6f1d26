//! Tests of the detection of forbidden requests.

use serde_json::{Value, json};

use super::forbidden;

const SHOPS: &str = "/apis/apps/v1/namespaces/a/deployments/web?fieldManager=shop";

/// A request that was refused by the admission of owner references.
fn refused(path: &str, why: &str) -> Value {
    let message = format!("deployments.apps \"web\" is forbidden: cannot set blockOwnerDeletion {why}");
    json!({"verb": "patch", "requestURI": path, "responseStatus": {"code": 403, "message": message}})
}

fn undiscovered(path: &str) -> Value {
    refused(
        path,
        "in this case because cannot find RESTMapping for APIVersion shops.example.com/v1 Kind Shop: no matches for \
         kind \"Shop\" in version \"shops.example.com/v1\"",
    )
}

fn accepted(path: &str) -> Value {
    json!({"verb": "patch", "requestURI": path, "responseStatus": {"code": 201}})
}

#[test]
fn an_owner_of_a_kind_that_is_not_discovered_yet_forbids_nothing() {
    assert_eq!(forbidden(&[undiscovered(SHOPS), undiscovered(SHOPS), accepted(SHOPS)]), [""; 0]);
}

#[test]
fn a_request_that_never_succeeds_is_forbidden() {
    let other = SHOPS.replace("web", "other");
    assert_eq!(forbidden(&[accepted(SHOPS), undiscovered(SHOPS), accepted(&other)]).len(), 1);
}

#[test]
fn a_missing_permission_is_found_although_the_kind_was_not_discovered_before() {
    let missing = refused(SHOPS, "if an ownerReference refers to a resource you can't set finalizers on: , <nil>");
    let found = forbidden(&[undiscovered(SHOPS), missing.clone(), accepted(SHOPS)]);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("can't set finalizers on"), "{found:?}");
    let plain = json!({
        "verb": "list", "requestURI": "/api/v1/pods",
        "responseStatus": {"code": 403, "message": "pods is forbidden: User \"a\" cannot list resource \"pods\""}
    });
    assert_eq!(forbidden(&[plain, accepted("/api/v1/pods")]).len(), 1);
}
