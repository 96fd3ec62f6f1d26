//! The versions of children that the controller has written, until a cache has them.

use std::collections::HashMap;

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::object::kind::KindInfo;
use parking_lot::Mutex;

use super::hash;

/// The most children of one owner that are remembered. One that is forgotten is applied once more.
const MOST: usize = 16_384;

/// Applying the same body again to such a version changes nothing, so it is not sent.
///
/// By hashes, like the creations: an operator that starts applies all children at once.
#[derive(Debug, Default)]
pub(in crate::capability) struct UnconfirmedApplies(Mutex<HashMap<ObjectKey, HashMap<u64, u64>>>);

impl UnconfirmedApplies {
    /// Notes the version in the response to an apply with this digest.
    pub(in crate::capability) fn note(&self, owner: ObjectKey, child: (&KindInfo, &ObjectKey), applied: (&str, u64)) {
        let mut owners = self.0.lock();
        let children = owners.entry(owner).or_default();
        // A handler may apply each child once, such as a Job with another name for each run.
        if children.len() >= MOST {
            children.clear();
        }
        children.insert(hash(child), hash(applied));
    }

    /// Returns `true` if this version was the response to an apply with this digest, the first time. Otherwise an apply
    /// follows.
    pub(in crate::capability) fn confirm(
        &self,
        owner: &ObjectKey,
        child: (&KindInfo, &ObjectKey),
        applied: (&str, u64),
    ) -> bool {
        let mut owners = self.0.lock();
        let Some(children) = owners.get_mut(owner) else { return false };
        let noted = children.remove(&hash(child));
        if children.is_empty() {
            owners.remove(owner);
        }
        if owners.is_empty() {
            *owners = HashMap::new();
        }
        noted == Some(hash(applied))
    }

    /// Forgets all children, which are applied once more.
    pub(super) fn clear(&self) {
        *self.0.lock() = HashMap::new();
    }

    /// Forgets the children of an owner that was deleted.
    pub(in crate::capability) fn forget(&self, owner: &ObjectKey) {
        self.0.lock().remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[test]
    fn a_version_is_confirmed_once_and_only_for_what_was_applied() {
        let (unconfirmed, kind) = (UnconfirmedApplies::default(), KindInfo::of::<Secret>());
        let [owner, other, child] = ["owner", "other", "child"].map(ObjectKey::cluster_scoped);
        let note = |version, digest| unconfirmed.note(owner.clone(), (&kind, &child), (version, digest));
        let confirm = |owner, version, digest| unconfirmed.confirm(owner, (&kind, &child), (version, digest));
        note("2", 7);
        assert!(!confirm(&other, "2", 7));
        assert!(confirm(&owner, "2", 7) && !confirm(&owner, "2", 7));
        for (version, digest) in [("1", 7), ("2", 8)] {
            note("2", 7);
            assert!(!confirm(&owner, version, digest), "an older version, or another body");
        }
        note("3", 7);
        note("4", 7);
        assert!(confirm(&owner, "4", 7));
        assert_eq!(unconfirmed.0.lock().capacity(), 0);
        note("5", 7);
        unconfirmed.forget(&owner);
        assert!(!confirm(&owner, "5", 7));
    }

    #[test]
    fn children_that_are_applied_once_take_no_more_memory_than_the_limit() {
        let (unconfirmed, kind, owner) =
            (UnconfirmedApplies::default(), KindInfo::of::<Secret>(), ObjectKey::cluster_scoped("owner"));
        let child = |number: usize| ObjectKey::cluster_scoped(&number.to_string());
        for number in 0..=MOST {
            unconfirmed.note(owner.clone(), (&kind, &child(number)), ("1", 7));
        }
        assert_eq!(unconfirmed.0.lock()[&owner].len(), 1);
        assert!(unconfirmed.confirm(&owner, (&kind, &child(MOST)), ("1", 7)));
    }
}
