//! The namespaces of the replicas that share the shards, and of those that stand by.

use super::{Member, Moment, Standby};
use crate::mutant::Mutant;

impl Member {
    /// Returns `true` if the map is that of replicas which watch other namespaces. Only its last write decides this, so
    /// all replicas that know it agree.
    pub(super) fn is_map_of_others(&self) -> bool {
        self.map.scope().is_some_and(|scope| *scope != self.options.scope) && self.mutant != Some(Mutant::NoYield)
    }

    /// The reason for which this replica takes no slot, or gives its slot up.
    pub(super) fn apart(&self, has_slot: bool, now: Moment) -> Option<Standby> {
        let (own, of_map) = (&self.options.scope, self.map.scope());
        if has_slot {
            let owners = of_map.filter(|_| self.is_map_of_others())?;
            return self.slots.apart(|scope| scope == owners, now);
        }
        // After a map was deleted, one that stands by may have created the next one.
        let has_worked = of_map == Some(own) && self.map.map().is_some_and(|map| !map.is_new());
        if has_worked { None } else { self.slots.apart(|scope| scope != own, now) }
    }
}
