//! Claims and volumes that are marked for deletion stay while they are used.

use std::sync::Arc;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::{meta, route};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

/// Lets the claims of a namespace go that no pod uses.
pub(super) fn release_claims(cluster: &Arc<Cluster>, namespace: &str) {
    let (Some(claims), Some(pods)) = (cluster.kind("", "v1", "persistentvolumeclaims"), cluster.kind("", "v1", "pods"))
    else {
        return;
    };
    let snapshot = claims.table.snapshot();
    let marked = snapshot.tree.in_namespace(namespace).filter(|(_, claim)| is_held(&claim.value(), CLAIM));
    let marked: Vec<_> = marked.map(|(key, _)| Arc::clone(key)).collect();
    if marked.is_empty() {
        return;
    }
    let snapshot = pods.table.snapshot();
    let used = snapshot.tree.in_namespace(namespace).flat_map(|(_, pod)| claims_of(&pod.value()));
    let used: Vec<String> = used.map(|name| route::key(namespace, &name)).collect();
    for key in marked {
        if !used.iter().any(|used| *used == *key) {
            super::remove_finalizer(cluster, &claims, &key, CLAIM);
        }
    }
}

/// Lets a volume go that is not bound to a claim.
pub(super) fn release_volume(cluster: &Arc<Cluster>, name: &str) {
    let Some(volumes) = cluster.kind("", "v1", "persistentvolumes") else { return };
    let Some(volume) = volumes.table.get(name).map(|object| object.value()) else { return };
    if is_held(&volume, VOLUME) && volume["status"]["phase"] != "Bound" {
        super::remove_finalizer(cluster, &volumes, name, VOLUME);
    }
}

fn is_held(object: &Value, finalizer: &str) -> bool {
    meta::is_deleting(object) && meta::finalizers(object).contains(&finalizer)
}

/// The claims that a pod uses, also after it has ended.
fn claims_of(pod: &Value) -> Vec<String> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let pod_name = meta::text(pod, "name");
    let names = volumes.filter_map(|volume| {
        let own =
            || volume.get("ephemeral").map(|_| format!("{pod_name}-{}", volume["name"].as_str().unwrap_or_default()));
        volume["persistentVolumeClaim"]["claimName"].as_str().map(ToOwned::to_owned).or_else(own)
    });
    names.collect()
}
