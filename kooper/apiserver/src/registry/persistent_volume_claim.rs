//! PersistentVolumeClaims.

use serde_json::{Value, json};

use super::persistent_volume::{class, modes, phase};
use super::row::Row;
use super::strategy::{Strategy, keep};
use crate::amounts::Amounts;
use crate::quantity::Quantity;
use crate::task::Task;
use crate::validate::field_value::FieldValue;
use crate::validate::{Write, resources, selector};
use crate::{form, meta};

const ACCESS: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Quota resources for claims.
const COUNTED: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// Between the name of a storage class and what is counted for it.
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";

pub(super) struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn follow_up(&self, object: &Value, deleted: bool) -> Option<Task> {
        (!deleted && meta::is_deleting(object)).then(|| Task::Claims(meta::text(object, "namespace").to_owned()))
    }

    fn validate(&self, object: &FieldValue<'_>, write: Write<'_>) {
        let spec = object.field("spec");
        validate_spec(&spec);
        let Some(present) = write.present() else { return };
        let old = &present["spec"];
        let bound = present["status"]["phase"] == "Bound";
        let mut next = spec.value.clone();
        if old["volumeName"].as_str().unwrap_or_default().is_empty() {
            keep(&mut next, old, "volumeName");
        }
        if bound {
            if let Some(resources) = next.get_mut("resources") {
                keep(resources, &old["resources"], "requests");
            }
            keep(&mut next, old, "volumeAttributesClassName");
        }
        if next != *old {
            spec.forbidden(
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n",
            );
        }
        let size = spec.field("resources.requests.storage");
        let [before, capacity] = [&old["resources"]["requests"]["storage"], &present["status"]["capacity"]["storage"]]
            .map(|value| value.as_str().and_then(Quantity::parse));
        if let (Some(size_now), Some(before)) = (size.quantity(), before)
            && before.exceeds(size_now)
            && capacity.is_none_or(|capacity| !size_now.exceeds(capacity))
            && (capacity.is_some() || size_now.is_zero())
        {
            size.forbidden("field can not be less than status.capacity");
        }
    }

    fn cells(&self, row: Row<'_>) -> Option<Vec<Value>> {
        let name = row.text("/spec/volumeName");
        let (capacity, modes) = if name.is_empty() {
            (String::new(), String::new())
        } else {
            let capacity = row.text("/status/capacity/storage");
            (if capacity.is_empty() { "0" } else { capacity }.to_owned(), modes(row.items("/status/accessModes")))
        };
        Some(vec![
            row.name(),
            phase(row),
            json!(name),
            json!(capacity),
            json!(modes),
            class(row),
            row.text_or("/spec/volumeAttributesClassName", "<unset>"),
            row.age(),
            row.text_or("/spec/volumeMode", "<unset>"),
        ])
    }

    fn counts_for(&self, name: &str) -> bool {
        COUNTED.contains(&name.split_once(BY_CLASS).map_or(name, |(_, rest)| rest))
    }

    fn add_usage(&self, object: &Value, used: &mut Amounts) {
        let spec = &object["spec"];
        let annotated = object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
        let class = annotated.or_else(|| spec["storageClassName"].as_str()).filter(|class| !class.is_empty());
        let storage = Amounts::read(&spec["resources"]["requests"]).get("storage");
        for (name, amount) in [("persistentvolumeclaims", Some(Quantity::whole(1))), ("requests.storage", storage)] {
            let Some(amount) = amount else { continue };
            used.set(name, amount);
            if let Some(class) = class {
                used.set(format!("{class}{BY_CLASS}{name}"), amount);
            }
        }
    }

    fn may_change_usage(&self, _: &Value, _: &Value) -> bool {
        true
    }
}

/// The rules of the specification of a claim.
pub(super) fn validate_spec(spec: &FieldValue<'_>) {
    let modes = spec.field("accessModes");
    modes.required("at least 1 access mode is required");
    if spec.field("selector").is_set() {
        selector::validate(&spec.field("selector"));
    }
    for mode in modes.items() {
        if !ACCESS.contains(&mode.text()) {
            mode.named(modes.path().to_owned()).not_supported(&ACCESS);
        }
    }
    let has = |wanted: &str| modes.items().iter().any(|mode| mode.text() == wanted);
    if has("ReadWriteOncePod") && modes.items().iter().any(|mode| ACCESS[..3].contains(&mode.text())) {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
    let storage = spec.field("resources.requests.storage");
    let storage = storage.named(format!("{}[storage]", spec.field("resources").path()));
    match storage.quantity() {
        None => storage.require(""),
        Some(size) if size.is_negative() || size.is_zero() => {
            storage.invalid_as(&json!(size.to_string()), "must be greater than zero");
        }
        Some(_) => resources::quantity("storage", &storage),
    }
    spec.field("storageClassName").form(form::dns_subdomain);
    spec.field("volumeMode").one_of(&["Block", "Filesystem"]);
}
