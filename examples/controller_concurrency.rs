//! Concurrency of handlers, and the effect of slow ones on the queue.
//!
//! Every call sleeps for SLEEP_MS milliseconds, 25 unless it is set. The number of workers and the resync interval
//! are flags. Retries are part of the code: three.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig:
//! `SLEEP_MS=500 cargo run --bin controller-concurrency -- dev --workers 1`
//!
//! Try, with the KUBECONFIG that it prints: `for n in 1 2 3 4 5 6; do kubectl run pod-$n --image=nginx; done`, and
//! `curl localhost:8080/metrics`. With one worker, `controller_runtime_active_workers` is 1 and `workqueue_depth` is
//! more than 0 for some seconds. With `--workers 10`, six workers are active and no pod waits.

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
