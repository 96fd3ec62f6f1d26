//! Objects that are handled before others.

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::prelude::*;
use kooper::testing::Cluster;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;

/// The number in the data of an object.
fn number(config: &ConfigMap) -> i32 {
    let number = config.data.as_ref().and_then(|data| data.get("number"));
    number.map_or(0, |number| number.parse().expect("a number"))
}

type Names = Arc<Mutex<Vec<String>>>;

/// A controller with one worker, whose calls need a permit each.
fn one_at_a_time(names: &Names, permits: &Arc<Semaphore>) -> Result<Controller> {
    let (names, permits) = (names.clone(), permits.clone());
    let handle = move |config: Arc<ConfigMap>| {
        let (names, permits) = (names.clone(), permits.clone());
        async move {
            if let Ok(permit) = permits.acquire().await {
                permit.forget();
            }
            names.lock().push(config.name_any());
        }
    };
    let builder = ConfigMap::controller("prioritized").resync(None).timeout(None).workers(1).labels("ours=yes");
    Ok(builder.priority(number).handler(handle).build()?)
}

async fn create(cluster: &Cluster, name: &str, number: &str) -> Result<ConfigMap> {
    let metadata = json!({"name": name, "labels": {"ours": "yes"}});
    let config = serde_json::from_value(json!({"metadata": metadata, "data": {"number": number}}))?;
    Ok(cluster.create(&config).await?)
}

#[kooper::test(start_paused = true)]
async fn objects_with_a_higher_number_are_handled_first_while_several_wait(cluster: Cluster) -> Result<()> {
    let (names, permits) = (Names::default(), Arc::new(Semaphore::new(0)));
    let running = cluster.run([one_at_a_time(&names, &permits)?]).await?;
    create(&cluster, "begins", "0").await?;
    cluster.settle().await;
    let rises = create(&cluster, "rises", "1").await?;
    for (name, number) in [("low", "-5"), ("high", "5"), ("zero", "0"), ("panics", "not a number")] {
        create(&cluster, name, number).await?;
    }
    cluster.settle().await;
    cluster.patch(&rises, json!({"data": {"number": "7"}})).await?;
    cluster.settle().await;
    permits.add_permits(100);
    cluster.settle().await;
    assert_eq!(*names.lock(), ["begins", "rises", "high", "zero", "panics", "low"]);
    running.stop().await
}
