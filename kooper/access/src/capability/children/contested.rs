//! Owners that wait for a child that belongs to another one.

use std::collections::{BTreeMap, BTreeSet};

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::object::kind::KindInfo;
use parking_lot::Mutex;

/// Children that belong to another owner, each with the owners that wanted to
/// apply it.
#[derive(Debug, Default)]
pub(in crate::capability) struct ContestedChildren(Mutex<WaitingOwners>);

/// The waits, in both directions.
#[derive(Debug, Default)]
struct WaitingOwners {
    children: BTreeMap<Child, BTreeSet<ObjectKey>>,
    owners: BTreeMap<ObjectKey, BTreeSet<Child>>,
}

type Child = (KindInfo, ObjectKey);

impl ContestedChildren {
    /// Notes that an owner wants a child that is not its own.
    pub(in crate::capability) fn wait(&self, kind: &KindInfo, child: &ObjectKey, owner: ObjectKey) {
        let (mut waits, child) = (self.0.lock(), (kind.clone(), child.clone()));
        waits.owners.entry(owner.clone()).or_default().insert(child.clone());
        waits.children.entry(child).or_default().insert(owner);
    }

    /// Returns whether no owner waits, which is the common case.
    pub(in crate::capability) fn is_empty(&self) -> bool {
        self.0.lock().children.is_empty()
    }

    /// Removes and returns the owners to retry after a child was deleted or
    /// changed its owner.
    pub(in crate::capability) fn release(&self, kind: &KindInfo, child: &ObjectKey) -> BTreeSet<ObjectKey> {
        let (mut waits, child) = (self.0.lock(), (kind.clone(), child.clone()));
        let released = waits.children.remove(&child).unwrap_or_default();
        for owner in &released {
            if let Some(children) = waits.owners.get_mut(owner) {
                children.remove(&child);
                if children.is_empty() {
                    waits.owners.remove(owner);
                }
            }
        }
        released
    }

    /// Forgets all owners: each is called again.
    pub(super) fn clear(&self) {
        *self.0.lock() = WaitingOwners::default();
    }

    /// Forgets an owner that was deleted.
    pub(in crate::capability) fn forget(&self, owner: &ObjectKey) {
        let mut waits = self.0.lock();
        for child in waits.owners.remove(owner).unwrap_or_default() {
            if let Some(owners) = waits.children.get_mut(&child) {
                owners.remove(owner);
                if owners.is_empty() {
                    waits.children.remove(&child);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[test]
    fn owners_wait_until_the_child_changes_or_they_are_deleted() {
        let (contested, kind) = (ContestedChildren::default(), KindInfo::of::<Secret>());
        let [a, b, x, y] = ["a", "b", "x", "y"].map(ObjectKey::cluster_scoped);
        for (child, owner) in [(&x, &a), (&x, &b), (&y, &a), (&y, &a)] {
            contested.wait(&kind, child, owner.clone());
        }
        contested.forget(&a);
        assert_eq!(contested.release(&kind, &x), BTreeSet::from([b]));
        assert!(contested.is_empty() && contested.0.lock().owners.is_empty());
        contested.forget(&a);
        assert!(contested.release(&kind, &y).is_empty());
    }
}
