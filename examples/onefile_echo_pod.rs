//! Logs every pod: a whole controller in one file.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig:
//! `cargo run --bin onefile-echo-pod -- dev`
//!
//! Try, with the KUBECONFIG that it prints: `kubectl run ben --image=nginx`. The log has `seen pod=ben`, with
//! `reasons=added`, and then `reasons=modified` as the pod is scheduled and started.

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

/// Logs every pod.
#[kooper::controller(resource = Pod)]
async fn echo(pod: Arc<Pod>) -> Result<()> {
    tracing::info!(pod = %pod.name_any(), namespace = pod.namespace(), "seen");
    Ok(())
}
