//! Read access to the keys of a queue, in steps that are short however many keys there are.

use tokio::time::Instant;

use super::state::QueueState;
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
        self.views_of(keys, QueueState::id_of)
    }

    /// The state of the next keys in the order in which they run: those that wait for a worker, then those that wait
    /// for a timer. A key may be among them several times.
    #[doc(hidden)]
    pub fn upcoming(&self, most: usize) -> Vec<KeyView> {
        let ids = self.lock().state.upcoming(most);
        self.views_of(&ids, |_, id| Some(*id))
    }

    /// The state of the keys that are selected, in no particular order. A key may be among them twice.
    #[doc(hidden)]
    pub fn select(&self, mut selects: impl FnMut(&ObjectKey) -> bool) -> Vec<KeyView> {
        let (all, mut views) = (self.lock().state.ids(), Vec::new());
        for start in all.clone().step_by(STEP) {
            let step = start..all.end.min(start.saturating_add(STEP as EntryId));
            {
                let (shared, now) = (self.lock(), Instant::now());
                let selected = step.filter(|id| shared.state.key_of(*id).is_some_and(&mut selects));
                views.extend(selected.filter_map(|id| shared.state.view(id, now)));
            }
            // It is not urgent.
            std::thread::yield_now();
        }
        views
    }

    fn views_of<T>(&self, all: &[T], id: impl Fn(&QueueState, &T) -> Option<EntryId>) -> Vec<KeyView> {
        let mut views = Vec::new();
        for step in all.chunks(STEP) {
            let (shared, now) = (self.lock(), Instant::now());
            views.extend(step.iter().filter_map(|one| shared.state.view(id(&shared.state, one)?, now)));
        }
        views
    }
}
