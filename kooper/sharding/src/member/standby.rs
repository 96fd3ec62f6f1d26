//! The reasons for which a replica stands by, such as the namespaces of those that share the shards.

use std::sync::Arc;
use std::time::Duration;

use kooper_base::leader::scope::WatchedNamespaces;

use super::{Member, Moment};
use crate::mutant::Mutant;

/// The reason for which a replica takes no slot, gives its slot up, or does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standby {
    /// Another session is that of a replica which watches other namespaces: each would get shards with objects that it
    /// does not see.
    Apart { holder: Arc<str>, scope: WatchedNamespaces },
    /// All slots are taken.
    Full,
    /// The API server was restored from a backup: others may work by what it had stored before.
    Restored,
}

impl Member {
    /// The reason for which this replica takes no slot, or does not work.
    pub(crate) fn standby(&self, now: Duration) -> Option<Standby> {
        if now < self.guarded { Some(Standby::Restored) } else { self.standby.clone() }
    }

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
