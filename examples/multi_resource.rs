//! One handler for objects of several kinds. Each kind has its own controller,
//! with its own watch and queue: if the program may not read one kind, the
//! others are still handled.
//!
//! Run it without a cluster, or without `dev` in the cluster of your kubeconfig:
//! `cargo run --bin multi-resource -- dev`

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kooper::prelude::*;

/// Logs every Deployment and every StatefulSet.
#[kooper::controller(resource = [Deployment, StatefulSet], workers = 1, resync = "45s", retries = 5)]
async fn multi_resource<K: Kind>(object: Arc<K>, call: Call) {
    tracing::info!(kind = %K::kind(&()), object = %call.key(), generation = object.meta().generation, "seen");
}
