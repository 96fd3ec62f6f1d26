//! The rows of the kinds that store data.

use serde_json::{Value, json};

use super::row::{Row, or_none, plain};

const CLASS: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";

pub(super) fn volume(row: Row<'_>) -> Vec<Value> {
    let claim = row.at("/spec/claimRef");
    let claim = if claim.is_object() {
        let text = |key: &str| claim[key].as_str().unwrap_or_default();
        format!("{}/{}", text("namespace"), text("name"))
    } else {
        String::new()
    };
    let capacity = row.text("/spec/capacity/storage");
    vec![
        row.name(),
        json!(if capacity.is_empty() { "0" } else { capacity }),
        json!(modes(row.items("/spec/accessModes"))),
        json!(row.text("/spec/persistentVolumeReclaimPolicy")),
        phase(row),
        json!(claim),
        class(row),
        row.text_or("/spec/volumeAttributesClassName", "<unset>"),
        json!(row.text("/status/reason")),
        row.age(),
        row.text_or("/spec/volumeMode", "<unset>"),
    ]
}

pub(super) fn claim(row: Row<'_>) -> Vec<Value> {
    let name = row.text("/spec/volumeName");
    let (capacity, modes) = if name.is_empty() {
        (String::new(), String::new())
    } else {
        let capacity = row.text("/status/capacity/storage");
        (if capacity.is_empty() { "0" } else { capacity }.to_owned(), modes(row.items("/status/accessModes")))
    };
    vec![
        row.name(),
        phase(row),
        json!(name),
        json!(capacity),
        json!(modes),
        class(row),
        row.text_or("/spec/volumeAttributesClassName", "<unset>"),
        row.age(),
        row.text_or("/spec/volumeMode", "<unset>"),
    ]
}

fn phase(row: Row<'_>) -> Value {
    json!(if row.is_deleting() { "Terminating" } else { row.text("/status/phase") })
}

/// The class of a volume or a claim; an annotation comes before the field.
fn class(row: Row<'_>) -> Value {
    let old = row.text(CLASS);
    json!(if old.is_empty() { row.text("/spec/storageClassName") } else { old })
}

/// The ways in which a volume can be mounted, shortened.
fn modes(given: &[Value]) -> String {
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let found: Vec<_> =
        short.into_iter().filter(|(mode, _)| given.iter().any(|one| one == mode)).map(|(_, short)| short).collect();
    found.join(",")
}

pub(super) fn storage_class(row: Row<'_>) -> Vec<Value> {
    vec![
        super::marked(row, "storageclass.kubernetes.io/is-default-class"),
        json!(row.text("/provisioner")),
        row.text_or("/reclaimPolicy", "Delete"),
        row.text_or("/volumeBindingMode", "Immediate"),
        json!(row.flag("/allowVolumeExpansion")),
        row.age(),
    ]
}

pub(super) fn attributes_class(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("/driverName")), row.age()]
}

pub(super) fn attachment(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        json!(row.text("/spec/attacher")),
        json!(row.text("/spec/source/persistentVolumeName")),
        json!(row.text("/spec/nodeName")),
        json!(row.flag("/status/attached")),
        row.age(),
    ]
}

pub(super) fn csi_driver(row: Row<'_>) -> Vec<Value> {
    let tokens = row.at("/spec/tokenRequests").as_array();
    let tokens = tokens.map_or_else(
        || "<unset>".to_owned(),
        |all| all.iter().map(|one| plain(&one["audience"])).collect::<Vec<_>>().join(","),
    );
    let modes: Vec<_> = row.items("/spec/volumeLifecycleModes").iter().map(plain).collect();
    vec![
        row.name(),
        json!(row.at("/spec/attachRequired") != false),
        json!(row.flag("/spec/podInfoOnMount")),
        json!(row.flag("/spec/storageCapacity")),
        json!(tokens),
        json!(row.flag("/spec/requiresRepublish")),
        or_none(modes.join(",")),
        row.age(),
    ]
}

pub(super) fn csi_node(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.count("/spec/drivers")), row.age()]
}

pub(super) fn csi_capacity(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("/storageClassName")), row.text_or("/capacity", "<unset>")]
}
