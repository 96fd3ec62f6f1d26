//! Kinds that the cluster does not serve, or that the program may not read.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kooper::prelude::*;
use kooper::{Call, Controller};
use kooper_grammar::access::Rule;
use kooper_tests::control_plane::ControlPlane;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::live::{HandledStates, Live, configmap, connection, grant, recorder};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "access.example.com", version = "v1", kind = "Gadget", namespaced)]
struct GadgetSpec {
    colour: String,
}

#[test]
fn a_missing_kind_and_a_forbidden_one_do_not_affect_a_third() {
    let namespace = "access";
    let grants = [grant(namespace, "", "configmaps"), grant(namespace, "access.example.com", "gadgets")];
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": "password"}});
    let objects = grants.into_iter().flatten().chain([configmap(namespace, "settings", "1"), secret]);
    let Some(cluster) = ControlPlane::shared_in(namespace, objects) else { return };

    let seen = HandledStates::default();
    let controllers = [
        recorder("configs", namespace, &seen),
        Controller::builder::<Gadget>("gadgets")
            .namespaces([namespace])
            .state(seen.clone())
            .handler(async |object: Arc<Gadget>, seen: State<HandledStates>| {
                seen.note(object.name_any(), &object.spec.colour);
            })
            .build()
            .unwrap(),
        Controller::builder::<Secret>("secrets")
            .namespaces([namespace])
            .state(seen.clone())
            .handler(async |call: Call, seen: State<HandledStates>| seen.note(call.key().name(), "seen"))
            .build()
            .unwrap(),
    ];
    let live = Live::start(connection(cluster.limited_kubeconfig(), None), controllers);

    seen.wait_for(&[("settings", "1")]);
    live.wait_for_ready(
        false,
        &[
            "gadgets: gadgets.access.example.com in access: not synced yet: not found: ",
            "the cluster does not serve `gadgets.access.example.com`: apply its CRD, or check the API version",
            "secrets: secrets in access: not synced yet: not allowed: ",
            "grant the rule \"secrets: list, watch\" in namespace `access`",
        ],
    );
    for (controller, reason) in [("gadgets", "not_found"), ("secrets", "forbidden")] {
        let series = format!("kooper_watch_errors_total{{controller=\"{controller}\",reason=\"{reason}\"}}");
        live.wait_for_metric(&series, |errors| errors >= 1.0);
    }
    cluster.apply([configmap(namespace, "settings", "2")]);
    seen.wait_for(&[("settings", "2")]);
    assert!(live.is_alive());

    // The advice is sufficient; nothing is restarted.
    cluster.apply([serde_json::to_value(Gadget::crd()).unwrap()]);
    cluster.must(&["wait", "--for=condition=established", "crd/gadgets.access.example.com", "--timeout=60s"]);
    cluster.apply([json!({
        "apiVersion": "access.example.com/v1", "kind": "Gadget",
        "metadata": {"namespace": namespace, "name": "lamp"}, "spec": {"colour": "red"}
    })]);
    cluster.apply(grant(namespace, "", "secrets"));
    seen.wait_for(&[("lamp", "red"), ("password", "seen")]);
    live.wait_for_ready(true, &["ok"]);
    live.stop();
}

#[test]
fn the_grammar_of_rules_knows_the_namespaced_resources_of_the_server() {
    let Some(cluster) = ControlPlane::shared() else { return };
    for cluster_scoped in [true, false] {
        let namespaced = format!("--namespaced={}", !cluster_scoped);
        let names = cluster.must(&["api-resources", &namespaced, "--output", "name"]);
        assert!(names.lines().count() > 10, "{names}");
        // Other tests install their own kinds.
        for name in names.lines().filter(|name| !name.contains("example.com")) {
            let (resource, group) = name.split_once('.').unwrap_or((name, ""));
            let rule = Rule::new(group, resource, None, &["get"]);
            assert_eq!(rule.cluster, cluster_scoped, "{name}");
        }
    }
}
