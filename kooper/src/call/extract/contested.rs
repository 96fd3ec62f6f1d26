//! Owners that wait for a child that belongs to another one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use crate::object::key::ObjectKey;
use crate::watch::cache_id::CacheId;

/// Children that belong to another owner, each with the owners that wanted to
/// apply it.
#[derive(Debug, Default)]
pub(crate) struct Contested(Mutex<HashMap<(CacheId, ObjectKey), BTreeSet<ObjectKey>>>);

impl Contested {
    /// Notes that an owner wants a child that is not its own.
    pub(crate) fn wait(&self, cache: CacheId, child: &ObjectKey, owner: ObjectKey) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry((cache, child.clone())).or_default().insert(owner);
    }

    /// Whether no owner waits, which is the common case.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Removes and returns the owners to retry after a child was deleted or
    /// changed its owner.
    pub(crate) fn release(&self, cache: CacheId, child: &ObjectKey) -> BTreeSet<ObjectKey> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&(cache, child.clone())).unwrap_or_default()
    }
}
