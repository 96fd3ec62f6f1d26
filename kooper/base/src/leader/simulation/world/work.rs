//! The writes of handlers, on the way to the server.
//!
//! A handler begins while its process is the leader, works for a while, and
//! passes its write to the fence. The write then waits in the client, and is sent.
//! From then on it cannot be recalled.

use std::sync::Arc;
use std::time::Duration;

use super::{Activity, Mutant, SimEvent, World};
use crate::clock::{Clock, Moment};

/// A term of one process, and when the process must stop writing.
pub(super) struct SimTerm {
    by: Arc<str>,
    term: u64,
    until: Moment,
    /// The end of the token in true time. A later state of the token does not
    /// change it.
    ends: Duration,
}

impl World {
    /// Records until when each process may write. Called after each event.
    pub(super) fn keep_reigns(&mut self) {
        for process in &mut self.processes {
            let left = process.leadership.time_left().unwrap_or_default();
            let (term, until) = (process.leadership.term(), process.clock.now() + left);
            let known = process.sim_term.map(|sim_term| &mut self.sim_terms[sim_term]);
            match known {
                // The term of a crashed process is not shortened.
                Some(sim_term) if left.is_zero() && process.activity != Activity::Gone => {
                    sim_term.ends = sim_term.ends.min(self.now);
                }
                _ if left.is_zero() => {}
                Some(sim_term) if sim_term.term == term && sim_term.until == until => {}
                Some(sim_term) if sim_term.term == term => {
                    (sim_term.until, sim_term.ends) = (until, process.clock.true_time(until));
                }
                _ => {
                    let by = Arc::clone(process.state.identity());
                    process.sim_term = Some(self.sim_terms.len());
                    self.sim_terms.push(SimTerm { by, term, until, ends: process.clock.true_time(until) });
                }
            }
        }
        for who in 0..self.processes.len() {
            let process = &mut self.processes[who];
            let Some(sim_term) = process.sim_term.filter(|_| self.now < process.blocked) else { continue };
            let ends = self.sim_terms[sim_term].ends;
            if std::mem::replace(&mut process.watchdog, ends) != ends {
                self.at(ends, SimEvent::Overdue(who, sim_term));
            }
        }
    }

    /// Ends a process whose handler blocks its thread at the end of a term, as the watchdog
    /// does.
    pub(super) fn check_overdue(&mut self, who: usize, sim_term: usize) {
        let is_over = self.sim_terms[sim_term].ends <= self.now;
        let process = &mut self.processes[who];
        let blocked = self.now < process.blocked && process.sim_term == Some(sim_term) && !process.leadership.is_held();
        if !is_over || !blocked || self.scenario.mutant == Some(Mutant::NoWatchdog) {
            return;
        }
        self.summary.outlived += 1;
        process.crash();
        self.restart_later(who);
    }

    /// A process that is to release its Lease, and whose handler is still blocked: it ends
    /// and lets the Lease expire, or waits for its watchdog.
    pub(super) fn outlast(&mut self, who: usize, last: bool) {
        let blocked = self.processes[who].blocked;
        if last {
            // It is started again by the fault that stopped it.
            self.processes[who].crash();
        } else {
            self.processes[who].activity = Activity::Draining { until: blocked, last };
            self.wake(who, blocked);
        }
    }

    /// Another process whose handler runs although its term is over.
    pub(super) fn outlives(&self, who: usize) -> Option<usize> {
        let outlives = |other: &usize| {
            let process = &self.processes[*other];
            let runs = *other != who && self.now < process.blocked && process.activity != Activity::Gone;
            let since =
                process.sim_term.map_or(Duration::MAX, |sim_term| self.sim_terms[sim_term].ends).max(process.paused);
            runs && !process.leadership.is_held() && self.now > since
        };
        (0..self.processes.len()).find(outlives)
    }

    fn restart_later(&mut self, who: usize) {
        let pause = self.rng.within(self.scenario.terms[0]);
        self.at(self.now + pause, SimEvent::Restart(who));
    }

    /// Begins a handler call.
    pub(super) fn begin(&mut self, who: usize) {
        let process = &self.processes[who];
        if process.leadership.is_held()
            && let Some(sim_term) = process.sim_term
        {
            self.alone(who);
            let long = if self.handler_rng.chance(0.1) { self.scenario.terms[0] } else { Duration::from_millis(50) };
            let works = self.handler_rng.within(long);
            self.at(self.now + works, SimEvent::Write(who, sim_term));
        }
    }

    /// The handler's write reaches the fence.
    pub(super) fn write(&mut self, who: usize, sim_term: usize) {
        if !self.is_same_process(who, sim_term) {
            return;
        }
        let unfenced = self.scenario.mutant == Some(Mutant::EarlyLook);
        if !self.is_leading(who, sim_term) && !unfenced {
            self.summary.fenced += 1;
            return;
        }
        // During a partition nothing is sent.
        if let Some(travel) = self.processes[who].faults.request(self.now, &mut self.handler_rng) {
            // The early check is the only fault of such a write.
            let waits = if unfenced { Duration::ZERO } else { self.handler_rng.within(travel) };
            self.at(self.now + waits, SimEvent::SendWrite(who, sim_term, travel - waits));
        }
    }

    /// The write is sent, unless the fence aborted it while it waited.
    pub(super) fn send_write(&mut self, who: usize, sim_term: usize, travel: Duration) {
        if !self.is_same_process(who, sim_term) {
            return;
        }
        let unfenced = matches!(self.scenario.mutant, Some(Mutant::EarlyLook | Mutant::LateRequests));
        if !self.is_leading(who, sim_term) && !unfenced {
            self.summary.ended += 1;
            return;
        }
        self.summary.works += 1;
        let SimTerm { by, ends, .. } = &self.sim_terms[sim_term];
        if self.now > *ends {
            self.broken = Some(format!("{by} sends a write {:?} after its term", self.now - *ends));
        }
        self.at(self.now + travel, SimEvent::CommitWrite(sim_term));
    }

    /// The write reaches the server, whether or not its process is still the leader.
    pub(super) fn commit_write(&mut self, sim_term: usize) {
        let SimTerm { by, ends, .. } = &self.sim_terms[sim_term];
        let late = self.now.saturating_sub(*ends);
        let overtaken = self.sim_terms[sim_term + 1..].iter().any(|next| next.by != *by);
        self.summary.late += u64::from(!late.is_zero());
        self.summary.tail = self.summary.tail.max(late);
        self.summary.overtaken += u64::from(overtaken);
    }

    /// Returns `true` if the process of a term is still running.
    fn is_same_process(&self, who: usize, sim_term: usize) -> bool {
        let process = &self.processes[who];
        process.activity != Activity::Gone && *process.state.identity() == self.sim_terms[sim_term].by
    }

    /// The check of the fence.
    fn is_leading(&self, who: usize, sim_term: usize) -> bool {
        self.processes[who].leadership.is_term(self.sim_terms[sim_term].term)
    }
}
