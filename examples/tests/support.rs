//! A program on the shared control plane, in its own namespace.

use kooper_tests::control_plane::ControlPlane;
use kooper_tests::process::Process;
use serde_json::{Value, json};

pub(crate) const CONFIG_CUSTOM: &str = env!("CARGO_BIN_EXE_config-custom");
pub(crate) const CONTROLLER_CONCURRENCY: &str = env!("CARGO_BIN_EXE_controller-concurrency");
pub(crate) const ECHO_POD: &str = env!("CARGO_BIN_EXE_echo-pod");
pub(crate) const GREETER: &str = env!("CARGO_BIN_EXE_greeter");
pub(crate) const LEADER_ELECTION: &str = env!("CARGO_BIN_EXE_leader-election");
pub(crate) const ICECREAM: &str = env!("CARGO_BIN_EXE_icecream");
pub(crate) const METRICS: &str = env!("CARGO_BIN_EXE_metrics");
pub(crate) const WEBHOOKS: &str = env!("CARGO_BIN_EXE_webhooks");
pub(crate) const MULTI_RESOURCE: &str = env!("CARGO_BIN_EXE_multi-resource");
pub(crate) const ONEFILE_ECHO_POD: &str = env!("CARGO_BIN_EXE_onefile-echo-pod");
pub(crate) const POD_TERMINATOR: &str = env!("CARGO_BIN_EXE_pod-terminator-operator");
pub(crate) const REDIS: &str = env!("CARGO_BIN_EXE_redis");
pub(crate) const SHARDS: &str = env!("CARGO_BIN_EXE_shards");
pub(crate) const TRACED: &str = env!("CARGO_BIN_EXE_traced");
pub(crate) const WIKI: &str = env!("CARGO_BIN_EXE_wiki");

/// The shared control plane with a new namespace in which pods can be created; `None` without a control plane.
pub(crate) fn cluster(namespace: &str) -> Option<&'static ControlPlane> {
    let cluster = ControlPlane::shared_in(namespace, [])?;
    let here = format!("--namespace={namespace}");
    cluster.must(&["wait", "--for=create", "serviceaccount/default", "--timeout=60s", &here]);
    Some(cluster)
}

/// Starts a program that watches one namespace and listens on a free port.
pub(crate) fn start(
    program: &str,
    cluster: &ControlPlane,
    namespace: &str,
    args: &[&str],
    variables: &[(&str, &str)],
) -> Process {
    let kubeconfig = cluster.kubeconfig().to_str().expect("the path is UTF-8");
    let common = ["--kubeconfig", kubeconfig, "--namespace", namespace, "--listen", "127.0.0.1:0"];
    Process::start(program, &[&common, args].concat(), variables)
}

/// Stops a program gracefully.
pub(crate) fn stop(mut program: Process) {
    program.terminate();
    assert_eq!(program.count(&["stopped"]), 1, "{}", program.lines().join("\n"));
}

pub(crate) fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"terminationGracePeriodSeconds": 30, "containers": [{"name": "main", "image": "example.com/none"}]}
    })
}

/// A Deployment or StatefulSet, named `web`, without pods.
pub(crate) fn workload(namespace: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"namespace": namespace, "name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": kind}},
            "template": {
                "metadata": {"labels": {"app": kind}},
                "spec": {"containers": [{"name": "main", "image": "example.com/none"}]}
            }
        }
    })
}
