//! The keys that wait for a worker, in the order in which workers take them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::compact_instant::CompactInstant;
use super::entry::KeyEntry;
use super::{EntryId, Lane};

/// Every so many runs the key with the first place runs, whatever its priority: no key starves.
const FAIR: u64 = 10;

/// The priority of the first list and of resyncs is lower by this, as in controller-runtime.
const LOW: i64 = 100;

/// The position of an entry.
type Place = (CompactInstant, u64, EntryId);

/// The waiting keys.
#[derive(Debug, Default)]
pub(super) struct ReadyKeys {
    places: BTreeSet<Place>,
    /// The same by their rank, the highest first; `None` without priorities.
    ranks: Option<BTreeSet<(Reverse<i64>, Place)>>,
    /// Those whose priority is to be decided.
    unprioritized: BTreeSet<EntryId>,
    /// Their number in each lane.
    lanes: [usize; 3],
}

/// The priority of an entry in its lane.
fn rank(entry: &KeyEntry) -> Reverse<i64> {
    Reverse(i64::from(entry.priority) - if entry.lane == Lane::Background { LOW } else { 0 })
}

impl ReadyKeys {
    /// No keys, with the same order.
    pub(super) fn emptied(&self) -> Self {
        Self { ranks: self.ranks.as_ref().map(|_| BTreeSet::new()), ..Self::default() }
    }

    /// Keys with a higher priority come first from now on. It is called before the first key waits.
    pub(super) fn order_by_priority(&mut self) {
        self.ranks = Some(BTreeSet::new());
    }

    /// Returns `true` if keys wait whose priority is not known. That of a single key decides nothing, and a worker takes it
    /// at once if one is idle.
    pub(super) fn lacks_priorities(&self) -> bool {
        self.len() > 1 && !self.unprioritized.is_empty()
    }

    /// Takes a key whose priority is not known.
    pub(super) fn pop_unprioritized(&mut self) -> Option<EntryId> {
        self.unprioritized.pop_first()
    }

    /// Has the priority of an entry decided if it waits and its priority is not known.
    pub(super) fn ask_for_priority(&mut self, id: EntryId, entry: &KeyEntry) {
        if entry.queued().is_some() && self.ranks.is_some() && !entry.prioritized {
            self.unprioritized.insert(id);
        }
    }

    /// The number of keys in each lane.
    pub(super) fn lanes(&self) -> [usize; 3] {
        self.lanes
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The entry of the next run. `runs` is the number of runs before it.
    pub(super) fn next(&self, runs: u64) -> Option<EntryId> {
        let place = match &self.ranks {
            Some(ranks) if !(runs + 1).is_multiple_of(FAIR) => ranks.first().map(|(_, place)| place),
            _ => self.places.first(),
        };
        place.map(|(.., id)| *id)
    }

    /// The entries in the order in which they run, those that come earlier so that none starves aside.
    pub(super) fn iter(&self) -> impl Iterator<Item = EntryId> {
        let ranked = self.ranks.iter().flatten().map(|(_, place)| place);
        ranked.chain(self.places.iter().filter(|_| self.ranks.is_none())).map(|(.., id)| *id)
    }

    /// Adds the entry at its place.
    pub(super) fn insert(&mut self, id: EntryId, entry: &KeyEntry) {
        let Some((at, arrival)) = entry.queued() else { return };
        let place = (at, arrival, id);
        self.places.insert(place);
        self.lanes[entry.lane as usize] += 1;
        if let Some(ranks) = &mut self.ranks {
            ranks.insert((rank(entry), place));
        }
        self.ask_for_priority(id, entry);
    }

    /// Removes the entry from its place. Its lane and priority must not have changed since it was added.
    pub(super) fn remove(&mut self, id: EntryId, entry: &KeyEntry) {
        let Some((at, arrival)) = entry.queued() else { return };
        let place = (at, arrival, id);
        self.places.remove(&place);
        self.lanes[entry.lane as usize] -= 1;
        if let Some(ranks) = &mut self.ranks {
            ranks.remove(&(rank(entry), place));
            self.unprioritized.remove(&id);
        }
    }
}
