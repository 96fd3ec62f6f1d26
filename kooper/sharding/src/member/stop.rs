//! The end of a replica: it hands its shards over, and the last one returns the Lease of the map.

use std::time::Duration;

use super::{Member, Moment, Stage};
use crate::hash::Shard;
use crate::mutant::Mutant;
use crate::session::{Session, SlotRecord};

/// Whether this replica returns the Lease of the map to leader election: a version of the program without shards, which
/// never takes the Lease from them, then begins to work at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Returns {
    No,
    /// It is the last one, and the write is due or on its way.
    Due,
    /// The write has failed: the stop is not delayed by another one.
    Failed,
}

impl Member {
    /// Hands all shards over, and releases the session. What is not handed over after `limit` is
    /// left to the others when the session is released.
    pub(crate) fn stop(&mut self, now: Duration, limit: Duration) {
        if self.stage == Stage::Running {
            self.stage = Stage::Leaving { until: now + limit };
            self.changed = true;
        }
    }

    /// Returns `true` if this replica stops and nobody can be waited for.
    pub(crate) fn is_late(&self, now: Moment) -> bool {
        matches!(self.stage, Stage::Leaving { until } if now >= until || self.live.is_empty())
    }

    /// A replica that stops releases its session when it has handed over its shards, or when it is
    /// late and no call runs.
    pub(super) fn advance_stop(&mut self, now: Moment, own: Option<&Session>) {
        let Stage::Leaving { until } = self.stage else { return };
        let is_done = self.has_drained(own, now) && !self.outlives_map(now);
        if (is_done && !self.is_returning(until, now)) || self.mutant == Some(Mutant::EarlyRelease) {
            match &mut self.seat {
                Some(seat) => {
                    seat.claim.step_down(now);
                    self.stage = Stage::Releasing;
                }
                None => self.stage = Stage::Gone,
            }
        }
    }

    /// Returns `true` if the shards of this replica are handed over, or nobody can be waited for and no call of them runs.
    fn has_drained(&self, own: Option<&Session>, now: Moment) -> bool {
        let mut owned = self
            .map
            .map()
            .into_iter()
            .flat_map(|map| map.iter())
            .filter(|(_, shard)| own.is_some() && shard.owner.as_ref() == own);
        let is_drained =
            |shard: &Shard| self.draining.get(shard).is_some_and(|drain| drain.done) || self.map.is_given(*shard);
        if self.is_late(now) { owned.all(|(shard, _)| is_drained(&shard)) } else { owned.next().is_none() }
    }

    /// Returns `true` if the Lease of the map is to be returned before the session is released: nobody else has a session,
    /// and all owners in the map have ended. Of several replicas that stop together, the first one waits for the others.
    fn is_returning(&mut self, until: Moment, now: Moment) -> bool {
        if self.returns == Returns::Failed {
            return false;
        }
        self.returns = Returns::No;
        let (Some(map), Some(own)) = (self.map.map(), self.session(now)) else { return false };
        if !self.live.is_empty() || self.is_map_of_others() {
            return false;
        }
        let is_early = self.mutant == Some(Mutant::ReturnedEarly);
        let mut others = self.slots.unexpired(now).filter(|(session, _)| *session != own && !is_early).peekable();
        if others.peek().is_some() {
            let is_leaving = |record: &SlotRecord| record.announcement.as_ref().is_some_and(|stored| stored.leaving);
            return now < until && others.all(|(session, record)| own < session && is_leaving(record));
        }
        let is_free = |owner: &Session| *owner == own || self.slots.is_ended(owner, now) || is_early;
        if map.iter().all(|(_, shard)| shard.owner.as_ref().is_none_or(is_free)) {
            self.returns = Returns::Due;
        }
        self.returns == Returns::Due
    }

    /// A write of the map has failed. It may have been the one that returns the Lease.
    pub(super) fn return_failed(&mut self) {
        if self.returns == Returns::Due {
            self.returns = Returns::Failed;
        }
    }
}
