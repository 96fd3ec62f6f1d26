//! One handler for objects of several kinds. Each kind has its own controller,
//! with its own watch and queue: if the program may not read one kind, the
//! others are still handled.
//!
//! Run it without a cluster; without `dev` it runs in the cluster of your kubeconfig:
//! `cargo run --bin multi-resource -- dev`
//!
//! Try, with the KUBECONFIG that it prints: `kubectl scale deployment hello --replicas 2`. The log of the controller
//! `multi-resource-deployment` has `kind=Deployment object=default/hello generation=2`; the other one logs nothing.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kooper::prelude::*;

/// Logs every Deployment and every StatefulSet.
#[kooper::controller(resource = [Deployment, StatefulSet], workers = 1, resync = "45s", retries = 5)]
async fn multi_resource<K: Kind>(object: Arc<K>, call: Call) {
    tracing::info!(kind = %K::kind(&()), object = %call.key(), generation = object.meta().generation, "seen");
}
