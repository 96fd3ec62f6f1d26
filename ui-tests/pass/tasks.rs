//! Tasks: what each key and each argument becomes.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper::prelude::*;
use kooper::tower::layer::util::Identity;

struct Db;

#[derive(clap::Args)]
struct ShopSettings {
    #[arg(long, default_value = "vanilla")]
    flavour: String,
}

async fn connect() -> Result<Db> {
    Ok(Db)
}

fn audited() -> Identity {
    Identity::new()
}

#[kooper::task(every = "10m", name = "sweep-pods", leader_election, timeout = "2m", backoff = ("1s", "1m"), main = false)]
async fn sweep(pods: Reader<Pod>, deleter: Deleter<Pod>, call: Call, clock: Clock) -> Result<Action> {
    let _ = (call.now(), clock.now());
    for pod in pods.list() {
        deleter.delete(pod.key()).await?;
    }
    Ok(Action::done())
}

const HOUR: Duration = Duration::from_secs(3600);

#[kooper::task(every = HOUR, init = connect, reads = [(ConfigMap, labels = "app=web")], layers = [audited], main = false)]
async fn report(_: State<Db>, _: Reader<ConfigMap>) {}

#[kooper::task(every = "1h", settings = ShopSettings, rbac("pods/log: get"), type_name = Quiet, main = false)]
async fn quiet(settings: Settings<ShopSettings>, _: Client) {
    let _ = &settings.flavour;
}

#[kooper::task(cron = "30 2 * * mon-fri", leader_election, main = false)]
async fn nightly(_: Reader<Pod>) {}

#[kooper::task(every = "1h", namespace = own, main = false)]
async fn nearby(_: Reader<Pod>) {}

#[kooper::task(every = "1h", namespaces = ["shop", "bakery"], main = false)]
async fn shops(_: Reader<Pod>) {}

const WEEKLY: &str = "@weekly";

#[kooper::task(cron = WEEKLY, everywhere, main = false)]
async fn weekly() {}

#[kooper::task(every = "10m", shard_of = "shops", main = false)]
async fn shared() {}

#[test]
fn tasks_are_built() {
    let shared = shared::task().expect("a task");
    assert!(shared.shard_of() == Some("shops") && !shared.has_leader_election() && !shared.runs_everywhere());
    assert_eq!(super::names::<nightly>(), ["nightly"]);
    assert_eq!(super::names::<weekly>(), ["weekly"]);
    assert_eq!(super::names::<sweep>(), ["sweep-pods"]);
    let task = sweep::task().expect("a task");
    assert!(task.has_leader_election() && !task.runs_everywhere());
    let everywhere = weekly::task().expect("a task");
    assert!(everywhere.runs_everywhere() && !everywhere.has_leader_election());
    let mut nearby = nearby::task().expect("a task");
    nearby.set_own_namespace("here");
    assert_eq!(nearby.namespaces(), ["here"]);
    assert_eq!(shops::task().expect("a task").namespaces(), ["shop", "bakery"]);
    assert_eq!(super::names::<report>(), ["report"]);
    assert_eq!(super::names::<Quiet>(), ["quiet"]);
}
