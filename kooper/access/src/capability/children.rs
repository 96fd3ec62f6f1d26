//! The memory of a controller for its children.

mod contested;
mod creations;
mod kept;

use std::collections::BTreeSet;

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::call::children::ChildObserver;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::CacheId;
use kooper_runtime::internal::watch::store::Change;
use kooper_runtime::object::{DecodeError, Metadata};

use contested::Contested;
use creations::Creations;
use kept::KeptEntries;

/// The children of a controller's objects, an extension of its context.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// The caches that have them.
    pub(super) caches: Vec<CacheId>,
    /// Children of one owner that another one wants.
    pub(super) contested: Contested,
    /// The number of creations of each child.
    pub(super) creations: Creations,
    /// Entries of other clients that are added again while they are removed.
    pub(super) kept: KeptEntries,
}

impl Children {
    /// The children that are in these caches.
    pub(crate) fn of(caches: Vec<CacheId>) -> Self {
        Self { caches, ..Self::default() }
    }
}

impl ChildObserver for Children {
    fn owner_gone(&self, key: &ObjectKey) {
        self.contested.forget(key);
        self.creations.forget(key);
    }

    fn child_changed(&self, kind: &KindInfo, change: &Change) -> BTreeSet<ObjectKey> {
        let Some(old) = &change.old else { return BTreeSet::new() };
        if change.new.is_none() {
            self.kept.forget(old.uid());
        }
        if self.contested.is_empty() {
            return BTreeSet::new();
        }
        let before = change.old_metadata().map(controller_uid);
        let same = change.new.is_some() && change.new_metadata().map(controller_uid) == before;
        if same { BTreeSet::new() } else { self.contested.release(kind, old.key()) }
    }
}

fn controller_uid(metadata: Result<&Metadata, &DecodeError>) -> Option<String> {
    Some(metadata.ok()?.controller()?.uid.clone())
}
