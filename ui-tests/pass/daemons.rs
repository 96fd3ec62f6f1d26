//! Daemons: what they take and return.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper::prelude::*;

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

#[test]
fn daemons_have_controllers_of_their_own() {
    let lamps = lamps::controller().expect("a controller");
    assert!(lamps.plan().needs().iter().all(|need| !need.rule.to_string().contains("delete")));
    let names: Vec<_> = lamps.with_daemon().map(|controller| controller.name().to_owned()).collect();
    assert_eq!(names, ["lamps", "lamps-daemon"]);
    assert_eq!(super::names::<each>(), ["each-configmap", "each-pod"]);
}
