//! A controller with interesting metrics: it sleeps up to a second in each call
//! and fails in four of ten. Every program of Kooper serves these metrics.
//!
//! Run it against the cluster of your kubeconfig:
//! `cargo run --bin metrics -- --listen :7777`
//! `curl http://localhost:7777/metrics`

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

/// Succeeds or fails at random, after a random time.
#[kooper::controller(resource = Pod, resync = "30s", workers = 1)]
async fn metrics() -> Result<()> {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..1000))).await;
    if fastrand::u8(..10) % 3 == 0 { Err("bad luck".into()) } else { Ok(()) }
}
