//! The faults, and what a person does meanwhile.

use std::time::Duration;

use super::World;
use crate::hash::ShardCount;
use crate::mutant::Mutant;
use crate::overrides::Overrides;
use crate::simulation::scenario::{Disruption, DisruptionKind, ProcessEvent, SimEvent};

impl World {
    pub(super) fn fault(&mut self, fault: Disruption) {
        let (who, until) = (fault.who, self.now + fault.lasts);
        let process = &mut self.processes[who];
        match fault.kind {
            DisruptionKind::Partition => process.faults.cut = until,
            DisruptionKind::SlowRequests => process.faults.slow_requests = until,
            DisruptionKind::SlowAnswers => process.faults.slow_answers = until,
            DisruptionKind::LostAnswers => process.faults.lost_answers = until,
            DisruptionKind::Errors => process.faults.errors = until,
            DisruptionKind::BadWatch => process.faults.bad_watch = until,
            DisruptionKind::Pause => {
                let from = process.paused.max(self.now);
                process.paused = process.paused.max(until);
                if self.mutant == Some(Mutant::SleepingClock) {
                    process.clock.miss(process.paused.saturating_sub(from));
                }
            }
            DisruptionKind::Crash if process.is_alive => {
                process.crash();
                self.at(until, SimEvent::Restart(who));
            }
            DisruptionKind::Stop if process.is_alive && !process.is_stopping => {
                self.stop(who);
                self.at(until, SimEvent::Restart(who));
            }
            DisruptionKind::Crash | DisruptionKind::Stop => {}
            DisruptionKind::Outage => self.processes.iter_mut().for_each(|process| process.faults.cut = until),
            DisruptionKind::DeleteMap => {
                self.server.delete_map();
                if self.rng.chance(0.5) {
                    // It does not hear of it, while its session is renewed.
                    self.processes[who].faults.no_map = until;
                }
            }
            DisruptionKind::DeleteSlot => {
                let slot = self.rng.below(self.server.slots.len());
                self.server.delete_slot(slot);
            }
            DisruptionKind::Move => {
                let (bucket, identity) = (self.rng.below(256) as u8, self.processes[who].identity.to_string());
                self.override_plan(|overrides, count| {
                    overrides.of = Some(count);
                    overrides.moved.insert(count.shard(bucket), identity);
                });
            }
            DisruptionKind::Drain => {
                let identity = self.processes[who].identity.to_string();
                self.override_plan(|overrides, _| overrides.drained.extend([identity]));
            }
            DisruptionKind::Undo => self.undo(),
        }
    }

    /// Schedules a few more faults within this time. Returns the end of the last one.
    pub(in crate::simulation) fn disturb(&mut self, span: Duration, deleted: DisruptionKind) -> Duration {
        let (replicas, lease) = (self.processes.len(), self.configuration.terms.lease);
        let mut last = self.now;
        for _ in 0..2 + self.rng.below(4) {
            let at = self.now + self.rng.within(span);
            let fault = Disruption::any(&mut self.rng, replicas, lease, deleted);
            last = last.max(at + fault.lasts);
            self.at(at, SimEvent::Fault(self.faults.len()));
            self.faults.push((at, fault));
        }
        last
    }

    /// A backup of the server is made, if it has a map.
    pub(in crate::simulation) fn back_up(&mut self) {
        self.backup = Some(&self.server).filter(|server| server.map.is_some()).cloned();
    }

    /// The server is restored from the backup, and its connections end. Returns `false` if there is none. Some replicas
    /// do not notice it at once.
    pub(in crate::simulation) fn restore(&mut self) -> bool {
        let Some(backup) = self.backup.clone() else { return false };
        self.server.restore(backup, self.rng.chance(0.5));
        // New terms are higher than those that their writer has seen: a map between two restores can have been seen by some.
        let alive = self.processes.iter().filter(|process| process.is_alive);
        let seen = alive.map(|process| process.member.highest_term()).min().unwrap_or_default();
        self.terms.iter_mut().for_each(|term| *term = seen.min(*term));
        self.restored = Some(self.now);
        self.events.retain(|_, event| {
            use ProcessEvent::{Answer, MapDelivered, SlotDelivered};
            let SimEvent::Process(_, event) = event else { return !matches!(event, SimEvent::Arrive(..)) };
            !matches!(event, Answer(.., Some(_)) | MapDelivered(_) | SlotDelivered(..))
        });
        let kinds = [
            DisruptionKind::Partition,
            DisruptionKind::Pause,
            DisruptionKind::SlowAnswers,
            DisruptionKind::LostAnswers,
            DisruptionKind::BadWatch,
        ];
        for who in 0..self.processes.len() {
            if self.rng.chance(0.5) {
                let lasts = self.rng.within(self.configuration.terms.lease * 3 / 2);
                let kind = kinds[self.rng.below(kinds.len())];
                self.fault(Disruption { who, kind, lasts });
            }
        }
        true
    }

    /// A person undoes all moves and drains.
    pub(in crate::simulation) fn undo(&mut self) {
        self.override_plan(|overrides, _| *overrides = Overrides::default());
    }

    /// A person changes what overrides the plan.
    fn override_plan(&mut self, change: impl FnOnce(&mut Overrides, ShardCount)) {
        if let Some(stored) = self.server.put_overrides(change) {
            self.tell_map(&stored);
        }
    }
}
