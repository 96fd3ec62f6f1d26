//! Entries of other clients that are added again while they are removed.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// The most entries that are remembered. An entry that is forgotten is removed
/// once more.
const MOST: usize = 4096;

/// Entries that are not removed again, by the object's uid and their path.
#[derive(Debug, Default)]
pub(in crate::capability) struct KeptEntries(Mutex<BTreeSet<(String, String)>>);

impl KeptEntries {
    /// Remembers an entry; `true` if it is new.
    pub(in crate::capability) fn keep(&self, uid: &str, entry: &str) -> bool {
        let mut kept = self.0.lock();
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert((uid.to_owned(), entry.to_owned()))
    }

    pub(in crate::capability) fn has(&self, uid: &str, entry: &str) -> bool {
        let kept = self.0.lock();
        kept.contains(&(uid.to_owned(), entry.to_owned()))
    }

    /// Forgets the entries of an object that was deleted.
    pub(in crate::capability) fn forget(&self, uid: &str) {
        let mut kept = self.0.lock();
        if !kept.is_empty() {
            kept.retain(|(known, _)| known != uid);
        }
    }
}
