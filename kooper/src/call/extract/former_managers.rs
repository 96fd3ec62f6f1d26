//! Fields that a controller applied under its former names.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;

/// The most objects that are remembered.
const MOST: usize = 1_000_000;

/// The field managers of former names, and the objects whose fields were taken
/// over from them.
#[derive(Debug, Default)]
pub(crate) struct FormerManagers {
    pub(crate) managers: Vec<String>,
    /// The uids of these objects; the flag is for their status.
    done: Mutex<HashMap<(KindInfo, ObjectKey, bool), String>>,
}

impl FormerManagers {
    pub(crate) fn new(managers: Vec<String>) -> Self {
        Self { managers, done: Mutex::default() }
    }

    /// Whether the fields of an object, or of its status, are still to be taken
    /// over.
    pub(crate) fn is_pending(&self, kind: &KindInfo, key: &ObjectKey, uid: &str, status: bool) -> bool {
        if self.managers.is_empty() {
            return false;
        }
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.get(&(kind.clone(), key.clone(), status)).is_none_or(|known| known != uid)
    }

    /// Notes that the fields of an object, or of its status, were taken over.
    pub(crate) fn complete(&self, kind: &KindInfo, key: &ObjectKey, uid: &str, status: bool) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // Objects of kinds that are not watched are not forgotten one by one. What is forgotten is taken over again,
        // which changes nothing.
        if done.len() >= MOST {
            done.clear();
        }
        done.insert((kind.clone(), key.clone(), status), uid.to_owned());
    }

    /// Forgets an object that was deleted.
    pub(crate) fn forget(&self, kind: &KindInfo, key: &ObjectKey) {
        if !self.managers.is_empty() {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            for status in [false, true] {
                done.remove(&(kind.clone(), key.clone(), status));
            }
        }
    }
}
