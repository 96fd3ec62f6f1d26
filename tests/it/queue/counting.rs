//! Counting what has finished, each once.

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::apiserver::faults::{Verb, WatchEvent};
use kooper::capability::{by, count_once, owned_by};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::sleep;

use crate::fixture::with_name;

#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Tally", namespaced, status = "TallyStatus")]
struct TallySpec {
    #[serde(default)]
    color: String,
}

#[derive(KubeSchema, Clone, Debug, Default, Serialize, Deserialize)]
struct TallyStatus {
    #[serde(default)]
    total: usize,
    #[serde(default)]
    counted: Vec<String>,
    /// The color that was seen last.
    #[serde(default)]
    color: String,
}

/// Counts the ConfigMaps of each object.
#[kooper::controller(resource = Tally, owns = [ConfigMap], main = false)]
async fn tallies(tally: Arc<Tally>, configs: Reader<ConfigMap>, statuses: StatusWriter<Tally>) -> Result<()> {
    let finished = configs.select(by::owner(&tally)).collect::<Result<Vec<_>, _>>()?;
    let mut status = tally.status.clone().unwrap_or_default();
    status.total += count_once(&mut status.counted, finished).len();
    status.color.clone_from(&tally.spec.color);
    statuses.apply_status_unchanged(&tally, &status).await?;
    Ok(())
}

fn child(tally: &Tally, name: &str) -> Result<ConfigMap> {
    let config: ConfigMap = with_name(name);
    Ok(owned_by(tally, config)?)
}

fn totals(total: usize, color: &'static str) -> impl Fn(&Tally) -> bool + Send + Sync + 'static {
    move |tally| tally.status.as_ref().is_some_and(|status| status.total == total && status.color == color)
}

#[kooper::test(start_paused = true)]
async fn each_is_counted_once_whatever_happens_to_the_write_the_object_and_the_process(cluster: Cluster) -> Result<()> {
    let lost = cluster.faults().on(Verb::Patch.of("tallies/status")).nth(2).drop_response();
    let refused = cluster.faults().on(Verb::Patch.of("tallies/status")).nth(3).reply(503);
    let running = cluster.run([tallies::controller()?]).await?;
    let tally = cluster.create(&Tally::new("all", TallySpec { color: "red".to_owned() })).await?;
    cluster.wait(&tally, totals(0, "red")).await;

    let one = cluster.create(&child(&tally, "one")?).await?;
    let two = cluster.create(&child(&tally, "two")?).await?;
    cluster.wait(&tally, totals(2, "red")).await;
    assert_eq!((lost.times(), refused.times()), (1, 1));

    // One is deleted while nobody looks, and another one is created.
    running.stop().await?;
    cluster.delete(&one).await?;
    cluster.create(&child(&tally, "three")?).await?;
    let running = cluster.run([tallies::controller()?]).await?;
    cluster.wait(&tally, totals(3, "red")).await;

    // A successor of the same name is another one.
    cluster.delete(&two).await?;
    cluster.create(&child(&tally, "two")?).await?;
    cluster.wait(&tally, totals(4, "red")).await;
    running.kill().await;
    cluster.patch(&tally, json!({"spec": {"color": "green"}})).await?;
    let _running = cluster.run([tallies::controller()?]).await?;
    cluster.wait(&tally, totals(4, "green")).await;
    Ok(())
}

#[kooper::test]
async fn a_status_is_not_applied_to_a_version_that_was_not_read(cluster: Cluster) -> Result<()> {
    cluster.install_crd(&<Tally as kube::CustomResourceExt>::crd()).await?;
    let read = Arc::new(cluster.create(&Tally::new("all", TallySpec { color: "red".to_owned() })).await?);
    let status = |total| TallyStatus { total, ..TallyStatus::default() };
    let writer: StatusWriter<Tally> = cluster.arguments(&read).take().await;
    assert!(writer.apply_status_unchanged(&read, &status(1)).await?);
    let late: StatusWriter<Tally> = cluster.arguments(&read).take().await;
    let error = late.apply_status_unchanged(&read, &status(2)).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let now = Arc::new(cluster.get::<Tally>(&*read).await?.unwrap());
    assert!(totals(1, "")(&now));
    let again: StatusWriter<Tally> = cluster.arguments(&now).take().await;
    assert!(!again.apply_status_unchanged(&now, &status(1)).await?, "it has this status");
    assert!(again.apply_status_unchanged(&now, &status(2)).await?);
    Ok(())
}

/// Counts one for a green object, unless it is called again.
#[kooper::controller(resource = Tally, changed = [generation], main = false)]
async fn flips(tally: Arc<Tally>, call: Call, statuses: StatusWriter<Tally>) -> Result<()> {
    let total = usize::from(tally.spec.color == "green" && call.attempt() == 1);
    statuses.apply_status(&tally, &TallyStatus { total, ..TallyStatus::default() }).await?;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_status_whose_response_was_lost_is_replaced_by_the_one_before_it(cluster: Cluster) -> Result<()> {
    let running = cluster.run([flips::controller()?]).await?;
    let tally = cluster.create(&Tally::new("all", TallySpec { color: "red".to_owned() })).await?;
    cluster.wait(&tally, totals(0, "")).await;
    sleep(Duration::from_secs(10)).await;

    let lost = cluster.faults().on(Verb::Patch.of("tallies/status")).nth(1).drop_response();
    // The cache does not have it when the call is retried.
    let late = cluster.faults().on_event(WatchEvent::Modified.of("tallies").named("all"));
    let late = late.nth(2).delay(Duration::from_secs(5));
    cluster.patch(&tally, json!({"spec": {"color": "green"}})).await?;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((lost.times(), late.times()), (1, 1));
    let now = cluster.get::<Tally>(&tally).await?.unwrap();
    assert!(totals(0, "")(&now), "{:?}", now.status);
    running.stop().await
}
