//! An operator in the test's process, on a real API server.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::controller::operator::Builder;
use kooper::kube::config::{KubeConfigOptions, Kubeconfig};
use kooper::kube::{Client, Config};
use kooper::{Controller, Health, State};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::process::value;
use kooper_tests::wait::until;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::fixture::{Log, Running, run_edited};

/// A running operator with its own runtime, as the test blocks its own thread.
pub(crate) struct Live {
    runtime: Runtime,
    running: Running,
}

impl Live {
    /// Starts controllers with this connection.
    pub(crate) fn start(
        config: impl Future<Output = Config>,
        controllers: impl IntoIterator<Item = Controller>,
    ) -> Self {
        Self::start_edited(config, controllers, |builder| builder)
    }

    /// Starts controllers as the user in `system:masters`.
    pub(crate) fn on(cluster: &ControlPlane, controllers: impl IntoIterator<Item = Controller>) -> Self {
        Self::start(connection(cluster.kubeconfig(), None), controllers)
    }

    /// Starts controllers in an operator with further settings.
    pub(crate) fn start_edited(
        config: impl Future<Output = Config>,
        controllers: impl IntoIterator<Item = Controller>,
        edit: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let runtime = Runtime::new().unwrap();
        let running = runtime.block_on(async {
            let client = Client::try_from(config.await).unwrap();
            run_edited(Some(client), controllers, edit)
        });
        Self { runtime, running }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.running.health.ready().is_ok()
    }

    /// The body of `/readyz`, ready or not.
    pub(crate) fn readiness(&self) -> String {
        self.running.health.ready().unwrap_or_else(|reasons| reasons)
    }

    /// Waits until the operator is ready, or not, with a text that contains all of these.
    pub(crate) fn wait_for_ready(&self, ready: bool, parts: &[&str]) {
        wait_for_ready(&self.running.health, ready, parts);
    }

    /// Returns `false` if only a restart of the process helps.
    pub(crate) fn is_alive(&self) -> bool {
        self.running.health.alive().is_ok()
    }

    /// The value of a series; 0 if it does not exist.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        value(&self.running.metrics(), series).unwrap_or_default()
    }

    /// Waits until a series has a value that meets the condition.
    pub(crate) fn wait_for_metric(&self, series: &str, right: impl Fn(f64) -> bool) {
        until(series, || right(self.metric(series)).then_some(()), || self.metric(series).to_string());
    }

    /// Stops it gracefully.
    pub(crate) fn stop(self) {
        self.runtime.block_on(self.running.stop()).unwrap();
    }
}

/// Waits until an operator is ready, or not, with a text that contains all of these.
pub(crate) fn wait_for_ready(health: &Health, ready: bool, parts: &[&str]) {
    let right = || {
        let (is, text) = match health.ready() {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        (is == ready && parts.iter().all(|part| text.contains(part))).then_some(())
    };
    until(&format!("ready: {ready}, {parts:?}"), right, || format!("{:?}", health.ready()));
}

/// The connection of a kubeconfig, to another address if one is given.
pub(crate) async fn connection(kubeconfig: &Path, server: Option<SocketAddr>) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    if let Some(server) = server {
        config.cluster_url = format!("https://{server}").parse().unwrap();
    }
    config
}

impl Log {
    /// Waits until a line was noted.
    pub(crate) fn wait_for(&self, line: &str) {
        until(line, || self.lines().iter().any(|one| one == line).then_some(()), || format!("{:#?}", self.lines()));
    }
}

/// The last state of each object that a handler was called with.
#[derive(Clone, Default)]
pub(crate) struct HandledStates(Arc<Mutex<BTreeMap<String, String>>>);

impl HandledStates {
    pub(crate) fn note(&self, name: impl Into<String>, state: impl Into<String>) {
        self.0.lock().insert(name.into(), state.into());
    }

    pub(crate) fn of(&self, name: &str) -> Option<String> {
        self.0.lock().get(name).cloned()
    }

    /// Waits until the last states of these objects are these.
    pub(crate) fn wait_for<S: AsRef<str>>(&self, states: &[(S, &str)]) {
        for (name, state) in states {
            let right = || (self.of(name.as_ref()).as_deref() == Some(*state)).then_some(());
            until(&format!("{} is seen as {state}", name.as_ref()), right, || format!("{:?}", self.0.lock()));
        }
    }
}

/// A controller that notes the value of each ConfigMap in a namespace. It has no resync, which would hide lost events.
pub(crate) fn recorder(name: &str, namespace: &str, seen: &HandledStates) -> Controller {
    let builder = Controller::builder::<ConfigMap>(name).namespaces([namespace]).resync(None);
    builder.state(seen.clone()).handler(record).build().unwrap()
}

/// Notes the value of a ConfigMap.
pub(crate) async fn record(object: Arc<ConfigMap>, seen: State<HandledStates>) {
    if let Some((name, value)) = state(&object) {
        seen.note(name, value);
    }
}

/// The name and the value of a ConfigMap that [`configmap`] made.
pub(crate) fn state(object: &ConfigMap) -> Option<(&str, &str)> {
    Some((object.metadata.name.as_deref()?, object.data.as_ref()?.get("value")?))
}

pub(crate) fn configmap(namespace: &str, name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name},
        "data": {"value": value}
    })
}

/// Lets the user `limited` list and watch a resource in a namespace.
pub(crate) fn grant(namespace: &str, group: &str, resource: &str) -> [Value; 2] {
    let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": ["list", "watch"]}]);
    role("limited", Some(namespace), resource, &rules)
}

/// A role of a user, in a namespace or in the cluster.
pub(crate) fn role(user: &str, namespace: Option<&str>, name: &str, rules: &Value) -> [Value; 2] {
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let (authorization, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let metadata = json!({"namespace": namespace, "name": name});
    [
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": authorization, "kind": kind, "name": name},
            "subjects": [{"apiGroup": authorization, "kind": "User", "name": user}]
        }),
    ]
}
