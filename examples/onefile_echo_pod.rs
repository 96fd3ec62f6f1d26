//! Logs every pod: a whole controller in one file.
//!
//! Run it without a cluster, or without `dev` in the cluster of your kubeconfig:
//! `cargo run --bin onefile-echo-pod -- dev`

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

/// Logs every pod.
#[kooper::controller(resource = Pod)]
async fn echo(pod: Arc<Pod>) -> Result<()> {
    tracing::info!(pod = %pod.name_any(), namespace = pod.namespace(), "seen");
    Ok(())
}
