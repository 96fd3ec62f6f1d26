//! The objects of the namespaces that match a selector, under the least role, beside a leader election.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::kube::ResourceExt;
use kooper::{Call, Controller};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::until;
use serde_json::json;

use super::replica::{Replica, cluster, quick, wait_for};
use crate::fixture::Log;
use crate::live::{configmap, connection, role};

const LEASES: &str = "selected-leases";
const USER: &str = "selected-namespaces";

/// Notes the namespace and the value of each object.
fn replica(cluster: &ControlPlane, who: &'static str, log: &Log) -> Replica {
    let call = log.noting(move |config: Arc<ConfigMap>| {
        let value = config.data.as_ref().and_then(|data| data.get("value").cloned()).unwrap_or_default();
        format!("{who}: {} {value}", config.namespace().unwrap_or_default())
    });
    let remove = log.noting(move |call: Call| format!("{who}: {} deleted", call.key().namespace().unwrap_or_default()));
    let controller =
        Controller::builder::<ConfigMap>("teams").namespace_selector("selected-team=a").fields("metadata.name=one");
    let controller = controller.resync(None).leader_election(quick(LEASES)).handler(call).deleted(remove);
    let config = async {
        let mut config = connection(cluster.kubeconfig(), None).await;
        config.auth_info.impersonate = Some(USER.to_owned());
        config
    };
    Replica::start(config, [controller.build().unwrap()])
}

#[test]
fn namespaces_join_and_leave_under_the_least_role_and_a_standby_takes_over_those_that_match() {
    let Some(cluster) = cluster(LEASES) else { return };
    let namespaces = [("selected-one", "a"), ("selected-two", "b")].into_iter().flat_map(|(namespace, team)| {
        let metadata = json!({"name": namespace, "labels": {"selected-team": team}});
        [json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}), configmap(namespace, "one", "1")]
    });
    let list = |resource: &str| json!([{"apiGroups": [""], "resources": [resource], "verbs": ["list", "watch"]}]);
    let configs = role(USER, None, "selected-configmaps", &list("configmaps"));
    let leases = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "list", "watch", "update"]},
        {"apiGroups": ["events.k8s.io", ""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    let leases = role(USER, Some(LEASES), "selected-leases", &leases);
    cluster.apply(namespaces.chain(configs).chain(leases));

    // The watch of the namespaces is forbidden.
    let log = Log::default();
    let first = replica(cluster, "first", &log);
    first.wait_for_ready(false, &["teams: namespaces", "not allowed"]);

    cluster.apply(role(USER, None, "selected-namespaces", &list("namespaces")));
    wait_for(&log, "first: selected-one 1");
    let second = replica(cluster, "second", &log);
    second.wait_for_ready(true, &[]);

    cluster.must(&["label", "namespace", "selected-two", "selected-team=a", "--overwrite"]);
    wait_for(&log, "first: selected-two 1");
    cluster.must(&["label", "namespace", "selected-one", "selected-team-"]);
    let stored = || first.metric("kooper_store_objects{controller=\"teams\"}");
    until("one object of one namespace is stored", || (stored() == 2.0).then_some(()), || stored().to_string());
    cluster.apply([configmap("selected-one", "one", "2"), configmap("selected-two", "one", "2")]);
    wait_for(&log, "first: selected-two 2");

    // The one that takes over has the same namespaces.
    first.stop();
    wait_for(&log, "second: selected-two 2");
    cluster.apply([configmap("selected-one", "one", "3"), configmap("selected-two", "one", "3")]);
    wait_for(&log, "second: selected-two 3");
    cluster.must(&["delete", "configmap", "one", "--namespace=selected-one"]);
    cluster.must(&["delete", "configmap", "one", "--namespace=selected-two"]);
    wait_for(&log, "second: selected-two deleted");
    second.stop();
    let lines = [
        "first: selected-one 1",
        "first: selected-two 1",
        "first: selected-two 2",
        "second: selected-two 2",
        "second: selected-two 3",
        "second: selected-two deleted",
    ];
    assert_eq!(log.lines(), lines);
}
