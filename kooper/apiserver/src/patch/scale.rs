//! Owners of the number of replicas, as the `scale` subresource sees them.
//!
//! A Scale is another object than the one it scales: of the owners of that,
//! it has those of the replicas, and what a write of the Scale makes of them
//! is carried back (`scalehandler.go` of apimachinery).

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::FieldSet;
use super::managed::{Owned, Owners, decode, encode};
use super::path::Path;

/// The version of Scales.
pub const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the versions of a kind have their replicas; `None` for a version of
/// a custom resource without the subresource.
pub type ReplicasPaths = BTreeMap<String, Option<Path>>;

/// The `managedFields` of a Scale.
///
/// # Errors
///
/// If those of the scaled object can't be read.
pub fn to_scale(scaled: &Value, paths: &ReplicasPaths) -> Result<Vec<Value>, String> {
    let owners = decode(scaled)?.into_iter().filter_map(|(manager, owned)| {
        let path = paths.get(&owned.api_version)?.as_ref()?;
        let api_version = SCALE_VERSION.to_owned();
        owned.set.contains(&path.0).then_some((manager, Owned { set: replicas(), api_version, time: owned.time }))
    });
    Ok(encode(&owners.collect()))
}

/// The `managedFields` of the scaled object, after a write in `api_version`
/// that left the Scale with the given ones.
///
/// As on the real server, what a write of the Scale leaves to others is theirs
/// in a new entry, and such entries have no time.
///
/// # Errors
///
/// If either can't be read.
pub fn to_scaled(
    before: &Value,
    scale: &Value,
    api_version: &str,
    paths: &ReplicasPaths,
) -> Result<Vec<Value>, String> {
    let before = decode(before)?;
    let mut scale = decode(scale)?;
    let mut owners = Owners::new();
    for (manager, owned) in &before {
        let mut owned = owned.clone();
        // Versions that aren't served any more are given up.
        let Some(path) = paths.get(&owned.api_version) else { continue };
        if let Some(path) = path.as_ref().filter(|path| owned.set.contains(&path.0))
            && scale.remove(manager).is_none()
        {
            owned.set = owned.set.difference(&[path].into_iter().collect());
        }
        if !owned.set.is_empty() {
            owners.insert(manager.clone(), owned);
        }
    }
    let Some(Some(path)) = paths.get(api_version) else { return Ok(encode(&owners)) };
    let set: FieldSet = [path].into_iter().collect();
    for (manager, owned) in scale {
        if !owned.set.intersection(&replicas()).is_empty() {
            let time = before.get(&manager).and_then(|owned| owned.time.clone());
            owners.insert(manager, Owned { set: set.clone(), api_version: api_version.to_owned(), time });
        }
    }
    Ok(encode(&owners))
}

/// The fields of a Scale that can have an owner.
fn replicas() -> FieldSet {
    [&Path::of_fields(&["spec", "replicas"])].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths() -> ReplicasPaths {
        [("apps/v1".to_owned(), Some(Path::of_fields(&["spec", "replicas"])))].into()
    }

    fn entry(manager: &str, version: &str, time: Option<&str>, fields: &[&str]) -> Value {
        let fields: serde_json::Map<_, _> = fields.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
        let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": version,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}});
        if let Some(time) = time {
            entry["time"] = time.into();
        }
        entry
    }

    /// As a real server answered.
    #[test]
    fn a_write_that_changes_nothing_parts_the_replicas_from_the_rest() {
        let time = Some("2026-01-01T00:00:00Z");
        let before = json!([entry("maker", "apps/v1", time, &["paused", "replicas"])]);
        let scale = to_scale(&before, &paths()).expect("it is valid");
        assert_eq!(scale, [entry("maker", SCALE_VERSION, time, &["replicas"])]);
        let after = to_scaled(&before, &scale.into(), "apps/v1", &paths()).expect("it is valid");
        let parted = [entry("maker", "apps/v1", None, &["replicas"]), entry("maker", "apps/v1", time, &["paused"])];
        assert_eq!(after, parted);
    }

    #[test]
    fn an_applier_of_the_scale_owns_the_replicas() {
        let time = Some("2026-01-01T00:00:00Z");
        let before = json!([
            entry("maker", "apps/v1", time, &["paused", "replicas"]),
            entry("gone", "apps/v0", time, &["replicas"]),
        ]);
        let mut applied = entry("applier", SCALE_VERSION, time, &["replicas"]);
        applied["operation"] = "Apply".into();
        applied["subresource"] = "scale".into();
        let after = to_scaled(&before, &json!([applied]), "apps/v1", &paths()).expect("it is valid");
        applied["apiVersion"] = "apps/v1".into();
        applied.as_object_mut().map(|entry| entry.remove("time"));
        assert_eq!(after, [applied, entry("maker", "apps/v1", time, &["paused"])]);
    }

    #[test]
    fn a_version_without_replicas_has_no_owners_of_them() {
        let paths = [("v1".to_owned(), None)].into();
        let before = json!([entry("maker", "v1", None, &["replicas"])]);
        assert_eq!(to_scale(&before, &paths), Ok(Vec::new()));
        let after = to_scaled(&before, &json!([]), "v1", &paths).expect("it is valid");
        assert_eq!(json!(after), before);
    }
}
