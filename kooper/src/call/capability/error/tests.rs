use std::time::Duration;

use kube::core::response::{StatusCause, StatusDetails};

use super::*;
use crate::error::{RetryHint, chain, retry_hint};

fn rule(text: &str) -> Rule {
    Rule::parse(text).expect("a rule")
}

fn refused(code: u16, message: &str, details: StatusDetails) -> AccessError {
    let asked = Asked {
        verb: "apply",
        kind: "Deployment".to_owned(),
        object: ObjectKey::namespaced("shop", "web"),
        rule: rule("apps/deployments: create, patch"),
        owner: rule("example.com/shops/finalizers: update"),
    };
    let status = Status { code, message: message.to_owned(), details: Some(details), ..Status::default() };
    AccessError::of(asked, kube::Error::Api(Box::new(status)))
}

fn caused(reason: &str) -> StatusDetails {
    let cause = StatusCause { reason: reason.to_owned(), message: String::new(), field: String::new() };
    StatusDetails { name: "web".to_owned(), causes: vec![cause], ..details() }
}

fn details() -> StatusDetails {
    let text = String::new;
    StatusDetails { name: text(), group: text(), kind: text(), uid: text(), causes: Vec::new(), retry_after_seconds: 0 }
}

#[test]
fn a_missing_rule_is_named() {
    let error = refused(403, "deployments.apps \"web\" is forbidden: User \"shop\" cannot patch it", details());
    assert_eq!(
        error.to_string(),
        "cannot apply Deployment `shop/web`: deployments.apps \"web\" is forbidden: User \"shop\" cannot patch it; \
         grant the rule \"apps/deployments: create, patch\" in namespace `shop`"
    );
    assert!(error.is_missing_rule() && is_missing_rule(&error));
    let error = refused(403, "deployments.apps \"web\" is forbidden: cannot set blockOwnerDeletion if …", details());
    assert!(error.to_string().contains("grant the rule \"example.com/shops/finalizers: update\""), "{error}");
}

#[test]
fn a_namespace_that_is_being_deleted_is_no_matter_of_rules() {
    let error = refused(403, "forbidden", caused("NamespaceTerminating"));
    assert!(error.to_string().contains("being deleted") && !error.to_string().contains("grant"), "{error}");
    assert!(error.is_namespace_terminating() && !error.is_missing_rule(), "{error}");
    assert_eq!((retry_hint(&error), chain(&error)), (RetryHint::Never, error.to_string()), "no retry helps");
}

#[test]
fn the_pause_that_the_server_asks_for_reaches_the_worker() {
    let told = StatusDetails { retry_after_seconds: 9, ..details() };
    assert_eq!(retry_hint(&refused(429, "too many", told)), RetryHint::Pause(Duration::from_secs(9)));
    assert_eq!(retry_hint(&refused(429, "budget", details())), RetryHint::Pause(Duration::from_secs(5)));
    assert_eq!(retry_hint(&refused(409, "conflict", details())), RetryHint::Backoff);
    let text = chain(&refused(429, "budget", details()));
    assert_eq!(text, "cannot apply Deployment `shop/web`: budget; the API server requests a pause of 5s");
}

#[test]
fn an_object_that_is_gone_is_no_missing_kind() {
    let gone = refused(404, "deployments.apps \"web\" not found", caused(""));
    assert!(gone.is_not_found() && !gone.to_string().contains("CRD"), "{gone}");
    let missing = refused(404, "the server could not find the requested resource", details());
    assert!(missing.to_string().contains("does not serve `deployments.apps`"), "{missing}");
}

#[test]
fn another_object_of_the_name_is_a_conflict_however_the_server_says_it() {
    let mut immutable = caused("FieldValueInvalid");
    immutable.causes[0].field = "metadata.uid".to_owned();
    for error in [
        refused(
            409,
            "\"web\": uid mismatch: the provided object specified uid 1, and no existing object was found",
            details(),
        ),
        refused(422, "field is immutable", immutable),
    ] {
        assert!(error.is_conflict() && error.to_string().ends_with("another object may have its name"), "{error}");
    }
    assert!(!refused(422, "spec.replicas: Invalid value", caused("FieldValueInvalid")).is_conflict());
}

#[test]
fn what_no_retry_heals_says_so_to_the_worker() {
    let error = AccessError::from(OwnerError::Unborn { owner: "Shop".to_owned() });
    assert_eq!(retry_hint(&error), RetryHint::Never);
    assert_eq!(chain(&error), error.to_string());
}
