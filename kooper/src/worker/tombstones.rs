//! The last known states of objects that are no more, until `deleted` has them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::extract::Gone;
use crate::key::ObjectKey;
use crate::object::Object;

/// What vanished under each key, in its order; once for each object.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    buried: Mutex<Graves>,
}

type Graves = HashMap<ObjectKey, Vec<(Arc<Object>, Gone)>>;

impl Tombstones {
    pub(crate) fn bury(&self, key: &ObjectKey, last: &Arc<Object>, gone: Gone) {
        let mut buried = self.lock();
        let under = buried.entry(key.clone()).or_default();
        if !under.iter().any(|(known, _)| known.uid() == last.uid() && !last.uid().is_empty()) {
            under.push((last.clone(), gone));
        }
    }

    pub(crate) fn take(&self, key: &ObjectKey) -> Vec<(Arc<Object>, Gone)> {
        self.lock().remove(key).unwrap_or_default()
    }

    /// Forgets everything: another replica leads.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Graves> {
        self.buried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
