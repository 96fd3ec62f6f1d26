//! Default objects of each namespace.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::{bootstrap, meta};

/// Creates what a namespace lacks, unless it is going.
pub(super) fn provision(cluster: &Arc<Cluster>, namespace: &str) {
    let found = cluster.kind("", "v1", "namespaces").and_then(|kind| kind.table.get(namespace));
    if found.is_some_and(|object| !meta::is_deleting(&object.value())) {
        bootstrap::provision(cluster, namespace);
    }
}
