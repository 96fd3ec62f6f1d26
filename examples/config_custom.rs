//! A controller with custom settings: one worker, a resync every 45 seconds,
//! and five retries of a failing pod.
//!
//! Flags take precedence over these settings: see `--help`.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig:
//! `cargo run --bin config-custom -- dev`
//!
//! Try, with the KUBECONFIG that it prints: `kubectl run very-broken --image=nginx`. The log has six attempts, with
//! twice the delay after each, and then `it waits for a change or its resync`.

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

/// Logs every pod; one whose name ends in `-broken` fails.
#[kooper::controller(resource = Pod, workers = 1, resync = "45s", retries = 5)]
async fn config_custom(pod: Arc<Pod>, call: Call) -> Result<()> {
    if pod.name_any().ends_with("-broken") {
        return Err(format!("attempt {} came to nothing", call.attempt()).into());
    }
    tracing::info!(pod = %call.key(), "seen");
    Ok(())
}
