use kube::core::response::{StatusCause, StatusDetails};
use proptest::prelude::*;

use super::*;

fn details(name: &str, kind: &str, causes: &[(&str, &str, &str)]) -> StatusDetails {
    let text = |text: &&str| (*text).to_owned();
    let cause = |(reason, message, field): &(&str, &str, &str)| StatusCause {
        reason: text(reason),
        message: text(message),
        field: text(field),
    };
    StatusDetails {
        name: name.to_owned(),
        kind: kind.to_owned(),
        group: String::new(),
        uid: String::new(),
        causes: causes.iter().map(cause).collect(),
        retry_after_seconds: 0,
    }
}

fn status(code: u16, message: &str, causes: &[(&str, &str, &str)]) -> Status {
    let details = Some(details("web", "pods", causes));
    Status { code, message: message.to_owned(), details, ..Status::default() }
}

fn cause(code: u16, message: &str, causes: &[(&str, &str, &str)]) -> Cause {
    ApiStatus::of(&status(code, message, causes)).cause
}

fn advice(refusal: &ApiStatus) -> String {
    let rule = Rule::new("", "pods", None, &["create"]);
    refusal.advice(&Needs { rule: &rule, only: None, namespace: Some("shop") })
}

const AUTHORIZER: &str = "pods is forbidden: User \"system:serviceaccount:shop:shop\" cannot create resource \"pods\" in API \
                          group \"\" in the namespace \"shop\"";

#[test]
fn only_the_advice_for_a_request_that_rbac_forbids_names_a_rule() {
    let missing = ApiStatus::of(&status(403, AUTHORIZER, &[]));
    assert_eq!(missing.cause, Cause::MissingRule);
    assert_eq!(advice(&missing), "; grant the rule \"pods: create\" in namespace `shop`");
    for (expected, message) in [
        (
            Cause::Quota,
            "pods \"web\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
        ),
        (Cause::Quota, "pods \"web\" is forbidden: failed quota: q: must specify limits.cpu for: web"),
        (Cause::PodSecurity, "pods \"web\" is forbidden: violates PodSecurity \"restricted:latest\": privileged"),
        (Cause::Limits, "pods \"web\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"),
        (
            Cause::Limits,
            "pods \"web\" is forbidden: [minimum cpu usage per Pod is 1, maximum memory usage per Pod is 2]",
        ),
        (
            Cause::Escalation,
            "roles.rbac.authorization.k8s.io \"web\" is forbidden: user \"shop\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"]}",
        ),
        (
            Cause::Other,
            "pods \"web\" is forbidden: error looking up service account shop/web: serviceaccount \"web\" not found",
        ),
        (Cause::Other, "Forbidden by the corporate proxy: User \"shop\" cannot create anything"),
    ] {
        let refusal = ApiStatus::of(&status(403, message, &[]));
        assert_eq!(refusal.cause, expected, "{message}");
        assert!(!advice(&refusal).contains("grant the rule"), "{}", advice(&refusal));
    }
}

#[test]
fn the_permission_in_a_refusal_does_not_depend_on_the_object() {
    let of = |object: &str, verb: &str| {
        let words =
            format!("pods {object}is forbidden: User \"shop\" cannot {verb} resource \"pods\" in API group \"\"");
        ApiStatus::of(&status(403, &words, &[])).permission().to_owned()
    };
    assert_eq!(of("\"a\" ", "patch"), of("\"b\" ", "patch"));
    assert_ne!(of("\"a\" ", "patch"), of("\"a\" ", "delete"));
}

#[test]
fn the_message_of_a_webhook_is_not_interpreted_as_the_servers() {
    let webhook = || Cause::Rejected("the admission webhook `policy.example.com`".to_owned());
    let denied = |words: &str| format!("admission webhook \"policy.example.com\" denied the request: {words}");
    assert_eq!(cause(403, &denied(AUTHORIZER), &[]), webhook());
    assert_eq!(cause(409, &denied("x: uid mismatch: the provided object specified uid 1"), &[]), webhook());
    assert_eq!(cause(422, &denied("spec: field is immutable"), &[("", "field is immutable", "spec")]), webhook());
    let policy = Cause::Rejected("the ValidatingAdmissionPolicy `replicas`".to_owned());
    let words = "ValidatingAdmissionPolicy 'replicas' with binding 'all' denied request: too many";
    assert_eq!(cause(422, &format!("deployments.apps \"web\" is forbidden: {words}"), &[]), policy);
    assert_eq!(cause(422, &format!("deployments.apps \"web\" is invalid: : {words}"), &[]), policy);
    let silent = "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: timeout";
    assert_eq!(cause(500, silent, &[]), Cause::WebhookFailed("the admission webhook `a.example.com`".to_owned()));
}

