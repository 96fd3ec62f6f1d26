//! Tables, as `kubectl get` shows them.
//!
//! The columns of the built-in kinds are dumped from Kubernetes; their cells are made here.

mod cluster;
mod columns;
mod network;
mod pod;
mod row;
mod storage;
mod workload;

use serde_json::{Value, json};

use self::columns::{COLUMNS, column};
use self::row::Row;
pub(crate) use self::row::selector_text;
use crate::kinds::Kind;

/// A table with a row for each object; columns are left out after the first part of a watch.
pub(crate) fn table<'a>(
    kind: &Kind,
    metadata: &Value,
    objects: impl Iterator<Item = &'a Value>,
    columns: bool,
) -> Value {
    let rows: Vec<_> = objects
        .map(|object| {
            let stored = internal(kind, object);
            let object = stored.as_ref().unwrap_or(object);
            let about = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
            let mut row = json!({"cells": cells(kind, object), "object": about});
            if kind.custom.is_none()
                && kind.kind == "Pod"
                && let Some(conditions) = pod::conditions(Row(object))
            {
                row["conditions"] = conditions;
            }
            row
        })
        .collect();
    // Kinds without columns of their own have no list of rows rather than an empty one.
    let plain = kind.custom.is_none() && !COLUMNS.contains_key(kind.kind.as_str());
    let rows = if plain && rows.is_empty() { Value::Null } else { json!(rows) };
    let definitions = if columns { json!(definitions(kind)) } else { Value::Null };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows
    })
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
                    may allow a client to request the generation of an appropriate name automatically. Name is primarily \
                    intended for creation idempotence and configuration definition. Cannot be updated. More info: \
                    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
                       not guaranteed to be set in happens-before order across separate operations. Clients may not set \
                       this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. \
                       Read-only. Null for lists. More info: \
                       https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// What a row shows, where that differs from the object: rows have none of the annotations that stand for fields.
fn internal(kind: &Kind, object: &Value) -> Option<Value> {
    if let Some((_, conversion)) = &kind.stored {
        let mut stored = object.clone();
        conversion.store(&mut stored);
        return Some(stored);
    }
    if kind.custom.is_some() || kind.kind != "DaemonSet" {
        return None;
    }
    let mut object = object.clone();
    crate::prepare::drop_template_generation(&mut object);
    Some(object)
}

fn definitions(kind: &Kind) -> Vec<Value> {
    let name = || column("Name", "string", "name", NAME, 0);
    match &kind.custom {
        Some(definition) if !definition.columns.is_empty() => std::iter::once(name())
            .chain(
                definition
                    .columns
                    .iter()
                    .map(|one| column(&one.name, &one.kind, &one.format, &one.description, one.priority)),
            )
            .collect(),
        Some(_) => vec![name(), column("Age", "date", "", CREATED, 0)],
        None => match COLUMNS.get(kind.kind.as_str()) {
            Some(columns) => columns.clone(),
            None => vec![name(), column("Created At", "date", "", CREATED, 0)],
        },
    }
}

fn cells(kind: &Kind, object: &Value) -> Vec<Value> {
    let row = Row(object);
    match &kind.custom {
        Some(definition) if !definition.columns.is_empty() => {
            std::iter::once(row.name()).chain(definition.columns.iter().map(|column| column.cell(object))).collect()
        }
        Some(_) => vec![row.name(), row.age()],
        None => builtin(&kind.kind, row),
    }
}

