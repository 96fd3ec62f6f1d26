//! The owners of children that have no owner reference.

use std::collections::{BTreeSet, HashMap};

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::watch::store::Change;
use parking_lot::Mutex;

use crate::capability::owner::OWNER;

/// Owners by their uids: a change of a child with such a mark queues its owner.
#[derive(Debug, Default)]
pub(in crate::capability) struct MarkedOwners(Mutex<Owners>);

#[derive(Debug, Default)]
struct Owners {
    by_uid: HashMap<String, ObjectKey>,
    /// One that was deleted and created again has several.
    uids: HashMap<ObjectKey, BTreeSet<String>>,
}

impl MarkedOwners {
    /// Notes an owner that has such children.
    pub(in crate::capability) fn note(&self, uid: &str, owner: &ObjectKey) {
        let mut owners = self.0.lock();
        if !owners.by_uid.contains_key(uid) {
            owners.by_uid.insert(uid.to_owned(), owner.clone());
            owners.uids.entry(owner.clone()).or_default().insert(uid.to_owned());
        }
    }

    /// Returns `true` if the owner with this uid has such children, or had some.
    pub(in crate::capability) fn knows(&self, uid: &str) -> bool {
        self.0.lock().by_uid.contains_key(uid)
    }

    /// Forgets an owner that was deleted.
    pub(super) fn forget(&self, owner: &ObjectKey) {
        let mut owners = self.0.lock();
        for uid in owners.uids.remove(owner).unwrap_or_default() {
            owners.by_uid.remove(&uid);
        }
    }

    /// Forgets the owners that no longer exist. All others may still have such children, which no cache shows yet.
    pub(super) fn retain(&self, exists: &dyn Fn(&ObjectKey) -> bool) {
        let owners: Vec<_> = self.0.lock().uids.keys().cloned().collect();
        owners.iter().filter(|owner| !exists(owner)).for_each(|owner| self.forget(owner));
    }

    /// The owners of a child that has changed.
    pub(super) fn owners(&self, change: &Change) -> BTreeSet<ObjectKey> {
        let owners = self.0.lock();
        if owners.by_uid.is_empty() {
            return BTreeSet::new();
        }
        let versions = change.old_metadata().into_iter().chain(change.new_metadata());
        let uids = versions.filter_map(|metadata| metadata.ok()?.labels.get(OWNER));
        uids.filter_map(|uid| owners.by_uid.get(uid).cloned()).collect()
    }
}
