//! What a controller applied under its former names.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::object::key::ObjectKey;
use crate::watch::cache_id::CacheId;

/// The field managers of former names, and the objects that were taken over
/// from them.
#[derive(Debug, Default)]
pub(crate) struct Former {
    pub(crate) managers: Vec<String>,
    /// The uids of the objects, apart for their status.
    done: Mutex<HashMap<(CacheId, ObjectKey, bool), String>>,
}

impl Former {
    pub(crate) fn new(managers: Vec<String>) -> Self {
        Self { managers, done: Mutex::default() }
    }

    /// Whether there is something to take over from an object, or its status.
    pub(crate) fn left(&self, cache: CacheId, key: &ObjectKey, uid: &str, status: bool) -> bool {
        if self.managers.is_empty() {
            return false;
        }
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.get(&(cache, key.clone(), status)).is_none_or(|known| known != uid)
    }

    /// An object, or its status, was taken over.
    pub(crate) fn taken(&self, cache: CacheId, key: &ObjectKey, uid: &str, status: bool) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.insert((cache, key.clone(), status), uid.to_owned());
    }

    /// An object is no more.
    pub(crate) fn forget(&self, cache: CacheId, key: &ObjectKey) {
        if !self.managers.is_empty() {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            for status in [false, true] {
                done.remove(&(cache, key.clone(), status));
            }
        }
    }
}