/// The cells of a built-in kind.
fn builtin(kind: &str, row: Row<'_>) -> Vec<Value> {
    match kind {
        "Pod" => pod::cells(row),
        "PodTemplate" => workload::pod_template(row),
        "ReplicationController" => workload::replica_set(row, true),
        "ReplicaSet" => workload::replica_set(row, false),
        "Deployment" => workload::deployment(row),
        "StatefulSet" => workload::stateful_set(row),
        "DaemonSet" => workload::daemon_set(row),
        "Job" => workload::job(row),
        "CronJob" => workload::cron_job(row),
        "ControllerRevision" => workload::controller_revision(row),
        "PodDisruptionBudget" => workload::disruption_budget(row),
        "HorizontalPodAutoscaler" => workload::autoscaler(row),
        "Service" => network::service(row),
        "Ingress" => network::ingress(row),
        "IngressClass" => network::ingress_class(row),
        "NetworkPolicy" => network::network_policy(row),
        "Endpoints" => network::endpoints(row),
        "EndpointSlice" => network::endpoint_slice(row),
        "ServiceCIDR" => network::service_cidr(row),
        "IPAddress" => network::ip_address(row),
        "PersistentVolume" => storage::volume(row),
        "PersistentVolumeClaim" => storage::claim(row),
        "StorageClass" => storage::storage_class(row),
        "VolumeAttributesClass" => storage::attributes_class(row),
        "VolumeAttachment" => storage::attachment(row),
        "CSIDriver" => storage::csi_driver(row),
        "CSINode" => storage::csi_node(row),
        "CSIStorageCapacity" => storage::csi_capacity(row),
        "Node" => cluster::node(row),
        "Event" => cluster::event(row),
        "RoleBinding" | "ClusterRoleBinding" => cluster::binding(row),
        "ResourceQuota" => cluster::quota(row),
        "PriorityClass" => cluster::priority_class(row),
        "CertificateSigningRequest" => cluster::signing_request(row),
        "ValidatingAdmissionPolicy" => cluster::admission_policy(row, "/spec/validations"),
        "MutatingAdmissionPolicy" => cluster::admission_policy(row, "/spec/mutations"),
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => cluster::admission_binding(row),
        "FlowSchema" => cluster::flow_schema(row),
        "PriorityLevelConfiguration" => cluster::priority_level(row),
        "ResourceClaim" => cluster::resource_claim(row),
        "ResourceSlice" => cluster::resource_slice(row),
        "ConfigMap" => vec![row.name(), json!(row.count("/data") + row.count("/binaryData")), row.age()],
        "Secret" => vec![row.name(), json!(row.text("/type")), json!(row.count("/data")), row.age()],
        "Namespace" => vec![row.name(), json!(row.text("/status/phase")), row.age()],
        "Lease" => vec![row.name(), json!(row.text("/spec/holderIdentity")), row.age()],
        "RuntimeClass" => vec![row.name(), json!(row.text("/handler")), row.age()],
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![row.name(), json!(row.count("/webhooks")), row.age()]
        }
        _ if COLUMNS.contains_key(kind) => vec![row.name(), row.age()],
        _ => vec![row.name(), json!(row.text("/metadata/creationTimestamp"))],
    }
}

/// The name, with a mark where an annotation makes this the default.
fn marked(row: Row<'_>, annotation: &str) -> Value {
    let default = row.at("/metadata/annotations")[annotation] == "true";
    json!(format!("{}{}", row.text("/metadata/name"), if default { " (default)" } else { "" }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::columns::COLUMNS;
    use super::row::Row;
    use super::{builtin, pod};

    #[test]
    fn every_column_has_a_cell() {
        let object = json!({"metadata": {"name": "a"}});
        for (kind, columns) in COLUMNS.iter() {
            // The real server writes an age that no column shows.
            let more = usize::from(*kind == "IPAddress");
            assert_eq!(builtin(kind, Row(&object)).len(), columns.len() + more, "{kind}");
        }
    }

    fn shown(kind: &str, object: &Value) -> Vec<String> {
        builtin(kind, Row(object)).iter().map(super::row::plain).collect()
    }

    #[test]
    fn a_pod_shows_why_its_container_waits() {
        let mut pod = json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c"}, {"name": "d"}]},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "c", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
                {"name": "d", "ready": true, "restartCount": 1, "state": {"running": {}}}
            ]}
        });
        assert_eq!(shown("Pod", &pod)[1..4], ["1/2", "CrashLoopBackOff", "4"]);
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        assert_eq!(shown("Pod", &pod)[2], "Terminating");
        pod["status"] = json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]});
        pod["spec"]["initContainers"] = json!([{"name": "i"}]);
        pod["metadata"] = json!({"name": "a"});
        assert_eq!(shown("Pod", &pod)[1..4], ["0/2", "Init:0/1", "0"]);
        assert!(pod::conditions(Row(&json!({"status": {"phase": "Failed"}}))).is_some());
    }

    #[test]
    fn an_autoscaler_shows_its_metrics() {
        let metric = |share: i64| json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": share}}});
        let status = json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 30}}}]);
        let scaler = json!({
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "a"}, "metrics": [metric(50), metric(60), metric(70)]},
            "status": {"currentMetrics": status}
        });
        assert_eq!(
            shown("HorizontalPodAutoscaler", &scaler)[1..3],
            ["Deployment/a", "cpu: 30%/50%, cpu: <unknown>/60% + 1 more..."]
        );
    }

    #[test]
    fn an_ingress_shows_three_hosts() {
        let hosts = |hosts: &[&str]| json!({"spec": {"rules": hosts.iter().map(|host| json!({"host": host})).collect::<Vec<_>>()}});
        assert_eq!(shown("Ingress", &hosts(&[]))[2], "*");
        assert_eq!(shown("Ingress", &hosts(&["a", "b", "c"]))[2], "a,b,c");
        assert_eq!(shown("Ingress", &hosts(&["a", "b", "c", "d", "e"]))[2], "a,b,c + 2 more...");
    }
}
