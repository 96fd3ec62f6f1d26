//! The objects that external slots stand for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kooper_runtime::ObjectKey;

/// The resource of an object and its key.
pub(crate) type ExternalId = (Arc<str>, ObjectKey);

/// Owners by the objects that their slots stand for, to call them when one of these changes.
#[derive(Debug, Default)]
pub(super) struct Externals {
    slots: HashMap<ExternalId, HashSet<(ObjectKey, usize)>>,
    /// The objects of each owner, each with its slot.
    owners: HashMap<ObjectKey, Vec<(usize, ExternalId)>>,
}

impl Externals {
    /// Notes the object that a slot stands for, instead of another one.
    pub(super) fn note(&mut self, (owner, slot): (&ObjectKey, usize), object: ExternalId) {
        let objects = self.owners.entry(owner.clone()).or_default();
        match objects.iter_mut().find(|(of, _)| *of == slot) {
            Some((_, known)) if *known == object => return,
            Some((_, known)) => {
                let before = std::mem::replace(known, object.clone());
                self.remove(&before, owner, slot);
            }
            None => objects.push((slot, object.clone())),
        }
        self.slots.entry(object).or_default().insert((owner.clone(), slot));
    }

    /// The owners with a slot that stands for an object.
    pub(super) fn owners(&self, object: &ExternalId) -> Vec<ObjectKey> {
        self.slots.get(object).into_iter().flatten().map(|(owner, _)| owner.clone()).collect()
    }

    /// Forgets the slots of an owner.
    pub(super) fn forget(&mut self, owner: &ObjectKey) {
        for (slot, object) in self.owners.remove(owner).unwrap_or_default() {
            self.remove(&object, owner, slot);
        }
    }

    fn remove(&mut self, object: &ExternalId, owner: &ObjectKey, slot: usize) {
        if let Some(slots) = self.slots.get_mut(object) {
            slots.remove(&(owner.clone(), slot));
            if slots.is_empty() {
                self.slots.remove(object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn secret(name: &str) -> ExternalId {
        ("secrets".into(), ObjectKey::namespaced("default", name))
    }

    /// The owners of an object, each once, as the queue has them.
    fn owners(externals: &Externals, object: &ExternalId) -> Vec<ObjectKey> {
        let mut owners = externals.owners(object);
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    #[test]
    fn each_owner_of_an_object_is_found_until_its_slot_stands_for_another_one() {
        let (mut externals, [a, b]) = (Externals::default(), ["a", "b"].map(ObjectKey::cluster_scoped));
        externals.note((&a, 0), secret("tls"));
        externals.note((&b, 0), secret("tls"));
        externals.note((&b, 0), secret("tls"));
        assert_eq!(owners(&externals, &secret("tls")), [a.clone(), b.clone()]);
        externals.note((&a, 0), secret("other"));
        assert_eq!(owners(&externals, &secret("tls")), [b]);
        assert_eq!(owners(&externals, &secret("other")), [a]);
        assert_eq!(owners(&externals, &("configmaps".into(), secret("tls").1)), []);
    }

    #[test]
    fn an_owner_with_two_slots_for_one_object_is_found_until_neither_stands_for_it() {
        let (mut externals, owner) = (Externals::default(), ObjectKey::cluster_scoped("owner"));
        externals.note((&owner, 0), secret("tls"));
        externals.note((&owner, 1), secret("tls"));
        externals.note((&owner, 0), secret("other"));
        assert_eq!(owners(&externals, &secret("tls")), from_ref(&owner));
        externals.note((&owner, 1), secret("other"));
        assert_eq!(owners(&externals, &secret("tls")), []);
        assert_eq!(owners(&externals, &secret("other")), [owner]);
    }

    #[test]
    fn nothing_is_left_of_an_owner_that_is_forgotten() {
        let (mut externals, [a, b]) = (Externals::default(), ["a", "b"].map(ObjectKey::cluster_scoped));
        for (owner, slot) in [(&a, 0), (&a, 1), (&b, 0)] {
            externals.note((owner, slot), secret("tls"));
        }
        externals.forget(&a);
        assert_eq!(owners(&externals, &secret("tls")), from_ref(&b));
        externals.forget(&b);
        assert!(externals.slots.is_empty() && externals.owners.is_empty());
    }
}
