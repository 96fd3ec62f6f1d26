//! The observer of a controller's objects and of their children.

use std::collections::BTreeSet;

use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;
use crate::watch::store::Change;

/// Observes the changes of a controller's objects and of their children.
pub trait ChildObserver: Send + Sync {
    /// The object of the key is gone.
    fn owner_gone(&self, _: &ObjectKey) {}

    /// A child of this kind has changed. Returns the keys that are queued beside those of its owners.
    fn child_changed(&self, _: &KindInfo, _: &Change) -> BTreeSet<ObjectKey> {
        BTreeSet::new()
    }
}

/// Without children there is nothing to observe.
impl ChildObserver for () {}
