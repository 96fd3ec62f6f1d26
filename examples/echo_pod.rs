//! Logs created and deleted pods, and why the handler was called.
//!
//! A deleted pod still exists with a deletion timestamp for its grace period,
//! and until its finalizers are removed: `while_deleting` calls the handler for it,
//! too. It is not called for a pod that no longer exists.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig:
//! `cargo run --bin echo-pod -- dev`
//!
//! Try, with the KUBECONFIG that it prints: `kubectl delete pod hello`. The log has
//! `deleted pod=default/hello why=modified`. Without the key `while_deleting` it has nothing.

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

/// Logs pods, and those with a deletion timestamp as deleted.
#[kooper::controller(resource = Pod, while_deleting)]
async fn echo_pod(pod: Arc<Pod>, call: Call) {
    let what = if pod.metadata.deletion_timestamp.is_some() { "deleted" } else { "added" };
    tracing::info!(pod = %call.key(), why = %call.reasons(), "{what}");
}
