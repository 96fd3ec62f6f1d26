//! The world of a simulation: true time, the coming events, and the
//! conditions that must always hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Mutant;
use super::network::{PutError, SimServer};
use super::process::{Activity, SimProcess, SimRequest};
use super::rng::SimRng;
use super::scenario::{Disruption, DisruptionKind, Scenario, SimEvent, Summary};
use crate::clock::Clock;
use crate::leader::lease_state::{LeaseWrite, NextStep, Record, WriteResult};

mod work;

use work::SimTerm;

pub(super) struct World {
    scenario: Scenario,
    rng: SimRng,
    /// The randomness of the handlers and their writes.
    handler_rng: SimRng,
    mark: Arc<str>,
    truth: Arc<AtomicU64>,
    now: Duration,
    /// By their times. Events at the same time are in the order in which they were scheduled.
    events: BTreeMap<(Duration, u64), SimEvent>,
    next: u64,
    server: SimServer,
    processes: Vec<SimProcess>,
    /// All terms, in the order in which they began.
    sim_terms: Vec<SimTerm>,
    last_led: Vec<bool>,
    summary: Summary,
    broken: Option<String>,
    started: u64,
}

impl World {
    pub(super) fn new(scenario: Scenario, rng: SimRng, handler_rng: SimRng) -> Self {
        let summary = Summary { lease: scenario.terms[0], ..Summary::default() };
        let mut world = Self {
            last_led: vec![false; scenario.candidates],
            scenario,
            rng,
            handler_rng,
            mark: "sim/echo".into(),
            truth: Arc::new(AtomicU64::new(0)),
            now: Duration::ZERO,
            events: BTreeMap::new(),
            next: 0,
            server: SimServer::default(),
            processes: Vec::new(),
            sim_terms: Vec::new(),
            summary,
            broken: None,
            started: 0,
        };
        for who in 0..world.scenario.candidates {
            let process = world.process();
            world.processes.push(process);
            let at = world.rng.within(world.scenario.terms[2]);
            world.at(at, SimEvent::Wake(who, 0));
            world.at(at, SimEvent::Work(who));
        }
        for index in 0..world.scenario.faults.len() {
            world.at(world.scenario.faults[index].0, SimEvent::Fault(index));
        }
        world
    }

