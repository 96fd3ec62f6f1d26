//! Concurrency of handlers, and the effect of slow ones on the queue.
//!
//! Every call sleeps for SLEEP_MS milliseconds, 25 unless it is set. Watch
//! `controller_runtime_active_workers` and `workqueue_depth` while you change
//! the number of workers and the resync interval, or turn resync off. Retries
//! are part of the code: three.
//!
//! Run it against the cluster of your kubeconfig:
//! `SLEEP_MS=500 cargo run --bin controller-concurrency -- --workers 10 --resync 45s`
//! `cargo run --bin controller-concurrency -- --workers 1 --resync off`
//! `curl http://localhost:8080/metrics`

use std::env::{self, VarError};

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

/// Sleeps for every pod.
#[kooper::controller(resource = Pod, resync = "45s", retries = 3, init = pause)]
async fn controller_concurrency(call: Call, pause: State<Duration>) {
    tokio::time::sleep(*pause).await;
    tracing::info!(pod = %call.key(), "seen");
}

/// Returns the duration of each call.
async fn pause() -> Result<Duration> {
    match env::var("SLEEP_MS").as_deref().map(str::parse) {
        Ok(Ok(milliseconds)) => Ok(Duration::from_millis(milliseconds)),
        Err(VarError::NotPresent) => Ok(Duration::from_millis(25)),
        _ => Err("SLEEP_MS is not a whole number: write milliseconds, such as SLEEP_MS=500".into()),
    }
}
