//! A new beginning after a restore of etcd from a backup.

use kooper_runtime::internal::watch::retriever::fnv1a;

use super::map_view::MapView;
use super::slots::Slots;
use super::{Member, Moment, Options, Stage};
use crate::mutant::Mutant;

impl Member {
    /// Begins again, because the Leases went back to older versions: nothing that this replica knows holds any more.
    /// Replicas that have not noticed work until their tokens end, so for a lease this one works on no shard, and
    /// writes no map. Nor has it a session: the map may name the own one as the owner of other shards than before, and others
    /// would hand shards to a new one.
    pub(super) fn begin_again(&mut self, now: Moment) {
        let guard = self.slots.longest_lease();
        if self.mutant != Some(Mutant::NoGuardOfRestore) {
            self.guarded = self.guarded.max(now + guard);
        }
        let Options { slots, terms, identity, .. } = &self.options;
        self.slots = Slots::new(*slots, *terms, fnv1a(identity.as_bytes()), now, self.mutant);
        self.map = MapView::after(&self.map, now);
        self.claim = None;
        self.announced = None;
        if self.stage != Stage::Running {
            // The slot is left to expire, because calls may still run.
            self.stage = Stage::Gone;
        }
        self.changed = true;
    }

    /// The highest term that it has seen.
    #[cfg(test)]
    pub(crate) fn highest_term(&self) -> u64 {
        self.map.highest_term()
    }
}
