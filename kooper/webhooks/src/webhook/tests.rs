use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper_access::{Settings, State};
use serde_json::json;

use super::*;
use crate::admission::{Admission, Operation};

async fn check(_: Arc<ConfigMap>, _: Option<Arc<ConfigMap>>, _: Admission) {}

async fn on_delete(_: Option<Arc<ConfigMap>>, _: Option<Arc<ConfigMap>>) -> Result<(), Denied> {
    Ok(())
}

fn problem(built: Result<Webhook, ConfigError>) -> String {
    built.expect_err("it is refused").to_string()
}

fn described() -> Builder<ConfigMap, Validate> {
    Webhook::validate::<ConfigMap>("check").failure(FailurePolicy::Ignore)
}

#[test]
fn a_webhook_of_a_kubernetes_kind_needs_a_failure_policy() {
    let built = Webhook::validate::<ConfigMap>("check").function(check).build();
    assert_eq!(
        problem(built),
        "webhook `check`: `ConfigMap` is one of Kubernetes' own kinds: set `failure` for when the webhook is unavailable"
    );
    assert!(described().function(check).build().is_ok());
}

#[test]
fn a_webhook_of_a_kind_that_configures_admission_is_refused_as_no_api_server_would_call_it() {
    async fn check(_: Arc<ValidatingWebhookConfiguration>) {}
    let built = Webhook::validate::<ValidatingWebhookConfiguration>("check").failure(FailurePolicy::Ignore);
    assert_eq!(
        problem(built.function(check).build()),
        "webhook `check`: an API server calls no webhook for objects of the kind `ValidatingWebhookConfiguration`: watch \
         them with a controller"
    );
}

#[test]
fn a_function_that_decides_on_deletions_takes_an_object_that_may_be_absent() {
    let operations = [Operation::Delete];
    let built = described().operations(operations).function(check).build();
    assert!(problem(built).contains("take `Option<Arc<ConfigMap>>` as the first argument"));
    assert!(described().operations(operations).function(on_delete).build().is_ok());
    let mutate = Webhook::mutate::<ConfigMap>("fill").failure(FailurePolicy::Ignore).operations(operations);
    async fn fill(object: ConfigMap) -> ConfigMap {
        object
    }
    assert!(problem(mutate.function(fill).build()).contains("cannot be changed"));
}

/// Decides on a request about an object whose stored state does not decode.
async fn decided(webhook: &Webhook, operation: Operation) -> Result<bool, String> {
    let object = (operation == Operation::Update).then(|| json!({"metadata": {"name": "a"}}));
    let request = json!({
        "uid": "1", "operation": operation.name(), "name": "a", "namespace": "shops", "userInfo": {}, "object": object,
        "oldObject": {"metadata": {"name": "a", "namespace": "shops"}, "data": {"one": 1}},
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
    });
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string();
    let request = Request::parse(body.as_bytes()).expect("a review");
    let decided = match webhook.decide(&request, Admission::from(request.info(&webhook.rules.kind))) {
        Ok(decision) => decision.await,
        Err(error) => Err(error),
    };
    decided.map(|verdict| matches!(verdict, Verdict::Allowed(_))).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_stored_object_that_does_not_decode_can_be_corrected_and_is_deleted_only_if_no_function_takes_it() {
    async fn keep(_: Option<Arc<ConfigMap>>, old: Option<Arc<ConfigMap>>) -> Result<(), Denied> {
        old.map_or(Ok(()), |_| Err(Denied::new("it is kept")))
    }
    async fn free(_: Option<Arc<ConfigMap>>) {}
    let operations = [Operation::Update, Operation::Delete];
    let keep = described().operations(operations).function(keep).build().expect("a webhook");
    assert_eq!(decided(&keep, Operation::Update).await, Ok(true));
    let failed = decided(&keep, Operation::Delete).await.expect_err("it may be protected");
    assert!(failed.starts_with("object shops/a is not a valid ConfigMap: data.one: expected a string"), "{failed}");
    assert!(failed.ends_with("; correct the stored object, then delete it"), "{failed}");
    let free = described().operations(operations).function(free).build().expect("a webhook");
    assert_eq!(decided(&free, Operation::Delete).await, Ok(true));
}

#[test]
fn what_a_function_takes_is_there_when_it_is_built() {
    async fn settled(_: Arc<ConfigMap>, state: State<u32>, settings: Settings<String>) -> Result<(), Denied> {
        Err(Denied::new(format!("{} {}", *state, *settings)))
    }
    let built = described().state(7).function(settled).build().expect("a webhook");
    let inputs = built.inputs.expect("the controller that has them");
    assert_eq!((inputs.name(), inputs.plan().settings().len()), ("webhook-check", 1));
    assert!(described().function(check).build().expect("a webhook").inputs.is_none());
    assert!(problem(described().build()).contains("it has no function"));
}

#[test]
fn names_timeouts_and_operations_are_those_that_the_api_server_takes() {
    let named =
        |name: &str| Webhook::validate::<ConfigMap>(name).failure(FailurePolicy::Ignore).function(check).build();
    assert_eq!(named("check_all").expect("a name").path(), "/validate--v1-configmap/check-all");
    for name in ["", "Check", "-check", "a/b", "überall", &"x".repeat(64)] {
        assert!(named(name).is_err(), "{name}");
    }
    for timeout in [Duration::ZERO, Duration::from_millis(1500), Duration::from_secs(31)] {
        assert!(described().timeout(timeout).function(check).build().is_err(), "{timeout:?}");
    }
    assert!(described().operations([]).function(check).build().is_err());
}
