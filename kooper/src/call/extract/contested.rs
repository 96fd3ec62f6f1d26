//! Owners that wait for a child that belongs to another one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;

/// Children that belong to another owner, each with the owners that wanted to
/// apply it.
#[derive(Debug, Default)]
pub(crate) struct Contested(Mutex<HashMap<(KindInfo, ObjectKey), BTreeSet<ObjectKey>>>);

impl Contested {
    /// Notes that an owner wants a child that is not its own.
    pub(crate) fn wait(&self, kind: &KindInfo, child: &ObjectKey, owner: ObjectKey) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry((kind.clone(), child.clone())).or_default().insert(owner);
    }

    /// Whether no owner waits, which is the common case.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Removes and returns the owners to retry after a child was deleted or
    /// changed its owner.
    pub(crate) fn release(&self, kind: &KindInfo, child: &ObjectKey) -> BTreeSet<ObjectKey> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&(kind.clone(), child.clone())).unwrap_or_default()
    }
}
