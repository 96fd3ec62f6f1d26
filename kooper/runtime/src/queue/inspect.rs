//! Read access to the keys of a queue, in steps that are short however many keys there are.

use tokio::time::Instant;

use super::{EntryId, KeyView, QueueCounts, WorkQueue};
use crate::object::key::ObjectKey;

/// The most entries that are looked at in one step, because the queue is locked
/// meanwhile.
const STEP: usize = 256;

impl WorkQueue {
    /// The number of keys, by state.
    #[doc(hidden)]
    pub fn counts(&self) -> QueueCounts {
        self.lock().state.counts()
    }

    /// The state of these keys, as far as they are known.
    #[doc(hidden)]
    pub fn views(&self, keys: &[ObjectKey]) -> Vec<KeyView> {
        let mut views = Vec::new();
        for step in keys.chunks(STEP) {
            let (shared, now) = (self.lock(), Instant::now());
            views.extend(step.iter().filter_map(|key| shared.state.view(key, now)));
        }
        views
    }

    /// The state of the next keys in the order in which they run: those that wait for a worker, then those that wait
    /// for a timer. A key may be among them several times.
    #[doc(hidden)]
    pub fn upcoming(&self, most: usize) -> Vec<KeyView> {
        let keys = self.lock().state.upcoming(most);
        self.views(&keys)
    }

    /// The state of the keys that are selected, in no particular order. A key may be among them twice.
    #[doc(hidden)]
    pub fn select(&self, mut selects: impl FnMut(&ObjectKey) -> bool) -> Vec<KeyView> {
        let (all, mut views) = (self.lock().state.ids(), Vec::new());
        for start in all.clone().step_by(STEP) {
            let step = start..all.end.min(start.saturating_add(STEP as EntryId));
            {
                let (shared, now) = (self.lock(), Instant::now());
                let selected = step.filter_map(|id| shared.state.key_of(id)).filter(|key| selects(key));
                views.extend(selected.filter_map(|key| shared.state.view(key, now)));
            }
            // It is not urgent.
            std::thread::yield_now();
        }
        views
    }
}