#[test]
fn another_uid_is_recognized_by_the_servers_own_messages() {
    let storage = "Operation cannot be fulfilled on configmaps \"druid\": StorageError: invalid object, Code: 4, Key: \
                   /registry/configmaps/shop/druid, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ";
    for words in [
        &format!("{storage}UID in precondition: 1, UID in object meta: 2") as &str,
        "Operation cannot be fulfilled on pods \"web\": the UID in the precondition (1) does not match the UID in record (2). \
         The object might have been deleted and then recreated",
        "Operation cannot be fulfilled on configmaps \"web\": uid mismatch: the provided object specified uid 1, and no \
         existing object was found",
    ] {
        assert_eq!(cause(409, words, &[]), Cause::AnotherObject, "{words}");
    }
    for words in [
        &format!("{storage}ResourceVersion in precondition: 1, ResourceVersion in object meta: 2") as &str,
        "Operation cannot be fulfilled on pods \"uid-guide\": the object has been modified",
    ] {
        assert_eq!(cause(409, words, &[]), Cause::Conflict, "{words}");
    }
    assert_eq!(
        cause(422, "invalid", &[("FieldValueInvalid", "field is immutable", "metadata.uid")]),
        Cause::AnotherObject
    );
}

#[test]
fn the_advice_for_an_immutable_field_names_it() {
    for message in [
        "Invalid value: {}: field is immutable",
        "Invalid value: \"10.0.0.9\": may not change once set",
        "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
        "Invalid value: {}: cannot change roleRef",
        "Forbidden: may not be changed in an update.",
        "Invalid value: null: field cannot be modified once set",
    ] {
        let refusal = ApiStatus::of(&status(422, "it is invalid", &[("FieldValueInvalid", message, "spec.selector")]));
        assert_eq!(refusal.cause, Cause::Immutable(vec!["spec.selector".to_owned()]), "{message}");
        assert!(advice(&refusal).contains("`spec.selector` cannot be changed"), "{}", advice(&refusal));
        assert!(advice(&refusal).contains("delete the object"), "{}", advice(&refusal));
    }
    let other = [("FieldValueInvalid", "Invalid value: -1: must be greater than or equal to 0", "spec.replicas")];
    assert_eq!(cause(422, "it is invalid", &other), Cause::Other);
}

#[test]
fn a_404_is_about_the_object_its_namespace_or_its_kind() {
    assert_eq!(cause(404, "pods \"web\" not found", &[]), Cause::Gone);
    let namespace = Status { code: 404, details: Some(details("shop", "namespaces", &[])), ..Status::default() };
    assert_eq!(ApiStatus::of(&namespace).cause, Cause::NoNamespace);
    let kind = Status { code: 404, message: "404 page not found".to_owned(), ..Status::default() };
    assert_eq!(ApiStatus::of(&kind).cause, Cause::NotServed);
}

#[test]
fn a_missing_rule_is_found_anywhere_in_a_chain() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] kube::Error);

    let refused = |message: &str| kube::Error::Api(Box::new(status(403, message, &[])));
    let error = anyhow::Error::from(Outer(refused(AUTHORIZER))).context("while syncing");
    let boxed: Box<dyn StdError + Send + Sync> = error.into();
    assert!(is_missing_rule(&*boxed));
    assert!(is_missing_rule(&ApiStatus::of(&status(403, AUTHORIZER, &[]))));
    assert!(is_missing_rule(&status(403, AUTHORIZER, &[])));
    assert!(!is_missing_rule(&Outer(refused("pods \"web\" is forbidden: exceeded quota: q"))));
    assert!(!is_missing_rule(&std::io::Error::other(AUTHORIZER)));
}

proptest! {
    /// A rejection by a webhook is recognized as such, whatever its code and text.
    #[test]
    fn no_message_of_a_webhook_is_mistaken_for_the_servers(code in 400u16..600, words in ".*") {
        let message = format!("admission webhook \"w.example.com\" denied the request: {words}");
        prop_assert!(matches!(cause(code, &message, &[]), Cause::Rejected(_)));
    }

    /// No name of an object makes a conflict one about another uid.
    #[test]
    fn no_object_name_is_mistaken_for_a_uid_conflict(name in "[a-z0-9.-]{1,40}") {
        let message = format!("Operation cannot be fulfilled on pods \"{name}\": the object has been modified");
        prop_assert_eq!(cause(409, &message, &[]), Cause::Conflict);
    }
}
