//! Daemons: what they take and return.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kooper::prelude::*;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

struct Db;

async fn connect() -> Result<Db> {
    Ok(Db)
}

#[kooper::controller(resource = ConfigMap, daemon = run, init = connect, leader_election(lease = "lamps"), main = false)]
async fn lamps() {}

async fn run(_: Arc<ConfigMap>, _: State<Db>, _: Call, pods: Reader<Pod>, deleter: Deleter<Pod>) -> Result<()> {
    loop {
        for pod in pods.list() {
            deleter.delete(pod.key()).await?;
        }
    }
}

#[kooper::controller(resource = [ConfigMap, Pod], daemon = run_each::<K>, main = false)]
async fn each<K: Kind>(_: Arc<K>) {}

async fn run_each<K: Kind>(_: Arc<K>) -> Result<Action> {
    Ok(Action::requeue_after(Duration::from_secs(1)))
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Lamp", namespaced, status = "LampStatus")]
struct LampSpec {}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LampStatus {
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

#[kooper::controller(resource = Lamp, children = [config], daemon = shine, main = false)]
async fn with_children() {}

#[kooper::controller(resource = Lamp, children = [config], status = none, daemon = shine, main = false)]
async fn without_status() {}

fn config(_: &Lamp) -> ConfigMap {
    ConfigMap::default()
}

async fn shine(_: Arc<Lamp>) -> Result<()> {
    std::future::pending().await
}

#[test]
fn a_daemon_patches_its_object_only_if_its_failures_are_part_of_the_status() {
    let patches = |controller: kooper::Controller| {
        let daemon = controller.with_daemon().nth(1).expect("a daemon");
        daemon.plan().needs().iter().any(|need| need.rule.to_string() == "example.com/lamps: patch")
    };
    assert!(patches(with_children::controller().expect("a controller")));
    assert!(!patches(without_status::controller().expect("a controller")));
}

#[test]
fn daemons_have_controllers_of_their_own() {
    let lamps = lamps::controller().expect("a controller");
    assert!(lamps.plan().needs().iter().all(|need| !need.rule.to_string().contains("delete")));
    let names: Vec<_> = lamps.with_daemon().map(|controller| controller.name().to_owned()).collect();
    assert_eq!(names, ["lamps", "lamps-daemon"]);
    assert_eq!(super::names::<each>(), ["each-configmap", "each-pod"]);
}
