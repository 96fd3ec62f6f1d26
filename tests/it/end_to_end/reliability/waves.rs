//! Crashes during an ordered deletion: no child is left over, and none goes before those that depend on it.

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kooper::apiserver::faults::Requests;
use kooper::kube::api::{WatchEvent, WatchParams};
use kooper::prelude::*;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::crashes::{Crash, crashed};
use super::*;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Market", namespaced)]
struct MarketSpec {}

/// Three waves, with a child that Kubernetes does not delete with its owner, and one that is kept.
#[kooper::controller(
    resource = Market, children = [key, ledger(keep), prices(key), role(key), front(after = prices)],
    deletion = ordered, finalizer = "example.com/market", status = none, main = false,
)]
async fn markets() {}

fn named<T: Resource + Default>(market: &Market, part: &str) -> T {
    with_name(&format!("{}-{part}", market.name_any()))
}

fn key(market: &Market) -> Secret {
    named(market, "key")
}

fn ledger(market: &Market) -> ConfigMap {
    named(market, "ledger")
}

fn prices(market: &Market, _: &Secret) -> ConfigMap {
    named(market, "prices")
}

fn role(market: &Market, _: &Secret) -> ClusterRole {
    named(market, "role")
}

fn front(market: &Market) -> Result<Service> {
    let spec = serde_json::from_value(json!({"ports": [{"port": 80}]}))?;
    Ok(Service { spec: Some(spec), ..named(market, "front") })
}

/// The version at which each child was gone, by its name.
type Ends = Arc<Mutex<BTreeMap<String, u64>>>;

/// Notes when the children of a kind are gone.
async fn observe<T: Kind + DeserializeOwned + Clone + std::fmt::Debug>(cluster: &Cluster, ends: &Ends) {
    let (api, ends) = (Api::<T>::all(cluster.client()), ends.clone());
    let mut events = Box::pin(api.watch(&WatchParams::default(), "0").await.unwrap());
    tokio::spawn(async move {
        while let Ok(Some(event)) = events.try_next().await {
            if let WatchEvent::Deleted(child) = event {
                let version = child.resource_version().and_then(|version| version.parse().ok());
                ends.lock().insert(child.name_any(), version.expect("versions are numbers"));
            }
        }
    });
}

/// Deletes a market, and returns how many writes it took.
async fn deletion(crash: Crash) -> u64 {
    let cluster = Cluster::start().await.unwrap().with_timeout(Duration::from_secs(3600));
    let faults = cluster.faults();
    let first = cluster.run([markets::controller().unwrap()]).await.unwrap();
    let market = cluster.create(&Market::new("m", MarketSpec {})).await.unwrap();
    cluster.wait("m-front", |_: &Service| true).await;
    sleep(Duration::from_secs(60)).await;

    let ends = Ends::default();
    observe::<Secret>(&cluster, &ends).await;
    observe::<ConfigMap>(&cluster, &ends).await;
    observe::<ClusterRole>(&cluster, &ends).await;
    observe::<Service>(&cluster, &ends).await;
    let counted = faults.on(Requests::writes().by(CONTROLLER)).delay(Duration::ZERO);
    let fault = crash.plan(&faults);
    cluster.delete(&market).await.unwrap();
    let running = crashed(&cluster, first, fault, markets::controller).await;
    cluster.wait_deleted(&market).await;
    running.stop().await.unwrap();

    let names: BTreeMap<_, _> = ends.lock().iter().map(|(name, version)| (*version, name.clone())).collect();
    let names: Vec<_> = names.into_values().collect();
    let order = names.iter().map(String::as_str).collect::<Vec<_>>();
    let is_in_order =
        matches!(&*order, ["m-front", "m-prices", "m-role", "m-key"] | ["m-front", "m-role", "m-prices", "m-key"]);
    assert!(is_in_order, "{crash:?}: {order:?}");
    let kept: ConfigMap = cluster.get("m-ledger").await.unwrap().expect("it is kept");
    assert!(kept.owner_references().is_empty(), "{crash:?}: {kept:?}");
    counted.times()
}

#[test]
fn a_crash_at_any_write_of_an_ordered_deletion_leaves_no_child_and_keeps_the_order() {
    let writes = Arc::new(Mutex::new(0));
    let count = writes.clone();
    paused(async move { *count.lock() = deletion(Crash::Never).await });
    let writes = *writes.lock();
    assert!(writes >= 6, "four deletions, a release and a finalizer: {writes}");
    for nth in 1..=writes {
        for crash in [Crash::Before(nth), Crash::After(nth)] {
            paused(async move {
                deletion(crash).await;
            });
        }
    }
}
