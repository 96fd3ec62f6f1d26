//! The owners of children that have no owner reference.

use std::collections::{BTreeSet, HashMap};

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::watch::store::Change;
use parking_lot::Mutex;

use crate::capability::owner::OWNER;

/// Owners by their uids: a change of a child with such a mark queues its owner.
#[derive(Debug, Default)]
pub(in crate::capability) struct Marked(Mutex<HashMap<String, ObjectKey>>);

impl Marked {
    /// Notes an owner that has such children.
    pub(in crate::capability) fn note(&self, uid: &str, owner: &ObjectKey) {
        let mut owners = self.0.lock();
        if !owners.contains_key(uid) {
            owners.insert(uid.to_owned(), owner.clone());
        }
    }

    /// Returns `true` if the owner with this uid has such children, or had some.
    pub(in crate::capability) fn knows(&self, uid: &str) -> bool {
        self.0.lock().contains_key(uid)
    }

    /// Forgets an owner that was deleted.
    pub(super) fn forget(&self, owner: &ObjectKey) {
        self.0.lock().retain(|_, known| known != owner);
    }

    /// The owners of a child that has changed.
    pub(super) fn owners(&self, change: &Change) -> BTreeSet<ObjectKey> {
        let owners = self.0.lock();
        if owners.is_empty() {
            return BTreeSet::new();
        }
        let versions = change.old_metadata().into_iter().chain(change.new_metadata());
        let uids = versions.filter_map(|metadata| metadata.ok()?.labels.get(OWNER));
        uids.filter_map(|uid| owners.get(uid).cloned()).collect()
    }
}
