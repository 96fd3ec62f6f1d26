//! Recounts the quota usage of a namespace after changes that can only reduce it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::amounts::Amounts;
use crate::cluster::Cluster;
use crate::quantity::Quantity;
use crate::store::Draft;
use crate::{fields, registry, usage};

/// Counts what the quotas of a namespace limit.
pub(super) fn count(cluster: &Arc<Cluster>, namespace: &str) {
    let Some(quotas) = cluster.kind("", "v1", "resourcequotas").filter(|_| cluster.accounts) else { return };
    let snapshot = quotas.table.snapshot();
    for (key, _) in snapshot.tree.in_namespace(namespace) {
        while let Some(stored) = quotas.table.get(key) {
            let quota = stored.value();
            let hard = Amounts::read(&quota["spec"]["hard"]);
            let used = used(cluster, namespace, &quota, &hard);
            let same =
                Amounts::read(&quota["status"]["used"]) == used && Amounts::read(&quota["status"]["hard"]) == hard;
            if same && quota["status"]["hard"].is_object() {
                break;
            }
            let mut next = quota.clone();
            next["status"] = json!({"hard": hard.to_value(), "used": used.to_value()});
            let next = fields::updated(cluster, &quotas, "status", &quota, next, "kube-controller-manager");
            if quotas.table.put(key, Some(stored.version), Draft::new(&next, registry::traits(&quotas, &next))).is_ok()
            {
                break;
            }
        }
    }
}

/// Returns the current usage of the resources that a quota limits.
fn used(cluster: &Arc<Cluster>, namespace: &str, quota: &Value, hard: &Amounts) -> Amounts {
    let mut used = Amounts::default();
    for kind in cluster.kinds().stored().filter(|kind| usage::is_counted(kind)) {
        let counted: Vec<_> = hard.names().filter(|name| usage::counts_for(kind, name)).collect();
        if counted.is_empty() {
            continue;
        }
        for name in &counted {
            used.set(*name, Quantity::ZERO);
        }
        let snapshot = kind.table.snapshot();
        for (_, object) in snapshot.tree.in_namespace(namespace) {
            let object = object.value();
            if usage::is_in_scope(kind, &object, quota) {
                used.add(&usage::of(kind, &object).only(|name| counted.contains(&name)));
            }
        }
    }
    used
}
