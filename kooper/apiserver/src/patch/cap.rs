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
