//! What each namespace has from its beginning: a service account.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::{bootstrap, meta, route};

/// Creates what a namespace lacks.
pub(crate) fn provision(cluster: &Arc<Cluster>, namespace: &str) {
    let found = cluster.kind("", "v1", "namespaces").and_then(|kind| kind.table.get(namespace));
    if !cluster.accounts || found.is_none_or(|object| meta::is_deleting(&object.value())) {
        return;
    }
    let key = route::key(namespace, "default");
    let present = cluster.kind("", "v1", "serviceaccounts").and_then(|kind| kind.table.get(&key));
    if present.is_none() {
        bootstrap::put(cluster, ("", "v1", "serviceaccounts"), Some(namespace), bootstrap::account());
    }
}
