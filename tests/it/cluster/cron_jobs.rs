//! CronJobs, whose times pass on a paused clock.

use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::jiff::Timestamp;
use kooper::prelude::*;
use kooper::testing::Cluster;
use serde_json::{Value, json};
use tokio::time::sleep;

const MINUTE: Duration = Duration::from_secs(60);

/// A CronJob whose jobs are kept.
fn cron_job(mut spec: Value) -> CronJob {
    let containers = json!([{"name": "main", "image": "task:1"}]);
    spec["successfulJobsHistoryLimit"] = json!(100);
    spec["jobTemplate"] = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}});
    serde_json::from_value(json!({"metadata": {"name": "nightly"}, "spec": spec})).unwrap()
}

#[kooper::test(start_paused = true)]
async fn a_cron_job_that_was_suspended_for_hours_makes_one_job(cluster: Cluster) -> Result<()> {
    // Each four minutes, and not within the next two: 105 times are missed.
    let minute = (Timestamp::now().as_second() / 60 + 3) % 4;
    let schedule = format!("{minute}-59/4 * * * *");
    let cron = cluster.create(&cron_job(json!({"schedule": schedule, "suspend": true}))).await?;
    sleep(7 * 60 * MINUTE).await;
    assert!(cluster.list::<Job>().await?.is_empty());
    cluster.patch(&cron, json!({"spec": {"suspend": false}})).await?;
    sleep(MINUTE).await;
    assert_eq!(cluster.list::<Job>().await?.len(), 1);
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_cron_job_runs_every_ten_minutes(cluster: Cluster) -> Result<()> {
    cluster.create(&cron_job(json!({"schedule": "@every 10m"}))).await?;
    sleep(61 * MINUTE).await;
    assert_eq!(cluster.list::<Job>().await?.len(), 6);
    Ok(())
}
