//! Changes that wait until an object has settled.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::Controller;
use kooper::prelude::*;
use kooper::testing::Cluster;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_secs(10);

/// The time and the reasons of each call.
type Calls = Arc<Mutex<Vec<(Instant, String)>>>;

/// A controller whose calls are recorded, also those to clean up.
fn recorded(calls: &Calls) -> Result<Controller> {
    let handle = async |call: Call, calls: State<Calls>| {
        calls.lock().push((Instant::now(), call.reasons().to_string()));
    };
    let cleanup =
        async |_: Arc<ConfigMap>, calls: State<Calls>| calls.lock().push((Instant::now(), "cleanup".to_owned()));
    let builder = ConfigMap::controller("settling").resync(None).labels("settles=yes").debounce(INTERVAL);
    let builder = builder.owns(Secret::all()).reconcile_now("example.com/now");
    Ok(builder.state(calls.clone()).handler(handle).cleanup("example.com/settling", cleanup).build()?)
}

/// The reasons of the calls so far, and the time of the last one.
fn taken(calls: &Calls) -> (Vec<String>, Option<Instant>) {
    let taken = std::mem::take(&mut *calls.lock());
    (taken.iter().map(|(_, reasons)| reasons.clone()).collect(), taken.last().map(|(at, _)| *at))
}

async fn create(cluster: &Cluster) -> Result<ConfigMap> {
    let config = json!({"metadata": {"name": "one", "labels": {"settles": "yes"}}});
    Ok(cluster.create(&serde_json::from_value(config)?).await?)
}

fn annotation(name: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {format!("example.com/{name}"): value}}})
}

#[kooper::test(start_paused = true)]
async fn a_burst_of_changes_of_an_object_and_of_its_children_causes_one_call(cluster: Cluster) -> Result<()> {
    let calls = Calls::default();
    let running = cluster.run([recorded(&calls)?]).await?;
    let config = create(&cluster).await?;
    cluster.settle().await;
    assert_eq!(taken(&calls).0, ["added"]);
    for value in ["1", "2", "3"] {
        cluster.patch(&config, annotation("note", value)).await?;
        tokio::time::sleep(INTERVAL / 2).await;
    }
    let mut child: Secret = serde_json::from_value(json!({"metadata": {"name": "child"}}))?;
    child.metadata.owner_references = config.controller_owner_ref(&()).map(|owner| vec![owner]);
    let last = Instant::now();
    cluster.create(&child).await?;
    cluster.settle().await;
    let (reasons, at) = taken(&calls);
    assert_eq!(reasons, ["modified, Secret default/child"]);
    assert!(at.is_some_and(|at| at - last >= INTERVAL), "it waited for the last of them");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_user_who_asks_for_a_call_or_deletes_the_object_does_not_wait(cluster: Cluster) -> Result<()> {
    let calls = Calls::default();
    let running = cluster.run([recorded(&calls)?]).await?;
    let config = create(&cluster).await?;
    cluster.settle().await;
    taken(&calls);
    let start = Instant::now();
    cluster.patch(&config, annotation("note", "1")).await?;
    cluster.patch(&config, annotation("now", "1")).await?;
    cluster.settle().await;
    let (reasons, at) = taken(&calls);
    assert_eq!(reasons, ["modified"], "this call was for both changes");
    assert!(at.is_some_and(|at| at - start < INTERVAL));

    let start = Instant::now();
    cluster.patch(&config, annotation("note", "2")).await?;
    cluster.delete(&config).await?;
    cluster.wait_deleted(&config).await;
    let (reasons, at) = taken(&calls);
    assert_eq!(reasons, ["cleanup"]);
    assert!(at.is_some_and(|at| at - start < INTERVAL));
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn objects_of_the_first_list_do_not_wait(cluster: Cluster) -> Result<()> {
    let calls = Calls::default();
    create(&cluster).await?;
    let start = Instant::now();
    let running = cluster.run([recorded(&calls)?]).await?;
    cluster.settle().await;
    let (reasons, at) = taken(&calls);
    assert_eq!(reasons, ["initial"]);
    assert!(at.is_some_and(|at| at - start < INTERVAL));
    running.stop().await
}

#[tokio::test]
#[should_panic(expected = "`settle` needs a paused clock")]
async fn on_a_clock_that_runs_by_itself_it_is_an_error_to_wait_until_a_cluster_settles() {
    Cluster::start().await.expect("it starts").settle().await;
}
