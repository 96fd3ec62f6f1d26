//! Replicas whose Role is that of an older version, on the real API server.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::shards::Shards;
use kooper_runtime::internal::leader::new_identity;
use kooper_tests::control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::live::{Live, connection, grant};

const NAMESPACE: &str = "shards-rules";

fn start(cluster: &ControlPlane) -> Live {
    let second = Duration::from_secs(1);
    let shards = Shards::new(16).lease_duration(3 * second).renew_deadline(2 * second).retry_period(second);
    let controller = Controller::builder::<ConfigMap>("rules").namespaces([NAMESPACE]).shards(shards);
    let controller = controller.handler(async || {}).build().unwrap();
    Live::start_edited(connection(cluster.limited_kubeconfig(), None), [controller], |builder| {
        builder.program("shop").lease_namespace(NAMESPACE).identity(new_identity())
    })
}

fn wait_for_shards(replica: &Live, count: f64) {
    replica.wait_for_metric("kooper_shards_owned{controller=\"rules\"}", |owned| owned == count);
}

#[test]
fn replicas_that_may_not_watch_leases_share_the_shards_and_follow_each_other() {
    let Some(cluster) = ControlPlane::shared_in(NAMESPACE, grant(NAMESPACE, "", "configmaps")) else { return };
    let [mut role, binding] = grant(NAMESPACE, "coordination.k8s.io", "leases");
    role["rules"][0]["verbs"] = json!(["get", "create", "update"]);
    cluster.apply([role, binding]);
    let first = start(cluster);
    wait_for_shards(&first, 16.0);
    let second = start(cluster);
    wait_for_shards(&first, 8.0);
    wait_for_shards(&second, 8.0);
    first.stop();
    wait_for_shards(&second, 16.0);
    second.stop();
    let is_refused = |event: &Value| {
        let (object, code) = (&event["objectRef"], &event["responseStatus"]["code"]);
        (&event["verb"], &object["resource"], &object["namespace"])
            == (&json!("watch"), &json!("leases"), &json!(NAMESPACE))
            && *code == 403
    };
    assert!(cluster.audit_log(NAMESPACE).iter().any(is_refused), "a watch was refused");
}
