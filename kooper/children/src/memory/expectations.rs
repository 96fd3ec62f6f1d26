//! Children that exist, or may exist, although no cache has them.

use std::collections::{BTreeSet, HashMap};

use kooper_runtime::ObjectKey;
use parking_lot::Mutex;

use crate::observed::ChildId;

/// Children of owners that were written, until a cache has them. In a deletion they would be taken for gone.
#[derive(Debug, Default)]
pub(crate) struct Expectations(Mutex<HashMap<ObjectKey, BTreeSet<ChildId>>>);

impl Expectations {
    /// Notes a child before it is written: the response may be lost. Returns `true` if it was not noted before.
    pub(crate) fn expect(&self, owner: &ObjectKey, child: &ChildId) -> bool {
        self.0.lock().entry(owner.clone()).or_default().insert(child.clone())
    }

    /// Forgets the children of an owner that are known to exist, or not to exist.
    pub(crate) fn forget(&self, owner: &ObjectKey, is_known: impl Fn(&ChildId) -> bool) {
        let mut owners = self.0.lock();
        let Some(children) = owners.get_mut(owner) else { return };
        children.retain(|child| !is_known(child));
        if children.is_empty() {
            owners.remove(owner);
        }
        // An operator that starts creates all children at once.
        if owners.is_empty() {
            *owners = HashMap::new();
        }
    }

    /// Forgets the owners that no longer exist.
    pub(super) fn retain(&self, exists: &dyn Fn(&ObjectKey) -> bool) {
        let mut owners = self.0.lock();
        owners.retain(|owner, _| exists(owner));
        owners.shrink_to_fit();
    }

    /// The children of an owner that may exist.
    pub(crate) fn of(&self, owner: &ObjectKey) -> BTreeSet<ChildId> {
        self.0.lock().get(owner).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_unseen_from_its_first_write_until_it_is_known() {
        let (expectations, owner) = (Expectations::default(), ObjectKey::cluster_scoped("owner"));
        let [a, b] =
            ["a", "b"].map(|name| ChildId { resource: "configmaps".into(), namespace: None, name: name.into() });
        assert!(expectations.expect(&owner, &a) && !expectations.expect(&owner, &a), "a second write is not the first");
        assert!(expectations.expect(&owner, &b));
        expectations.forget(&owner, |child| *child == a);
        assert_eq!(expectations.of(&owner), BTreeSet::from([b]));
        expectations.forget(&owner, |_| true);
        assert_eq!((expectations.of(&owner), expectations.0.lock().capacity()), (BTreeSet::new(), 0));
    }
}
