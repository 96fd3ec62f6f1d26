//! Children that are deleted again and again.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kooper::apiserver::faults::{Verb, WatchEvent};
use kooper::kube::ResourceExt as _;
use kooper::testing::Cluster;
use tokio::time::{Instant, sleep};

use super::{CONTROLLER, config, paused, secrets};

#[test]
fn a_child_whose_owner_only_a_stale_cache_has_is_created_a_few_times_and_not_without_a_pause() {
    paused(async {
        let cluster = Cluster::start().await.unwrap();
        let running = cluster.run([secrets()]).await.unwrap();
        let owner = cluster.create(&config("shop")).await.unwrap();
        let child = cluster.wait("shop", |_: &Secret| true).await;
        sleep(Duration::from_secs(60)).await;

        let faults = cluster.faults();
        let late = faults.on_event(WatchEvent::Deleted.of("configmaps").named("shop"));
        let late = late.nth(1).delay(Duration::from_secs(30));
        // It delays nothing, and counts.
        let applied = faults.on(Verb::Patch.of("secrets").by(CONTROLLER)).delay(Duration::ZERO);
        cluster.delete(&owner).await.unwrap();
        cluster.wait_deleted(&child).await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(late.times(), 1);
        assert!((5..=10).contains(&applied.times()), "it was applied {} times", applied.times());
        assert_eq!(cluster.get::<Secret>("shop").await.unwrap(), None);
        running.stop().await.unwrap();
    });
}

#[test]
fn a_child_that_another_client_deletes_is_created_at_once_five_times_and_then_every_ten_seconds() {
    paused(async {
        let cluster = Cluster::start().await.unwrap().with_timeout(Duration::from_secs(60));
        let running = cluster.run([secrets()]).await.unwrap();
        cluster.create(&config("shop")).await.unwrap();
        let mut child = cluster.wait("shop", |_: &Secret| true).await;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let deleted = Instant::now();
            cluster.delete(&child).await.unwrap();
            child = cluster.wait("shop", |secret: &Secret| secret.uid() != child.uid()).await;
            pauses.push(deleted.elapsed().as_secs_f64().round());
        }
        assert_eq!(pauses, [0.0, 0.0, 0.0, 0.0, 10.0, 10.0, 10.0]);
        running.stop().await.unwrap();
    });
}
