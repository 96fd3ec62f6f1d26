//! Says which pods come and which go, and why it was told.
//!
//! A pod that is deleted stays for its grace period, and until its finalizers
//! are gone, with a deletion mark: that is what the handler sees. A pod that is
//! gone before its turn comes is not told of.
//!
//! Run it against the cluster of your kubeconfig, then create and delete a pod:
//! `cargo run --bin echo-pod`

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

/// Logs pods, and those on their way out as deleted.
#[kooper::controller(resource = Pod)]
async fn echo_pod(pod: Arc<Pod>, call: Call) {
    let what = if pod.metadata.deletion_timestamp.is_some() { "deleted" } else { "added" };
    tracing::info!(pod = %call.key(), why = %call.reasons(), "{what}");
}
