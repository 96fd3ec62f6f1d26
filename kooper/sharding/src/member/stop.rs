//! The end of a replica: it hands its shards over, and the last one returns the Lease of the map.

use std::time::Duration;

use super::{Member, Moment, Stage};
use crate::hash::Shard;
use crate::mutant::Mutant;
use crate::session::{Session, SlotRecord};

/// After its calls have ended, the last replica has at least this time to see that all others have ended, and to return the
/// Lease of the map; a failed write is repeated. A stop has more until the session must be released.
const RETURN: Duration = Duration::from_millis(1500);

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
        self.returns = false;
        let is_drained = self.has_drained(own, now) || self.mutant == Some(Mutant::ReturnedInCalls);
        let is_done = is_drained && !self.outlives_map(now);
        if (is_done && !self.is_returning(until, now)) || self.mutant == Some(Mutant::EarlyRelease) {
            match &mut self.claim {
                Some(claim) => {
                    claim.state.step_down(now);
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
    /// and all owners in the map have ended. Then a version of the program without shards, which never takes the Lease from
    /// them, begins to work at once. Of several replicas that stop together, the first one waits for the others.
    fn is_returning(&mut self, until: Moment, now: Moment) -> bool {
        let (Some(map), Some(own)) = (self.map.map(), self.session(now)) else { return false };
        if !self.live.is_empty() || self.is_map_of_others() {
            return false;
        }
        let end = *self.returns_until.get_or_insert(until.max(now + RETURN));
        let is_early = self.mutant == Some(Mutant::ReturnedEarly);
        let others: Vec<_> = self.slots.unexpired(now).filter(|(session, _)| *session != own && !is_early).collect();
        let is_behind = |(session, record): &(Session, &SlotRecord)| {
            own < *session && record.announcement.as_ref().is_some_and(|stored| stored.leaving)
        };
        if now >= end || !others.iter().all(is_behind) {
            return false;
        }
        let is_ended = |owner: &Session| *owner == own || self.slots.is_ended(owner, now) || is_early;
        self.returns = others.is_empty() && map.iter().all(|(_, shard)| shard.owner.as_ref().is_none_or(is_ended));
        true
    }
}
