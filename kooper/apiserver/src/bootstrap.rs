//! The objects that every new cluster has.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::{defaults, meta, prepare, route, verbs};

/// Creates the namespaces and the roles that requests are judged by, and forgets how.
pub(crate) fn create_objects(cluster: &Arc<Cluster>) {
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        put(cluster, ("", "v1", "namespaces"), None, json!({"kind": "Namespace", "metadata": {"name": name}}));
    }
    let labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    let about = |name: &str| {
        json!({
            "name": name,
            "labels": labels,
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}
        })
    };
    for (name, rules) in roles() {
        let role = json!({"kind": "ClusterRole", "metadata": about(name), "rules": rules});
        put(cluster, ("rbac.authorization.k8s.io", "v1", "clusterroles"), None, role);
    }
    let authenticated = ["system:authenticated"];
    let everybody = ["system:authenticated", "system:unauthenticated"];
    for (name, groups) in [
        ("cluster-admin", &["system:masters"][..]),
        ("system:basic-user", &authenticated),
        ("system:discovery", &authenticated),
        ("system:public-info-viewer", &everybody),
    ] {
        let subject = |group: &&str| json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group});
        let binding = json!({
            "kind": "ClusterRoleBinding",
            "metadata": about(name),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": groups.iter().map(subject).collect::<Vec<_>>()
        });
        put(cluster, ("rbac.authorization.k8s.io", "v1", "clusterrolebindings"), None, binding);
    }
    cluster.store.compact();
}

fn roles() -> Vec<(&'static str, Value)> {
    let paths = json!([
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/"
    ]);
    vec![
        (
            "cluster-admin",
            json!([
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]}
            ]),
        ),
        (
            "system:basic-user",
            json!([
                {
                    "verbs": ["create"],
                    "apiGroups": ["authorization.k8s.io"],
                    "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
                },
                {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]}
            ]),
        ),
        ("system:discovery", json!([{"verbs": ["get"], "nonResourceURLs": paths}])),
        (
            "system:public-info-viewer",
            json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}]),
        ),
    ]
}

fn put(
    cluster: &Arc<Cluster>,
    (group, version, resource): (&str, &str, &str),
    namespace: Option<&str>,
    mut object: Value,
) {
    let Some(kind) = cluster.kind(group, version, resource) else { return };
    object["apiVersion"] = json!(kind.api_version());
    meta::prepare_create(&kind, &mut object, namespace);
    defaults::fill(&kind, &mut object);
    if prepare::create(&kind, &mut object).is_err() {
        return;
    }
    let key = route::key(namespace.unwrap_or_default(), meta::text(&object, "name"));
    // A new store has none of them.
    drop(kind.table.put(&key, None, verbs::draft(&kind, &object)));
}
