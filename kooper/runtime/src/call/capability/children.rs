//! What a controller remembers of its children.

mod contested;
mod creations;
mod kept;

use std::collections::BTreeSet;

use crate::call::observer::ChildObserver;
use crate::object::DecodeError;
use crate::object::Metadata;
use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;
use crate::watch::store::Change;
use contested::Contested;
use creations::Creations;
use kept::KeptEntries;

/// The children of a controller's objects, an extension of its context.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// Children of one owner that another one wants.
    pub(super) contested: Contested,
    /// How often children were created.
    pub(super) creations: Creations,
    /// Entries of other clients that are added again while they are removed.
    pub(super) kept: KeptEntries,
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
