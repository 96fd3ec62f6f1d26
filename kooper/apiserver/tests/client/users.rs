//! Tests of what users may do.

use http::Method;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::Role;
use kooper_apiserver::{ApiServer, User};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::send;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

/// Gives the service account `robot` a role.
async fn grant(server: &ApiServer, rules: Value) {
    send(server, Method::POST, &format!("{RBAC}/roles"), json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]
    });
    send(server, Method::POST, &format!("{RBAC}/rolebindings"), binding).await;
}

#[tokio::test]
async fn a_role_can_be_released_without_the_rights_that_it_gives() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let group = "rbac.authorization.k8s.io";
    grant(&server, json!([{"apiGroups": [group], "resources": ["roles"], "verbs": ["patch"]}])).await;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let role = json!({"metadata": {"name": "large", "finalizers": ["example.com/held"]}, "rules": rules});
    send(&server, Method::POST, &format!("{RBAC}/roles"), role).await;
    let client = server.client_of(User::service_account("default", "robot"));
    let roles: kube::Api<Role> = kube::Api::namespaced(client, "default");
    let patch = async |metadata: Value| {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        roles.patch("large", &PatchParams::default(), &patch).await
    };
    let refused = patch(json!({"labels": {"a": "b"}})).await.expect_err("it would have to give these rights");
    assert!(refused.to_string().contains("is attempting to grant RBAC permissions not currently held"), "{refused}");
    let released = patch(json!({"finalizers": null})).await.expect("it gives no rights");
    assert_eq!(released.metadata.finalizers, None);
}

#[tokio::test]
async fn a_certificate_signing_request_has_the_user_who_sent_it() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let client = server.client_of(User::new("jane", &["system:masters"]));
    let requests: kube::Api<CertificateSigningRequest> = kube::Api::all(client);
    let spec = json!({
        "request": "YQ==", "signerName": "example.com/a", "usages": ["client auth"],
        "username": "admin", "uid": "1", "groups": ["system:nodes"], "extra": {"a": ["b"]},
    });
    let request = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).expect("it is a request");
    let created = requests.create(&PostParams::default(), &request).await.expect("it is valid").spec;
    assert_eq!((created.username.as_deref(), created.uid, created.extra), (Some("jane"), None, None));
    assert_eq!(created.groups.unwrap_or_default(), ["system:masters", "system:authenticated"]);
    let patch = Patch::Merge(json!({"spec": {"username": "admin"}}));
    let patched = requests.patch("a", &PatchParams::default(), &patch).await.expect("the spec is kept").spec;
    assert_eq!(patched.username.as_deref(), Some("jane"));
}

#[tokio::test]
async fn only_checks_of_health_that_exist_are_served() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    for (path, status) in [("/readyz", 200), ("/livez/ping", 200), ("/readyz/ping/a", 404), ("/healthz/bogus", 404)] {
        assert_eq!(send(&server, Method::GET, path, Value::Null).await.0, status, "{path}");
    }
}

#[tokio::test]
async fn an_apply_that_creates_needs_the_permission_to_create() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    grant(&server, json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}])).await;
    let client = server.client_of(User::service_account("default", "robot"));
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client, "default");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
    let apply = async || maps.patch("a", &PatchParams::apply("test"), &Patch::Apply(&config)).await;
    let refused = apply().await.expect_err("there is no object yet");
    assert!(refused.to_string().contains("cannot create resource \"configmaps\""), "{refused}");
    let map = json!({"metadata": {"name": "a"}});
    send(&server, Method::POST, "/api/v1/namespaces/default/configmaps", map).await;
    apply().await.expect("there is one");
}
