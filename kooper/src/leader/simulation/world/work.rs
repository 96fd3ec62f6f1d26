//! What handlers write while their process leads, on its way to the server.
//!
//! A handler begins when it may, works for a while, and hands its write to the
//! fence. From there it waits for its turn in the client, and is then on the
//! wire, where nobody can take it back.

use std::sync::Arc;
use std::time::Duration;

use super::{Event, Mode, Mutant, World};
use crate::leader::clock::{Clock, Moment};

/// A term of one process, and what that has promised itself.
pub(super) struct Reign {
    by: Arc<str>,
    term: u64,
    until: Moment,
    /// In true time. Kept as it was promised, whatever the token says later.
    ends: Duration,
}

impl World {
    /// Notes until when each process may write. To be called after whatever happens.
    pub(super) fn keep_reigns(&mut self) {
        for process in &mut self.processes {
            let left = process.leadership.time_left().unwrap_or_default();
            let (term, until) = (process.leadership.term(), process.clock.now() + left);
            let known = process.reign.map(|reign| &mut self.reigns[reign]);
            match known {
                // One that crashed let nobody in earlier than promised.
                Some(reign) if left.is_zero() && process.mode != Mode::Gone => reign.ends = reign.ends.min(self.now),
                _ if left.is_zero() => {}
                Some(reign) if reign.term == term && reign.until == until => {}
                Some(reign) if reign.term == term => {
                    (reign.until, reign.ends) = (until, process.clock.truly(until));
                }
                _ => {
                    let by = Arc::clone(process.claim.identity());
                    process.reign = Some(self.reigns.len());
                    self.reigns.push(Reign { by, term, until, ends: process.clock.truly(until) });
                }
            }
        }
    }

    /// A handler begins.
    pub(super) fn begin(&mut self, who: usize) {
        let process = &self.processes[who];
        let (held, reign) = (process.leadership.is_held(), process.reign);
        if let (true, Some(reign)) = (held, reign) {
            self.alone(who);
            let long = if self.luck.chance(0.1) { self.plan.terms[0] } else { Duration::from_millis(50) };
            let works = self.luck.within(long);
            self.at(self.now + works, Event::Write(who, reign));
        }
    }

    /// The handler's write comes to the fence.
    pub(super) fn write(&mut self, who: usize, reign: usize) {
        if !self.lives(who, reign) {
            return;
        }
        let unfenced = self.plan.mutant == Some(Mutant::EarlyLook);
        if !self.leads(who, reign) && !unfenced {
            self.outcome.fenced += 1;
            return;
        }
        // What a partition swallows is not sent.
        if let Some(travel) = self.processes[who].way.request(self.now, &mut self.luck) {
            // Such a write has no excuse but its early look.
            let waits = if unfenced { Duration::ZERO } else { self.luck.within(travel) };
            self.at(self.now + waits, Event::Depart(who, reign, travel - waits));
        }
    }

    /// It is sent, unless the fence ended it while it waited.
    pub(super) fn depart(&mut self, who: usize, reign: usize, travel: Duration) {
        if !self.lives(who, reign) {
            return;
        }
        let unfenced = matches!(self.plan.mutant, Some(Mutant::EarlyLook | Mutant::LateRequests));
        if !self.leads(who, reign) && !unfenced {
            self.outcome.ended += 1;
            return;
        }
        self.outcome.works += 1;
        let Reign { by, ends, .. } = &self.reigns[reign];
        if self.now > *ends {
            self.broken = Some(format!("{by} sends a write {:?} after its term", self.now - *ends));
        }
        self.at(self.now + travel, Event::Land(reign));
    }

    /// The server has it, whoever leads by now.
    pub(super) fn land(&mut self, reign: usize) {
        let Reign { by, ends, .. } = &self.reigns[reign];
        let late = self.now.saturating_sub(*ends);
        let overtaken = self.reigns[reign + 1..].iter().any(|next| next.by != *by);
        self.outcome.late += u64::from(!late.is_zero());
        self.outcome.tail = self.outcome.tail.max(late);
        self.outcome.overtaken += u64::from(overtaken);
    }

    /// Whether the process of that term still runs.
    fn lives(&self, who: usize, reign: usize) -> bool {
        let process = &self.processes[who];
        process.mode != Mode::Gone && *process.claim.identity() == self.reigns[reign].by
    }

    /// What the fence asks.
    fn leads(&self, who: usize, reign: usize) -> bool {
        self.processes[who].leadership.is_term(self.reigns[reign].term)
    }
}
