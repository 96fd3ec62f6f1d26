//! The announcement of a replica, and the map that it names.

use std::time::Duration;

use super::{Member, Moment, Stage};
use crate::mutant::Mutant;
use crate::session::Announcement;

impl Member {
    /// Learns whether any call runs, also one whose term has ended.
    pub(crate) fn set_running(&mut self, runs: bool, now: Duration) {
        let before = self.outlives_map(now);
        self.runs = runs;
        self.changed |= before != self.outlives_map(now);
    }

    /// Returns `true` if calls run that began by a map that was deleted. That one is announced until they have ended, so
    /// that the replica which fills the next map waits for them. That one waits for a lease at most.
    pub(super) fn outlives_map(&self, now: Moment) -> bool {
        let is_another = |known: &str| self.map.uid().is_none_or(|uid| **uid != *known);
        let is_guarded = || {
            let since = self.map.seen_since().filter(|_| self.map.map().is_some());
            since.is_none_or(|since| now < since + self.slots.longest_lease())
        };
        self.runs
            && self.mutant != Some(Mutant::AnnouncedEarly)
            && self.stored().and_then(|stored| stored.map.as_deref()).is_some_and(is_another)
            && is_guarded()
    }

    /// The announcement of the own session, as it is stored.
    pub(super) fn stored(&self) -> Option<&Announcement> {
        let own = self.own()?;
        let slot = self.slots.get(own.slot).filter(|slot| slot.session(own.slot).as_ref() == Some(&own));
        slot?.announcement.as_ref()
    }

    /// The announcement to store.
    pub(super) fn announcement(&self, now: Moment) -> Announcement {
        Announcement {
            count: self.options.count,
            by: self.options.by,
            leaving: self.stage != Stage::Running,
            map: self.announced_map(now).map(str::to_owned),
            warm: self.warm.clone(),
            of: self.of,
        }
    }

    /// The uid of the map to announce.
    pub(super) fn announced_map(&self, now: Moment) -> Option<&str> {
        if self.outlives_map(now) {
            return self.stored()?.map.as_deref();
        }
        self.map.seen().map(|uid| &**uid)
    }
}
