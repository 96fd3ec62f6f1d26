//! Tests of what users may do.

use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::Role;
use kooper_apiserver::{ApiServer, User};
use kube::api::{Patch, PatchParams};
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
