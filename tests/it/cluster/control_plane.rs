//! The real control plane that other tests compare with.

use std::time::{Duration, Instant};

use kooper_tests::control_plane::ControlPlane;

#[test]
fn a_restarted_api_server_keeps_its_data_and_its_clients() {
    let Some(cluster) = ControlPlane::start() else {
        return;
    };

    let version = cluster.kubectl(&["get", "--raw", "/version"]);
    let version: serde_json::Value = serde_json::from_str(&version.stdout).expect("the version is JSON");
    assert_eq!(version["major"], "1", "{version}");

    let namespaces = cluster.kubectl(&["get", "namespaces", "--output=name"]);
    assert!(namespaces.stdout.contains("namespace/kube-system\n"), "{namespaces:?}");

    let made = cluster.kubectl_with(
        &["apply", "--filename=-"],
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "b"}}"#,
    );
    assert!(made.success, "{made:?}");
    let before = cluster.kubectl(&["get", "configmap", "kept", "--output=json"]);

    cluster.stop_apiserver();
    let while_stopped = cluster.kubectl(&["get", "configmap", "kept"]);
    assert!(!while_stopped.success && while_stopped.stderr.contains("refused"), "{while_stopped:?}");

    cluster.start_apiserver();
    let after = cluster.kubectl(&["get", "configmap", "kept", "--output=json"]);
    assert!(after.success, "{after:?}");
    assert_eq!(after.stdout, before.stdout);
}

#[test]
fn the_limited_user_has_the_permissions_that_were_granted() {
    let Some(cluster) = ControlPlane::shared() else {
        return;
    };
    let limited = format!("--kubeconfig={}", cluster.limited_kubeconfig().display());
    let list = [&*limited, "get", "leases", "--namespace=limited-user"];
    assert!(cluster.kubectl(&["create", "namespace", "limited-user"]).success);

    let refused = cluster.kubectl(&list);
    assert!(refused.stderr.contains(r#"User "limited" cannot list resource "leases""#), "{refused:?}");

    let in_namespace = "--namespace=limited-user";
    for grant in [
        ["create", "role", "lister", "--verb=list", "--resource=leases.coordination.k8s.io", in_namespace],
        ["create", "rolebinding", "lister", "--role=lister", "--user=limited", in_namespace],
    ]
    .map(|args| cluster.kubectl(&args))
    {
        assert!(grant.success, "{grant:?}");
    }
    // The authorizer reads rules from a watch, so a grant takes a moment.
    let can = [&*limited, "auth", "can-i", "list", "leases.coordination.k8s.io", in_namespace];
    let deadline = Instant::now() + Duration::from_secs(60);
    while !cluster.kubectl(&can).success {
        assert!(Instant::now() < deadline, "the grant has no effect");
    }
    assert!(cluster.kubectl(&list).success);

    let by_limited = cluster.audit_log().iter().filter(|event| event["user"]["username"] == "limited").count();
    assert!(by_limited >= 2);
}
