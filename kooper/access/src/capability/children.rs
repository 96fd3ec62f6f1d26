//! The memory of a controller for its children.

mod contested;
mod creations;
mod kept;
mod marked;
mod unconfirmed;

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::call::children::ChildObserver;
use kooper_runtime::internal::call::observer::CallObserver;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::CacheId;
use kooper_runtime::internal::watch::store::Change;
use kooper_runtime::object::{DecodeError, Metadata};

use crate::capability::owner::OWNER;

use contested::ContestedChildren;
use creations::Creations;
use kept::KeptEntries;
use marked::MarkedOwners;
use unconfirmed::UnconfirmedApplies;

/// The children of a controller's objects, an extension of its context.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// The caches that have them.
    pub(super) caches: Vec<CacheId>,
    /// `true` if the caches may have only the children of some owners.
    pub(super) are_shared: bool,
    /// Children of one owner that another one wants.
    pub(super) contested: ContestedChildren,
    /// The number of creations of each child.
    pub(super) creations: Creations,
    /// Entries of other clients that are added again while they are removed.
    pub(super) kept: KeptEntries,
    /// The owners of children without owner references.
    pub(super) marked: MarkedOwners,
    /// The versions that no cache has yet.
    pub(super) unconfirmed: UnconfirmedApplies,
}

impl Children {
    /// The children that are in these caches.
    pub(crate) fn of(caches: Vec<CacheId>, are_shared: bool) -> Self {
        Self { caches, are_shared, ..Self::default() }
    }
}

impl ChildObserver for Children {
    fn owner_gone(&self, key: &ObjectKey) {
        self.contested.forget(key);
        self.creations.forget(key);
        self.marked.forget(key);
        self.unconfirmed.forget(key);
    }

    fn child_changed(&self, kind: &KindInfo, change: &Change) -> BTreeSet<ObjectKey> {
        let mut owners = self.marked.owners(change);
        let Some(old) = &change.old else { return owners };
        if change.new.is_none() {
            self.kept.forget(old.uid());
        }
        if self.contested.is_empty() {
            return owners;
        }
        let before = change.old_metadata().map(owner_uid);
        let same = change.new.is_some() && change.new_metadata().map(owner_uid) == before;
        if !same {
            owners.extend(self.contested.release(kind, old.key()));
        }
        owners
    }
}

impl CallObserver for Children {
    /// Another replica has created and applied children since.
    fn term_begins(&self, exists: &dyn Fn(&ObjectKey) -> bool) {
        self.contested.clear();
        self.creations.clear();
        self.unconfirmed.clear();
        self.marked.retain(exists);
    }
}

/// Stands for a name where there may be as many names as children.
pub(super) fn hash(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// The uid of the controlling owner, or of the one that has marked the object.
fn owner_uid(metadata: Result<&Metadata, &DecodeError>) -> Option<String> {
    let metadata = metadata.ok()?;
    let controller = metadata.controller().map(|controller| &controller.uid);
    controller.or_else(|| metadata.labels.get(OWNER)).cloned()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_term_begins_with_the_marks_of_owners_that_exist_and_without_other_notes_of_the_last_one() {
        let (children, kind, now) = (Children::default(), KindInfo::of::<Secret>(), Instant::now());
        let [a, b, child] = ["a", "b", "child"].map(ObjectKey::cluster_scoped);
        for (owner, uid) in [(&a, "1"), (&b, "2")] {
            children.marked.note(uid, owner);
            children.contested.wait(&kind, &child, owner.clone());
            children.unconfirmed.note(owner.clone(), (&kind, &child), ("5", 7));
            (0..5).for_each(|_| children.creations.note(owner, &kind, &child, now));
        }
        assert!(children.creations.pause(&a, &kind, &child, now).is_some());
        // Meanwhile, another replica has led, and `b` was deleted.
        children.term_begins(&|owner| *owner == a);
        assert_eq!(["1", "2"].map(|uid| children.marked.knows(uid)), [true, false]);
        assert_eq!(children.creations.pause(&a, &kind, &child, now), None, "it may be another object of this name");
        assert!(children.contested.is_empty() && !children.unconfirmed.confirm(&a, (&kind, &child), ("5", 7)));
    }
}
