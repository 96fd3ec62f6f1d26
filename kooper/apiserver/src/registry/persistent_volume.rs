//! PersistentVolumes.

use serde_json::{Value, json};

use super::row::Row;
use super::strategy::{Allocation, Strategy};
use crate::kinds::Kind;
use crate::status::StatusError;
use crate::task::Task;
use crate::{meta, time};

const CLASS: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";

pub(super) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn prepare_for_create(&self, _: &Kind, object: &mut Value, _: Allocation) -> Result<(), StatusError> {
        object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": time::now()});
        Ok(())
    }

    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        (!deleted && meta::is_deleting(object)).then(|| Task::Volume(meta::text(object, "name").to_owned()))
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let claim = row.at("/spec/claimRef");
        let claim = if claim.is_object() {
            let text = |key: &str| claim[key].as_str().unwrap_or_default();
            format!("{}/{}", text("namespace"), text("name"))
        } else {
            String::new()
        };
        let capacity = row.text("/spec/capacity/storage");
        Some(vec![
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
        ])
    }
}

pub(super) fn phase(row: Row<'_>) -> Value {
    json!(if row.is_deleting() { "Terminating" } else { row.text("/status/phase") })
}

/// The class of a volume or a claim; an annotation comes before the field.
pub(super) fn class(row: Row<'_>) -> Value {
    let old = row.text(CLASS);
    json!(if old.is_empty() { row.text("/spec/storageClassName") } else { old })
}

/// The ways in which a volume can be mounted, shortened.
pub(super) fn modes(given: &[Value]) -> String {
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let found: Vec<_> =
        short.into_iter().filter(|(mode, _)| given.iter().any(|one| one == mode)).map(|(_, short)| short).collect();
    found.join(",")
}
