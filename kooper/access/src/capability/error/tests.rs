use std::time::Duration;

use kooper_runtime::error::chain;
use kooper_runtime::internal::error::{RetryHint, retry_hint};
use kube::core::response::{StatusCause, StatusDetails};

use super::*;

fn rule(text: &str) -> Rule {
    Rule::parse(text).expect("a rule")
}

fn refused(code: u16, message: &str, details: StatusDetails) -> AccessError {
    refused_for(ObjectKey::namespaced("shop", "web"), code, message, details)
}

fn refused_for(object: ObjectKey, code: u16, message: &str, details: StatusDetails) -> AccessError {
    let asked = RequestInfo {
        verb: "apply",
        kind: "Deployment".to_owned(),
        object,
        rule: rule("apps/deployments: create, patch"),
        named: false,
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
    assert_eq!(chain(&error), error.to_string(), "its text has the cause, and has it once");
    assert_eq!(
        error.to_string(),
        "cannot apply Deployment `shop/web`: deployments.apps \"web\" is forbidden: User \"shop\" cannot patch it; \
         grant the rule \"apps/deployments: create, patch\" in namespace `shop`"
    );
    assert!(error.is_missing_rule() && is_missing_rule(&error));
    let error = refused(403, "deployments.apps \"web\" is forbidden: cannot set blockOwnerDeletion if …", details());
    assert!(chain(&error).contains("grant the rule \"example.com/shops/finalizers: update\""), "{error:?}");
    let message =
        "deployments.apps \"web\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>";
    let error = refused(403, message, details());
    assert!(
        chain(&error).ends_with(
            "; grant the rule \"apps/deployments: delete\" in namespace `shop`: a change of owner references needs it"
        ),
        "{error:?}"
    );
}

#[test]
fn a_namespace_that_is_being_deleted_is_not_a_missing_rule() {
    let message = "deployments.apps \"web\" is forbidden: unable to create new content in namespace shop because it is \
                   being terminated";
    let error = refused(403, message, caused("NamespaceTerminating"));
    assert!(chain(&error).contains("being deleted") && !chain(&error).contains("grant"), "{error:?}");
    assert!(error.is_namespace_terminating() && !error.is_missing_rule(), "{error}");
    assert_eq!(retry_hint(&error, Some("shop")), RetryHint::Never, "no retry helps");
    for other in [None, Some("sho"), Some("till")] {
        assert_eq!(retry_hint(&error, other), RetryHint::Backoff, "another namespace may be created again");
    }
}

#[test]
fn a_pause_requested_by_the_server_reaches_the_worker() {
    let requested = StatusDetails { retry_after_seconds: 9, ..details() };
    assert_eq!(retry_hint(&refused(429, "too many", requested), None), RetryHint::Pause(Duration::from_secs(9)));
    assert_eq!(retry_hint(&refused(429, "budget", details()), None), RetryHint::Pause(Duration::from_secs(5)));
    assert_eq!(retry_hint(&refused(409, "conflict", details()), None), RetryHint::Backoff);
    let text = chain(&refused(429, "budget", details()));
    assert_eq!(text, "cannot apply Deployment `shop/web`: budget; the API server requests a pause of 5s");
}

#[test]
fn a_deleted_object_is_not_a_missing_kind() {
    let gone = refused(404, "deployments.apps \"web\" not found", caused(""));
    assert!(gone.is_not_found() && !chain(&gone).contains("CRD"), "{gone:?}");
    let missing = refused(404, "the server could not find the requested resource", details());
    assert!(chain(&missing).contains("does not serve `deployments.apps`"), "{missing:?}");
}

#[test]
fn a_namespace_that_does_not_exist_is_the_place_of_an_object_or_the_object_itself() {
    let missing = |object| {
        let details = StatusDetails { name: "shop".to_owned(), kind: "namespaces".to_owned(), ..details() };
        refused_for(object, 404, "namespaces \"shop\" not found", details)
    };
    let place = missing(ObjectKey::namespaced("shop", "web"));
    assert!(place.is_not_found() && !place.is_gone(), "{place:?}");
    assert!(chain(&place).ends_with("create the namespace first"), "{place:?}");
    let object = missing(ObjectKey::cluster_scoped("shop"));
    assert!(object.is_not_found() && object.is_gone(), "{object:?}");
    assert!(chain(&object).ends_with("namespaces \"shop\" not found"), "{object:?}");
}

#[test]
fn another_object_of_the_same_name_is_a_conflict_in_each_form_of_the_response() {
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
        assert!(error.is_conflict() && chain(&error).ends_with("another object may have its name"), "{error:?}");
    }
    assert!(!refused(422, "spec.replicas: Invalid value", caused("FieldValueInvalid")).is_conflict());
}

#[test]
fn a_conflict_of_a_quota_does_not_mean_that_the_object_exists_or_has_changed() {
    let message = "Operation cannot be fulfilled on resourcequotas \"all\": the object has been modified; please apply your \
                   changes to the latest version and try again";
    let conflict = |kind: &str, asked: &str| {
        let details = StatusDetails { name: "all".to_owned(), kind: kind.to_owned(), ..details() };
        let mut error = refused(409, message, details);
        if let AccessError::Rejected(rejection) = &mut error {
            rejection.status.reason = "Conflict".to_owned();
            rejection.kind = asked.to_owned();
        }
        error
    };
    let of_quota = conflict("resourcequotas", "Deployment");
    assert!(of_quota.is_of_quota() && !of_quota.is_conflict() && !of_quota.has_changed(), "{of_quota:?}");
    for of_object in [conflict("deployments", "Deployment"), conflict("resourcequotas", "ResourceQuota")] {
        assert!(!of_object.is_of_quota() && of_object.is_conflict() && of_object.has_changed(), "{of_object:?}");
    }
}

#[test]
fn a_webhook_that_denies_a_request_says_nothing_about_the_object_whatever_its_code() {
    let message = "admission webhook \"lamps.example.com\" denied the request: it is still lit";
    for code in [404, 409] {
        let mut denied = refused(code, message, caused(""));
        if let AccessError::Rejected(rejection) = &mut denied {
            rejection.status.reason = "AlreadyExists".to_owned();
        }
        assert!(denied.code() == Some(code) && !denied.is_not_found() && !denied.is_gone(), "{denied:?}");
        assert!(!denied.is_conflict() && !denied.has_changed() && !denied.exists(), "{denied:?}");
    }
}

#[test]
fn an_error_that_no_retry_can_fix_is_not_retried() {
    let error = AccessError::from(OwnerError::Unborn { owner: "Shop".to_owned() });
    assert_eq!(retry_hint(&error, None), RetryHint::Never);
    assert_eq!(chain(&error), error.to_string());
}

#[test]
fn an_error_without_a_response_has_that_of_the_connection_in_its_text() {
    let asked = RequestInfo {
        verb: "delete",
        kind: "Pod".to_owned(),
        object: ObjectKey::namespaced("shop", "web"),
        rule: rule("pods: delete"),
        named: false,
        owner: rule("example.com/shops/finalizers: update"),
    };
    let error = AccessError::of(asked, kube::Error::Service("connection reset".into()));
    let text = error.to_string();
    assert!(text.starts_with("cannot delete Pod `shop/web`: no response from the API server: "), "{text}");
    assert!(text.ends_with("connection reset"), "{text}");
    assert_eq!(chain(&error), text);
}
