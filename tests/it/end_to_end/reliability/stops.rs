//! Stops at random moments, as SIGTERM requests them.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kooper::apiserver::faults::Requests;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::testing::Cluster;

use super::*;

/// Two children for each ConfigMap `c…`, under leader election.
fn pairs() -> Controller {
    async fn apply(config: Arc<ConfigMap>, secrets: OwnedApplier<Secret>) -> Result<()> {
        for half in ["left", "right"] {
            secrets.apply_owned(&config, &with_name(&format!("{}-{half}", config.name_any()))).await?;
        }
        Ok(())
    }
    let builder = Controller::builder::<ConfigMap>("pairs").fields("metadata.namespace=default").resync(None);
    builder.leader_election(LeaderElection::new()).handler(apply).build().unwrap()
}

fn holder(lease: &Lease) -> String {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default()
}

async fn stop(seed: u64) {
    let cluster = Cluster::start().await.unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let faults = cluster.faults();
    faults.set_seed(seed);
    let slow = || faults.on(Requests::writes().by(CONTROLLER)).with_probability(0.3);
    slow().delay(Duration::from_millis(40));
    slow().delay_answer(Duration::from_millis(40));
    let running = cluster.run([pairs()]).await.unwrap();
    cluster.wait("test-pairs", |lease: &Lease| !holder(lease).is_empty()).await;
    let objects = 6;
    for number in 0..objects {
        cluster.create(&config(&format!("c{number}"))).await.unwrap();
    }
    sleep(Duration::from_millis(random.u64(0..800))).await;
    running.stop().await.unwrap();

    let lease: Lease = cluster.get("test-pairs").await.unwrap().expect("it exists");
    assert_eq!(holder(&lease), "", "the lease is released, seed {seed}");
    let requests = cluster.requests();
    let writes = || requests.iter().filter(|request| !matches!(request.verb(), "get" | "list" | "watch"));
    assert!(requests.iter().all(|request| request.status().is_some()), "no request was cut, seed {seed}");
    let release = requests.iter().rposition(|request| request.resource().starts_with("leases")).expect("a release");
    let late: Vec<_> =
        requests[release + 1..].iter().filter(|request| request.resource().starts_with("secrets")).collect();
    assert!(late.is_empty(), "after the release: {late:?}, seed {seed}");
    assert!(writes().count() > 0);

    // The next process completes what this one has left.
    faults.clear();
    let running = cluster.run([pairs()]).await.unwrap();
    for number in 0..objects {
        for half in ["left", "right"] {
            cluster.wait(&*format!("c{number}-{half}"), |_: &Secret| true).await;
        }
    }
    running.stop().await.unwrap();
}

#[test]
fn a_stop_at_any_moment_writes_nothing_after_its_release_and_leaves_nothing_half_written() {
    for seed in 0..seeds() {
        paused(stop(seed));
    }
}
