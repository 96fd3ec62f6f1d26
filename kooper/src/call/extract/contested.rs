//! Who waits for a child that is somebody else's.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use crate::object::key::ObjectKey;
use crate::watch::cache_id::CacheId;

/// The children that belong to others, each with the owners that were refused
/// it.
#[derive(Debug, Default)]
pub(crate) struct Contested(Mutex<HashMap<(CacheId, ObjectKey), BTreeSet<ObjectKey>>>);

impl Contested {
    /// An owner was refused a child.
    pub(crate) fn refused(&self, cache: CacheId, child: &ObjectKey, owner: ObjectKey) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry((cache, child.clone())).or_default().insert(owner);
    }

    /// Whether nobody waits, as mostly.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// A child is gone, or somebody else's now: who may try again.
    pub(crate) fn freed(&self, cache: CacheId, child: &ObjectKey) -> BTreeSet<ObjectKey> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&(cache, child.clone())).unwrap_or_default()
    }
}
