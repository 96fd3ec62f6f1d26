//! The plugin `ServiceAccount`: each pod acts as a service account, and finds a token of it in a volume.

use std::sync::Arc;

use serde_json::{Value, json};

use super::forbidden;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::{meta, random, route};

/// The name of the volume, before its suffix.
const VOLUME: &str = "kube-api-access-";
/// Where containers find the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// `expirationSeconds` of the token in the volume.
const TOKEN_SECONDS: u64 = 3607;
/// A pod that a kubelet has from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(super) fn admit(cluster: &Arc<Cluster>, kind: &Kind, pod: &mut Value) -> Result<(), StatusError> {
    if !cluster.accounts {
        return Ok(());
    }
    if pod["metadata"]["annotations"].get(MIRROR).is_some() {
        return check_mirror(kind, pod);
    }
    let name = match pod["spec"]["serviceAccountName"].as_str().unwrap_or_default() {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    pod["spec"]["serviceAccountName"] = json!(name);
    pod["spec"]["serviceAccount"] = json!(name);
    let namespace = meta::text(pod, "namespace");
    let accounts = cluster.kind("", "v1", "serviceaccounts");
    let Some(account) = accounts.and_then(|kind| kind.table.get(&route::key(namespace, &name))) else {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(forbidden(kind, pod, why));
    };
    let account = account.value();
    let settings = [&pod["spec"], &account].map(|object| object["automountServiceAccountToken"].as_bool());
    if settings.into_iter().flatten().next().unwrap_or(true) {
        mount_token(pod);
    }
    if pod["spec"]["imagePullSecrets"].as_array().is_none_or(Vec::is_empty)
        && let Some(secrets) = account["imagePullSecrets"].as_array().filter(|secrets| !secrets.is_empty())
    {
        let names = secrets.iter().map(|secret| json!({"name": secret["name"]}));
        pod["spec"]["imagePullSecrets"] = names.collect();
    }
    Ok(())
}

fn check_mirror(kind: &Kind, pod: &Value) -> Result<(), StatusError> {
    let spec = &pod["spec"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    if !spec["serviceAccountName"].as_str().unwrap_or_default().is_empty() {
        return Err(forbidden(kind, pod, "a mirror pod may not reference service accounts"));
    }
    let volumes = list(&spec["volumes"]);
    if volumes.iter().any(|volume| volume.get("secret").is_some()) {
        return Err(forbidden(kind, pod, "a mirror pod may not reference secrets"));
    }
    let mut sources = volumes.iter().flat_map(|volume| list(&volume["projected"]["sources"]));
    if sources.any(|source| source.get("serviceAccountToken").is_some()) {
        return Err(forbidden(kind, pod, "a mirror pod may not use ServiceAccountToken volume projections"));
    }
    Ok(())
}

/// Adds the volume of the token, and mounts it in all containers that have nothing at its place.
fn mount_token(pod: &mut Value) {
    let spec = &mut pod["spec"];
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let present = volumes.filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with(VOLUME));
    let present = present.map(ToOwned::to_owned);
    let name = present.clone().unwrap_or_else(|| format!("{VOLUME}{}", random::suffix()));
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            needed = true;
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
            container["volumeMounts"] = json!(mounts);
        }
    }
    if present.is_some() || !needed {
        return;
    }
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let volume = json!({"name": name, "projected": {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}}
        ],
        "defaultMode": 0o644
    }});
    match &mut spec["volumes"] {
        Value::Array(volumes) => volumes.push(volume),
        volumes => *volumes = json!([volume]),
    }
}
