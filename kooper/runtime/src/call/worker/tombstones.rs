//! The last known states of removed objects, until `deleted` is called for them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::call::Gone;
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::queue::AwaitedDeletion;

/// A removed object for which `deleted` is to be called.
#[derive(Debug)]
pub(crate) struct Tombstone {
    pub(crate) object: Arc<Object>,
    pub(crate) gone: Gone,
    /// Dropped when the call runs.
    pub(crate) awaited: Option<AwaitedDeletion>,
}

/// The removed objects of each key, in order, each once.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    keys: HashMap<ObjectKey, VecDeque<Tombstone>>,
    /// Of all keys together.
    objects: usize,
}

/// The most objects that are kept.
const LIMIT: usize = 10_000;

impl Tombstones {
    /// Keeps a last known state. `false` if it is known already, or if there are
    /// too many, so that they do not exhaust the memory.
    pub(crate) fn add(&self, key: &ObjectKey, last: Tombstone) -> bool {
        let uid = last.object.uid();
        let mut waiting = self.waiting.lock();
        let mut of_key = waiting.keys.get(key).into_iter().flatten();
        if of_key.any(|known| known.object.uid() == uid && !uid.is_empty()) {
            return false;
        }
        if waiting.objects >= LIMIT {
            drop(waiting);
            tracing::warn!(%key, "`deleted` is not called for this object: {LIMIT} other objects are already waiting");
            return false;
        }
        waiting.objects += 1;
        waiting.keys.entry(key.clone()).or_default().push_back(last);
        true
    }

    /// Returns `true` if `deleted` is to be called for a key.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.waiting.lock().keys.contains_key(key)
    }

    /// Forgets one object of a key.
    pub(crate) fn forget(&self, key: &ObjectKey, uid: &str) {
        let mut waiting = self.waiting.lock();
        let Some(of_key) = waiting.keys.get_mut(key) else { return };
        let before = of_key.len();
        of_key.retain(|known| known.object.uid() != uid);
        let forgotten = before - of_key.len();
        if of_key.is_empty() {
            waiting.keys.remove(key);
        }
        waiting.objects -= forgotten;
    }

    /// Takes the first removed object of a key.
    pub(crate) fn take(&self, key: &ObjectKey) -> Option<Tombstone> {
        let mut waiting = self.waiting.lock();
        let of_key = waiting.keys.get_mut(key)?;
        let first = of_key.pop_front();
        if of_key.is_empty() {
            waiting.keys.remove(key);
        }
        waiting.objects -= usize::from(first.is_some());
        first
    }

    /// Forgets all objects, because another replica leads.
    pub(crate) fn clear(&self) {
        *self.waiting.lock() = Waiting::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: usize) -> Tombstone {
        let object = Object::parse(format!(r#"{{"metadata":{{"name":"a","uid":"{uid}"}}}}"#).as_bytes()).unwrap();
        Tombstone { object: Arc::new(object), gone: Gone::Deleted, awaited: None }
    }

    #[test]
    fn an_object_is_forgotten_without_others_of_its_name() {
        let (tombstones, key) = (Tombstones::default(), ObjectKey::cluster_scoped("a"));
        tombstones.forget(&key, "1");
        assert!(tombstones.add(&key, object(1)) && tombstones.add(&key, object(2)));
        tombstones.forget(&key, "2");
        assert_eq!(tombstones.take(&key).map(|tombstone| tombstone.object.uid().to_owned()).as_deref(), Some("1"));
        assert!(tombstones.add(&key, object(3)));
        tombstones.forget(&key, "3");
        assert!(!tombstones.contains(&key) && tombstones.waiting.lock().objects == 0);
    }

    #[test]
    fn no_more_removed_objects_than_the_limit_are_kept() {
        let (tombstones, key) = (Tombstones::default(), ObjectKey::cluster_scoped("a"));
        let other = ObjectKey::cluster_scoped("b");
        for uid in 0..LIMIT {
            let name = ObjectKey::cluster_scoped(&(uid % 100).to_string());
            assert!(tombstones.add(&name, object(uid)));
        }
        assert!(!tombstones.add(&ObjectKey::cluster_scoped("7"), object(LIMIT)), "the name is known");
        assert!(!tombstones.add(&other, object(0)), "the name is new");
        assert!(tombstones.take(&ObjectKey::cluster_scoped("7")).is_some());
        assert!(tombstones.add(&other, object(0)), "there is room again");
        tombstones.clear();
        assert!(tombstones.take(&other).is_none() && tombstones.add(&key, object(1)));
    }
}
