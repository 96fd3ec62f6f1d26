//! The limit of `managedFields`.

use std::collections::HashMap;

use super::managed::{Manager, Operation, Owners};
use crate::time::unix_seconds;

/// Maximum number of updating managers with separate entries.
const MAX_UPDATERS: usize = 10;

/// The name of the entry into which the oldest are merged.
const ANCIENT: &str = "ancient-changes";

/// Merges the oldest entries of updaters into one of each version, until not
/// more than ten are left. Appliers aren't counted.
pub(super) fn cap(owners: &mut Owners) {
    let updaters = owners.iter().filter(|(manager, _)| manager.operation == Operation::Update);
    let seconds = |time: &Option<String>| time.as_deref().map_or(0, unix_seconds);
    let mut updaters: Vec<_> = updaters.map(|(manager, owned)| (seconds(&owned.time), manager.clone())).collect();
    let mut count = updaters.len();
    if count <= MAX_UPDATERS {
        return;
    }
    updaters.sort_by_cached_key(|(seconds, manager)| (*seconds, manager.identifier()));

    // The oldest of each version keeps its entry until a second joins it.
    let mut first_of_version: HashMap<String, Manager> = HashMap::new();
    for (_, manager) in updaters {
        if count <= MAX_UPDATERS {
            break;
        }
        let Some(api_version) = owners.get(&manager).map(|owned| owned.api_version.clone()) else { continue };
        let Some(first) = first_of_version.get(&api_version) else {
            first_of_version.insert(api_version, manager);
            continue;
        };
        let bucket = Manager {
            name: ANCIENT.to_owned(),
            operation: Operation::Update,
            api_version: api_version.clone(),
            subresource: String::new(),
        };
        let Some(merged) = owners.remove(&manager) else { continue };
        let oldest = owners.remove(&bucket).or_else(|| owners.remove(first));
        let set = oldest.map(|owned| owned.set).unwrap_or_default().union(&merged.set);
        owners.insert(bucket, super::managed::Owned { set, ..merged });
        count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::managed::Owned;
    use super::super::path::Path;
    use super::*;

    fn updater(name: &str, second: usize) -> (Manager, Owned) {
        let api_version = "v1".to_owned();
        let set = [&Path::of_fields(&["data", name])].into_iter().collect();
        let time = Some(format!("2026-01-01T00:00:{second:02}Z"));
        let manager = Manager {
            name: name.to_owned(),
            operation: Operation::Update,
            api_version: api_version.clone(),
            subresource: String::new(),
        };
        (manager, Owned { set, api_version, time })
    }

    /// All times of the recorded history are in one second.
    #[test]
    fn the_oldest_updaters_share_an_entry_with_the_time_of_the_last_of_them() {
        let mut owners: Owners = (0..12).map(|second| updater(&format!("m{:02}", 11 - second), second)).collect();
        cap(&mut owners);
        let names: Vec<_> = owners.keys().map(|manager| manager.name.as_str()).collect();
        assert_eq!(names, ["ancient-changes", "m00", "m01", "m02", "m03", "m04", "m05", "m06", "m07", "m08"]);
        let ancient = owners.values().next().expect("there are owners");
        assert_eq!(ancient.time.as_deref(), Some("2026-01-01T00:00:02Z"));
    }
}