    /// Runs until all faults are over and there has been a leader for a while.
    pub(super) fn run(mut self) -> Result<Summary, String> {
        let last = self.scenario.faults.iter().map(|(at, fault)| *at + fault.lasts).max().unwrap_or_default();
        self.at(last, SimEvent::Healed);
        // A record has whole seconds, and the slowest clock waits longest.
        let lease = Duration::from_secs(self.scenario.terms[0].as_millis().div_ceil(1000) as u64);
        let bound = last + lease.mul_f64(1.25) + self.scenario.terms[2] * 2 + Duration::from_secs(1);
        let mut recovered = None;
        while let Some(((at, _), event)) = self.events.pop_first() {
            self.now = at;
            self.truth.store(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            self.handle(event);
            self.keep_reigns();
            if let Some(broken) = self.broken.take() {
                return Err(format!("{broken} at {:.6} s", at.as_secs_f64()));
            }
            if at >= last && recovered.is_none() && self.processes.iter().any(|process| process.leadership.is_held()) {
                recovered = Some(at - last);
            }
            if at > recovered.map_or(bound, |recovered| last + recovered + self.scenario.terms[0]) {
                break;
            }
        }
        self.summary.recovered =
            recovered.ok_or_else(|| format!("there is no leader {:?} after the last fault", bound - last))?;
        Ok(self.summary)
    }

    fn process(&mut self) -> SimProcess {
        self.started += 1;
        let name = format!("candidate-{}", self.started);
        SimProcess::new(name, &self.mark, self.scenario.terms, &self.truth, self.scenario.mutant, &mut self.rng)
    }

    fn at(&mut self, at: Duration, event: SimEvent) {
        self.next += 1;
        self.events.insert((at.max(self.now), self.next), event);
    }

    fn handle(&mut self, event: SimEvent) {
        let who = match &event {
            SimEvent::Wake(who, _)
            | SimEvent::Answer(who, ..)
            | SimEvent::Opened(who, _)
            | SimEvent::Seen(who, ..)
            | SimEvent::Closed(who, _)
            | SimEvent::Work(who)
            | SimEvent::Write(who, _)
            | SimEvent::SendWrite(who, ..)
            | SimEvent::Overdue(who, _) => Some(*who),
            SimEvent::Arrive(..)
            | SimEvent::CommitWrite(_)
            | SimEvent::Fault(_)
            | SimEvent::Restart(_)
            | SimEvent::Healed => None,
        };
        if let Some(who) = who
            && self.now < self.processes[who].paused
        {
            // A paused process handles events after the pause.
            return self.at(self.processes[who].paused, event);
        }
        match event {
            SimEvent::Wake(who, wake) if wake == self.processes[who].wake => self.drive(who),
            SimEvent::Wake(..) => {}
            SimEvent::Arrive(who, id, write) => self.arrive(who, id, write),
            SimEvent::Answer(who, id, answer) => self.answered(who, id, answer),
            SimEvent::Opened(who, watch) => {
                let record = self.server.record.clone();
                if record.is_some() {
                    self.deliver(who, watch, record);
                }
            }
            SimEvent::Seen(who, watch, record) => {
                let process = &mut self.processes[who];
                if process.watch.is_some_and(|(open, _)| open == watch) {
                    let now = process.clock.now();
                    process.state.handle_watch_event(now, record);
                    if process.request.is_none() {
                        self.drive(who);
                    }
                }
            }
            SimEvent::Closed(who, watch) => {
                let process = &mut self.processes[who];
                if process.watch.is_some_and(|(open, _)| open == watch) {
                    process.unwatch();
                    if process.request.is_none() {
                        self.drive(who);
                    }
                }
            }
            SimEvent::Work(who) => {
                self.begin(who);
                let pause = Duration::from_millis(100) + self.rng.within(Duration::from_millis(900));
                self.at(self.now + pause, SimEvent::Work(who));
            }
            SimEvent::Write(who, sim_term) => self.write(who, sim_term),
            SimEvent::SendWrite(who, sim_term, travel) => self.send_write(who, sim_term, travel),
            SimEvent::CommitWrite(sim_term) => self.commit_write(sim_term),
            SimEvent::Overdue(who, sim_term) => self.check_overdue(who, sim_term),
            SimEvent::Fault(index) => self.fault(self.scenario.faults[index].1),
            SimEvent::Restart(who) => {
                let process = self.process();
                self.processes[who] = process;
                self.last_led[who] = false;
                self.drive(who);
            }
            SimEvent::Healed => self.processes.iter_mut().for_each(|process| process.faults.heal()),
        }
    }

    fn fault(&mut self, mut fault: Disruption) {
        if let Some(leader) = self.processes.iter().position(|process| process.leadership.is_held())
            && fault.leader
        {
            fault.who = leader;
        }
        let until = self.now + fault.lasts;
        let process = &mut self.processes[fault.who];
        match fault.kind {
            DisruptionKind::Partition => process.faults.cut = until,
            DisruptionKind::SlowRequests => process.faults.slow_requests = until,
            DisruptionKind::SlowAnswers => process.faults.slow_answers = until,
            DisruptionKind::LostAnswers => process.faults.lost_answers = until,
            DisruptionKind::Errors => process.faults.errors = until,
            DisruptionKind::BadWatch => {
                process.faults.bad_watch = until;
                if let Some((watch, _)) = process.watch
                    && self.rng.chance(0.3)
                {
                    self.at(self.now, SimEvent::Closed(fault.who, watch));
                }
            }
            DisruptionKind::Pause => process.suspend(self.now, until, self.scenario.mutant),
            DisruptionKind::Crash if process.activity != Activity::Gone => {
                process.crash();
                self.at(until, SimEvent::Restart(fault.who));
            }
            DisruptionKind::Stop if matches!(process.activity, Activity::Campaign | Activity::Hold) => {
                self.drain(fault.who, true);
                self.at(until, SimEvent::Restart(fault.who));
            }
            // Only a leader has handlers.
            DisruptionKind::Block if process.activity == Activity::Hold => process.blocked = until,
            DisruptionKind::Crash | DisruptionKind::Stop | DisruptionKind::Block => {}
        }
    }

    /// Handlers end, then the lease is released. It is renewed in the meantime.
    fn drain(&mut self, who: usize, last: bool) {
        let works =
            self.processes[who].activity == Activity::Hold && self.scenario.mutant != Some(Mutant::EarlyRelease);
        let drain = if works { self.rng.within(self.scenario.terms[0] / 2) } else { Duration::ZERO };
        self.processes[who].activity = Activity::Draining { until: self.now + drain, last };
        self.wake(who, self.now);
    }

    fn wake(&mut self, who: usize, at: Duration) {
        self.processes[who].wake += 1;
        self.at(at, SimEvent::Wake(who, self.processes[who].wake));
    }

    /// Does what the elector and its controller do.
    fn drive(&mut self, who: usize) {
        for _ in 0..100 {
            let process = &mut self.processes[who];
            if process.activity == Activity::Gone || process.request.is_some() || self.now < process.paused {
                return;
            }
            if let Activity::Draining { until, last } = process.activity
                && self.now >= until
            {
                if self.now < process.blocked {
                    return self.outlast(who, last);
                }
                let now = process.clock.now();
                process.state.step_down(now);
                process.unwatch();
                if self.scenario.mutant != Some(Mutant::EarlyRelease) {
                    process.leadership.set(None);
                }
                process.activity = Activity::Release { last };
            }
            let (now, wall) = (process.clock.now(), process.wall());
            let step = process.state.next(now, wall);
            if process.activity == Activity::Campaign && process.state.until().is_some_and(|until| now < until) {
                process.activity = Activity::Hold;
                process.unwatch();
            }
            match step {
                NextStep::Read => return self.send(who, None),
                NextStep::Write(write) => return self.send(who, Some(write)),
                NextStep::Wait(until) => return self.wait(who, until),
                NextStep::Lost(_) => {
                    process.leadership.set(None);
                    match process.activity {
                        Activity::Hold => {
                            process.state.abandon();
                            return self.drain(who, false);
                        }
                        Activity::Draining { .. } => process.state.abandon(),
                        _ => {}
                    }
                }
                NextStep::Idle => match process.activity {
                    Activity::Release { last: true } => return process.crash(),
                    Activity::Draining { until, .. } => return self.wake(who, until),
                    _ => {
                        process.state.campaign();
                        process.activity = Activity::Campaign;
                    }
                },
            }
        }
        self.broken = Some(format!("{who} spins"));
    }

    fn wait(&mut self, who: usize, until: Duration) {
        let process = &mut self.processes[who];
        let now = process.clock.now();
        let mut at = process.clock.true_time(until);
        if process.activity == Activity::Campaign && process.watch.is_none() && now >= process.watch_at {
            self.next += 1;
            let watch = self.next;
            process.watch = Some((watch, self.now));
            process.state.set_watching(true);
            let opened = process.faults.request(self.now, &mut self.rng);
            match opened {
                Some(travel) => self.at(self.now + travel, SimEvent::Opened(who, watch)),
                None => self.at(self.now + self.scenario.terms[2], SimEvent::Closed(who, watch)),
            }
        }
        if let Activity::Draining { until, .. } = self.processes[who].activity {
            at = at.min(until);
        }
        self.wake(who, at + Duration::from_nanos(1));
    }

    fn send(&mut self, who: usize, write: Option<LeaseWrite>) {
        self.next += 1;
        let id = self.next;
        let process = &mut self.processes[who];
        let sent = process.clock.now();
        let timeout = process.clock.true_time(sent + process.state.timeout(sent));
        process.request = Some(SimRequest { id, sent, write: write.clone() });
        if let Some(travel) = process.faults.request(self.now, &mut self.rng) {
            self.at(self.now + travel, SimEvent::Arrive(who, id, write));
        }
        self.at(timeout, SimEvent::Answer(who, id, None));
    }

    fn arrive(&mut self, who: usize, id: u64, write: Option<LeaseWrite>) {
        let bad = self.now < self.processes[who].faults.errors && self.rng.chance(0.6);
        let (fails_before, fails_after) = (bad && self.rng.chance(0.5), bad);
        let answer = match write {
            _ if fails_before => None,
            None => Some(Ok(self.server.record.clone())),
            Some(write) => Some(self.put(write).map(Some)),
        };
        let answer = if fails_after { None } else { answer };
        if let Some(travel) = self.processes[who].faults.answer(self.now, &mut self.rng) {
            self.at(self.now + travel, SimEvent::Answer(who, id, answer));
        }
    }

    /// The error is whether it was a conflict.
    fn put(&mut self, mut write: LeaseWrite) -> Result<Record, bool> {
        let released = write.holder.is_empty();
        if self.scenario.mutant == Some(Mutant::BlindWrites)
            || (released && self.scenario.mutant == Some(Mutant::BlindRelease))
        {
            write.base = self.server.record.as_ref().map(|record| Arc::clone(&record.version));
        }
        let before = self.server.record.as_ref().map(|record| Arc::clone(&record.holder));
        match self.server.put(&write, &self.mark) {
            Ok(record) => {
                self.summary.commits += 1;
                let erased = before.filter(|before| *before != write.holder);
                self.respected(erased, &write.holder);
                for who in 0..self.processes.len() {
                    if let Some((watch, _)) = self.processes[who].watch {
                        self.deliver(who, watch, Some(record.clone()));
                    }
                }
                Ok(record)
            }
            Err(PutError::Conflict) => {
                self.summary.conflicts += 1;
                Err(true)
            }
            Err(PutError::Invalid) => {
                self.broken = Some("the server rejects the record".to_owned());
                Err(false)
            }
        }
    }

    /// Checks that no write overwrites the lease of a leader.
    fn respected(&mut self, erased: Option<Arc<str>>, by: &Arc<str>) {
        let Some(erased) = erased else { return };
        for process in &self.processes {
            if process.state.identity() == &erased && process.leadership.is_held() {
                self.broken = Some(format!("the valid lease of {erased} was overwritten with {by:?}"));
            }
        }
    }

    /// Sends an event to a watch; events arrive in order.
    fn deliver(&mut self, who: usize, watch: u64, record: Option<Record>) {
        let now = self.now;
        let process = &mut self.processes[who];
        let Some(travel) = process.faults.event(now, &mut self.rng) else { return };
        if let Some((_, last)) = &mut process.watch {
            *last = (*last).max(now + travel);
            let at = *last;
            self.at(at, SimEvent::Seen(who, watch, record));
        }
    }

    fn answered(&mut self, who: usize, id: u64, answer: Option<Result<Option<Record>, bool>>) {
        let process = &mut self.processes[who];
        if process.request.as_ref().is_none_or(|request| request.id != id) {
            return;
        }
        let Some(request) = process.request.take() else { return };
        let (now, sent) = (process.clock.now(), request.sent);
        let mutant = self.scenario.mutant;
        if mutant == Some(Mutant::FromTheAnswer) {
            process.state.sent_at(now);
        }
        match (request.write, answer) {
            (None, Some(Ok(found))) => {
                let (before, after) = (process.state.version(), found.as_ref().map(|record| &record.version));
                if process.watch.is_some() && before.is_some() && before != after {
                    process.unwatch();
                }
                process.state.handle_read(sent, now, found);
            }
            (None, _) => process.state.handle_read_failure(sent, now),
            (Some(_), Some(Ok(Some(record)))) => process.state.handle_write_result(now, WriteResult::Committed(record)),
            (Some(_), Some(Err(true))) => process.state.handle_write_result(now, WriteResult::Conflict),
            (Some(write), _) if mutant == Some(Mutant::TrustingWrites) => {
                // The mutant treats a write without a response as committed.
                let version = write.base.clone().unwrap_or_else(|| "0".into());
                process
                    .state
                    .handle_write_result(now, WriteResult::Committed(Record::stored(&write, &self.mark, version)));
            }
            (Some(_), _) => process.state.handle_write_result(now, WriteResult::Failed),
        }
        process.update_token(mutant);
        self.alone(who);
        self.drive(who);
    }

    /// Checks that no other process is the leader if this one is.
    fn alone(&mut self, who: usize) {
        let held = self.processes[who].leadership.is_held();
        self.summary.terms += u64::from(held && !self.last_led[who]);
        self.last_led[who] = held;
        let other = (0..self.processes.len()).find(|&other| other != who && self.processes[other].leadership.is_held());
        if held && let Some(other) = other {
            self.broken = Some(format!("{who} and {other} are leaders at the same time"));
        }
        if held && let Some(other) = self.outlives(who) {
            self.broken = Some(format!("a handler of {other} runs while {who} leads"));
        }
    }
}
