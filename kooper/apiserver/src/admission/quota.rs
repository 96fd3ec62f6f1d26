//! The plugin `ResourceQuota`: the objects of a namespace together use no more than its quotas allow.

use std::sync::Arc;

use serde_json::Value;

use super::{in_namespace, not_admitted};
use crate::amounts::Amounts;
use crate::cluster::Cluster;
use crate::fields;
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::store::Draft;
use crate::{meta, registry, route, usage};

/// Charges the quotas of a namespace with a new object, or with what an update adds, or refuses it.
pub(super) fn charge(
    cluster: &Arc<Cluster>,
    kind: &Kind,
    object: &Value,
    present: Option<&Value>,
    dry_run: bool,
) -> Result<(), StatusError> {
    if !usage::is_counted(kind) || !is_handled(kind, object, present) {
        return Ok(());
    }
    let quotas = in_namespace(cluster, "resourcequotas", meta::text(object, "namespace"));
    // Nothing is charged before all quotas allow it.
    let mut charged = Vec::new();
    for quota in &quotas {
        if charge_one(kind, object, present, quota)?.is_some() {
            charged.push(meta::text(quota, "name"));
        }
    }
    if dry_run {
        return Ok(());
    }
    let Some(table) = cluster.kind("", "v1", "resourcequotas") else { return Ok(()) };
    for name in charged {
        let key = route::key(meta::text(object, "namespace"), name);
        // Another request may charge the same quota.
        while let Some(stored) = table.table.get(&key) {
            let quota = stored.value();
            let Some(used) = charge_one(kind, object, present, &quota)? else { break };
            let mut next = quota.clone();
            next["status"]["used"] = used.to_value();
            let next = fields::updated(cluster, &table, "status", &quota, next, "kube-apiserver");
            if table.table.put(&key, Some(stored.version), Draft::new(&next, registry::traits(&table, &next))).is_ok() {
                break;
            }
        }
    }
    Ok(())
}

/// The writes that may change what is used.
fn is_handled(kind: &Kind, object: &Value, present: Option<&Value>) -> bool {
    let Some(present) = present else { return true };
    registry::of(kind).may_change_usage(object, present)
}

/// Returns the usage of a quota including the object, or `None` if the object does not change it.
fn charge_one(
    kind: &Kind,
    object: &Value,
    present: Option<&Value>,
    quota: &Value,
) -> Result<Option<Amounts>, StatusError> {
    let (hard, used) = (Amounts::read(&quota["status"]["hard"]), Amounts::read(&quota["status"]["used"]));
    let limited: Vec<&str> = hard.names().filter(|name| usage::counts_for(kind, name)).collect();
    if limited.is_empty() || !usage::is_in_scope(kind, object, quota) {
        return Ok(None);
    }
    let quota_name = meta::text(quota, "name");
    if let Some(missing) = registry::of(kind).unnamed_usage(object, &limited) {
        return Err(not_admitted(kind, object, format!("failed quota: {quota_name}: {missing}")));
    }
    if limited.iter().any(|name| used.get(name).is_none()) {
        let why = format!("status unknown for quota: {quota_name}, resources: {}", limited.join(","));
        return Err(not_admitted(kind, object, why));
    }
    let wanted = usage::of(kind, object);
    let before = present.filter(|present| usage::is_in_scope(kind, present, quota));
    let before = before.map_or_else(Amounts::default, |present| usage::of(kind, present));
    let more = wanted.beyond(&before).only(|name| hard.get(name).is_some());
    if more.is_empty() {
        return Ok(None);
    }
    let mut total = used.clone();
    total.add(&more);
    let exceeds = |name: &str| {
        let (total, hard) = (total.get(name), hard.get(name));
        more.get(name).is_some() && total.zip(hard).is_some_and(|(total, hard)| total.exceeds(hard))
    };
    let over = more.only(exceeds);
    if !over.is_empty() {
        let why = format!(
            "exceeded quota: {quota_name}, requested: {}, used: {}, limited: {}",
            over.shown(),
            used.only(exceeds).shown(),
            hard.only(exceeds).shown()
        );
        return Err(not_admitted(kind, object, why));
    }
    Ok(Some(total))
}
