//! A controller with interesting metrics: it sleeps up to a second in each call
//! and fails in four of ten. Every program of Kooper serves these metrics.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig:
//! `cargo run --bin metrics -- dev --resync 1s`
//!
//! Try: `curl localhost:8080/metrics | grep total`. `controller_runtime_reconcile_total` counts successes and errors,
//! `workqueue_retries_total` the retries. `cargo run --bin metrics -- dashboard` prints a dashboard for Grafana.

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

/// Succeeds or fails at random, after a random time.
#[kooper::controller(resource = Pod, resync = "30s", workers = 1)]
async fn metrics() -> Result<()> {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..1000))).await;
    if fastrand::u8(..10) % 3 == 0 { Err("bad luck".into()) } else { Ok(()) }
}
