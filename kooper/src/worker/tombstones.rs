//! The last known states of objects that are no more, until `deleted` has them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::extract::Gone;
use crate::key::ObjectKey;
use crate::object::Object;

/// What vanished under each key, in its order; once for each object.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    buried: Mutex<Graves>,
}

type Graves = HashMap<ObjectKey, VecDeque<(Arc<Object>, Gone)>>;

/// So many keys are kept.
const LIMIT: usize = 10_000;

impl Tombstones {
    /// Keeps a last state; `false` where that is known, or there are too many:
    /// while nobody takes them they must not fill the memory.
    pub(crate) fn bury(&self, key: &ObjectKey, last: &Arc<Object>, gone: Gone) -> bool {
        let mut buried = self.lock();
        if buried.len() >= LIMIT && !buried.contains_key(key) {
            drop(buried);
            tracing::warn!(%key, "`deleted` is not told of this object: {LIMIT} others wait for it");
            return false;
        }
        let under = buried.entry(key.clone()).or_default();
        let new = !under.iter().any(|(known, _)| known.uid() == last.uid() && !last.uid().is_empty());
        if new {
            under.push_back((last.clone(), gone));
        }
        new
    }

    /// The first that vanished under a key.
    pub(crate) fn take(&self, key: &ObjectKey) -> Option<(Arc<Object>, Gone)> {
        let mut buried = self.lock();
        let under = buried.get_mut(key)?;
        let first = under.pop_front();
        if under.is_empty() {
            buried.remove(key);
        }
        first
    }

    /// Forgets everything: another replica leads.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Graves> {
        self.buried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
