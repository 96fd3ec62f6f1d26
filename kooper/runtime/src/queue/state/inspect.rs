//! Read access to the queue's state, in steps that are short however many keys there are.

use std::ops::Range;

use tokio::time::Instant;

use super::QueueState;
use crate::object::key::ObjectKey;
use crate::queue::EntryId;
use crate::queue::compact_instant::CompactInstant;
use crate::queue::entry::KeyEntry;
use crate::queue::schedule::Schedule;
use crate::queue::waiting::{ForbiddenKey, KeyView, QueueCounts, Run, Waiting};
use crate::queue::writes::TIMEOUT;

impl QueueState {
    /// The number of keys, by state.
    pub(in crate::queue) fn counts(&self) -> QueueCounts {
        QueueCounts {
            lanes: self.ready.lanes(),
            delayed: self.delayed.len() + self.debounced.len(),
            retries: self.retries.len(),
            known: self.entries.len(),
        }
    }

    /// The first keys in the order in which they run: those that wait for a worker,
    /// then those that wait for a timer. A key may be in it several times.
    pub(in crate::queue) fn upcoming(&self, most: usize) -> Vec<ObjectKey> {
        let timers = [&self.retries, &self.delayed, &self.debounced, &self.resyncs];
        let ids = self.ready.iter().chain(timers.into_iter().flat_map(Schedule::iter));
        ids.filter_map(|id| self.key_of(id)).take(most).cloned().collect()
    }

    /// The entries that there may be.
    pub(in crate::queue) fn ids(&self) -> Range<EntryId> {
        self.entries.ids()
    }

    pub(in crate::queue) fn key_of(&self, id: EntryId) -> Option<&ObjectKey> {
        Some(&self.entries.get(id)?.key)
    }

    /// A key with its state, if it is known.
    pub(in crate::queue) fn view(&self, key: &ObjectKey, now: Instant) -> Option<KeyView> {
        let id = self.entries.find(key)?;
        let entry = self.entries.get(id)?;
        let waiting = self.waiting_of(id, entry, now);
        Some(KeyView { key: entry.key.clone(), waiting, reasons: entry.reasons.clone() })
    }

    /// The reasons for which an entry waits.
    pub(super) fn waiting_of(&self, id: EntryId, entry: &KeyEntry, now: Instant) -> Waiting {
        let until = |at: CompactInstant| Instant::from(at).saturating_duration_since(now);
        let forbidden =
            entry.failing.as_ref().and_then(|failing| failing.forbidden).map(|(refusal, place)| ForbiddenKey {
                is_first: self.forbidden.is_first(refusal, place, id),
                probe: self.forbidden.next_of(refusal).map(until),
            });
        Waiting {
            run: entry.run.as_ref().map(|run| if run.is_alone() { Run::Last } else { Run::MayFollow }),
            queued: entry.queued().map(|_| {
                let since = entry.added_at.map_or(now, Instant::from);
                (now.saturating_duration_since(since), entry.lane)
            }),
            parked: entry.is_parked.then_some(TIMEOUT),
            timer: entry.pending.map(|(at, timer)| (until(at), timer)),
            debounced: entry.debounced.as_ref().map(|debounced| until(debounced.at.into())),
            failures: entry.failing.as_ref().map(|failing| failing.failures),
            forbidden,
            // The retry of a failed key schedules its next resync.
            resync: entry.resync_at.filter(|_| !entry.is_held()).map(until),
        }
    }
}
