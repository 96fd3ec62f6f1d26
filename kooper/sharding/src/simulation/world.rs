//! The world of a simulation: true time, the coming events, and what happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kooper_base::leader::lease_state::{LeaseWrite, WriteResult};
use kooper_base::leader::scope::WatchedNamespaces;

use super::network::{Answer, Request, SimServer};
use super::process::{Call, InFlight, Process};
use super::rng::SimRng;
use super::scenario::{Disruption, ProcessEvent, SimEvent, Summary};
use super::{Configuration, Mutant};
use crate::map::{MapRecord, MapWrite};
use crate::member::{MapStep, SessionStep, SlotsStep};
use crate::session::Announcement;

mod check;
mod faults;

pub(super) struct World {
    pub(super) configuration: Configuration,
    faults: Vec<(Duration, Disruption)>,
    mutant: Option<Mutant>,
    rng: SimRng,
    pub(super) now: Duration,
    /// By their times. Events at the same time are in the order in which they were scheduled.
    events: BTreeMap<(Duration, u64), SimEvent>,
    next: u64,
    pub(super) server: SimServer,
    pub(super) processes: Vec<Process>,
    pub(super) summary: Summary,
    broken: Option<String>,
    started: u64,
    /// The highest term of each bucket.
    terms: Vec<u64>,
    /// When the stored map was created.
    created: Duration,
    /// A backup of the server, if it had a map, and when the server was restored from it.
    backup: Option<SimServer>,
    restored: Option<Duration>,
}

impl World {
    pub(super) fn new(
        configuration: Configuration,
        replicas: usize,
        faults: Vec<(Duration, Disruption)>,
        mutant: Option<Mutant>,
        rng: SimRng,
    ) -> Self {
        let mut world = Self {
            server: SimServer::new(configuration.slots),
            configuration,
            mutant,
            rng,
            now: Duration::ZERO,
            events: BTreeMap::new(),
            next: 0,
            processes: Vec::new(),
            summary: Summary::default(),
            broken: None,
            started: 0,
            terms: vec![0; 256],
            created: Duration::ZERO,
            backup: None,
            restored: None,
            faults,
        };
        for _ in 0..replicas {
            world.join();
        }
        for index in 0..world.faults.len() {
            world.at(world.faults[index].0, SimEvent::Fault(index));
        }
        world
    }

    /// Starts one more replica.
    pub(super) fn join(&mut self) {
        let who = self.processes.len();
        let process = self.process(who);
        self.processes.push(process);
        let at = self.now + self.rng.within(self.configuration.terms.retry);
        self.at(at, SimEvent::Process(who, ProcessEvent::Wake(0)));
        self.at(at, SimEvent::Process(who, ProcessEvent::Begin));
    }

    fn process(&mut self, who: usize) -> Process {
        self.started += 1;
        let namespaces = ["a", "b"].map(str::to_owned);
        let scope = if self.configuration.are_apart { &namespaces[who % 2..=who % 2] } else { &namespaces };
        let scope = WatchedNamespaces::of(scope);
        Process::new(self.started, scope, &self.configuration, self.now, self.mutant, &mut self.rng)
    }

    /// Lets a replica stop in order.
    pub(super) fn stop(&mut self, who: usize) {
        let limit = self.configuration.terms.lease / 2;
        let process = &mut self.processes[who];
        if process.is_alive && !process.is_stopping {
            process.is_stopping = true;
            process.member.stop(process.clock.at(self.now), limit);
            self.wake(who, self.now);
        }
    }

    pub(super) fn restart(&mut self, who: usize) {
        let process = self.process(who);
        self.processes[who] = process;
        self.wake(who, self.now);
    }

    /// Runs until a condition holds, which is looked at ten times a second; the error says that it
    /// does not by then, or what is broken.
    pub(super) fn run_until(
        &mut self,
        by: Duration,
        problem: &str,
        condition: impl FnMut(&Self) -> bool,
    ) -> Result<(), String> {
        match self.run(by, condition)? {
            true => Ok(()),
            false => Err(format!("{problem} at {:.3} s: {:?}", by.as_secs_f64(), self.loads())),
        }
    }

    pub(super) fn run_to(&mut self, to: Duration) -> Result<(), String> {
        self.run(to, |_| false)?;
        Ok(())
    }

    fn run(&mut self, by: Duration, mut condition: impl FnMut(&Self) -> bool) -> Result<bool, String> {
        let mut look = self.now;
        while self.events.first_key_value().is_some_and(|((at, _), _)| *at <= by)
            && let Some(((at, _), event)) = self.events.pop_first()
        {
            self.now = at;
            self.handle(event);
            if let Some(broken) = self.broken.take() {
                return Err(format!("{broken} at {:.6} s", at.as_secs_f64()));
            }
            if at >= look {
                look = at + Duration::from_millis(100);
                if condition(self) {
                    return Ok(true);
                }
            }
        }
        self.now = by;
        Ok(false)
    }

    fn at(&mut self, at: Duration, event: SimEvent) {
        self.next += 1;
        self.events.insert((at.max(self.now), self.next), event);
    }

    fn wake(&mut self, who: usize, at: Duration) {
        self.processes[who].wake += 1;
        self.at(at, SimEvent::Process(who, ProcessEvent::Wake(self.processes[who].wake)));
    }

    fn handle(&mut self, event: SimEvent) {
        match event {
            SimEvent::Arrive(who, lane, id, request) => self.arrive(who, lane, id, request),
            SimEvent::Fault(index) => self.fault(self.faults[index].1),
            SimEvent::Restart(who) => self.restart(who),
            SimEvent::Process(who, event) if self.now < self.processes[who].paused => {
                self.at(self.processes[who].paused, SimEvent::Process(who, event));
            }
            SimEvent::Process(who, event) => self.handle_process(who, event),
        }
    }

    fn handle_process(&mut self, who: usize, event: ProcessEvent) {
        let process = &mut self.processes[who];
        let now = process.clock.at(self.now);
        match event {
            ProcessEvent::Wake(wake) if wake != process.wake => return,
            ProcessEvent::Wake(_) => {}
            ProcessEvent::Answer(lane, id, answer) => self.answered(who, lane, id, answer),
            ProcessEvent::MapDelivered(record) => process.member.handle_map_event(now, record),
            ProcessEvent::SlotDelivered(slot, record) => process.member.handle_slot_event(slot, now, record),
            ProcessEvent::Warmed(shard) => {
                process.warming.remove(&shard);
                process.warmed.insert(shard);
                process.member.warmed(shard);
            }
            ProcessEvent::Begin => {
                self.begin(who);
                let pause = Duration::from_millis(200) + self.rng.within(Duration::from_millis(1800));
                return self.at(self.now + pause, SimEvent::Process(who, ProcessEvent::Begin));
            }
            ProcessEvent::Write(id) => return self.write(who, id),
            ProcessEvent::End(id) => {
                process.calls.retain(|call| call.id != id);
                let works = process.member.works_until(now).is_some();
                if works && process.member.draining().next().is_none() {
                    return;
                }
            }
        }
        self.drive(who);
        self.check_holds(who);
    }

    /// Does what the executor of a replica does.
    fn drive(&mut self, who: usize) {
        for _ in 0..50 {
            let process = &mut self.processes[who];
            if !process.is_alive || self.now < process.paused {
                return;
            }
            let now = process.clock.at(self.now);
            let wall = process.wall(now);
            let has_watches = self.configuration.watches_slots && self.now >= process.faults.no_map;
            let watched = has_watches.then(|| process.member.to_watch());
            process.member.watches(watched.into_iter().flatten());
            process.member.set_running(!process.calls.is_empty(), now);
            let mut until = Duration::MAX;
            let mut requests = Vec::new();
            if process.lanes[0].is_none() {
                match process.member.next_session(now, wall) {
                    SessionStep::Read(slot) => requests.push((0, Request::SessionRead(slot))),
                    SessionStep::Write(slot, write, announced) => {
                        requests.push((0, Request::SessionWrite(slot, write, announced)));
                    }
                    SessionStep::Wait(at) => until = until.min(at),
                    SessionStep::Gone => return process.crash(),
                }
            }
            if process.lanes[1].is_none() {
                match process.member.next_slots(now, wall) {
                    SlotsStep::Read(slots) => requests.push((1, Request::SlotsRead(slots))),
                    SlotsStep::Tombstone(slot, write) => requests.push((1, Request::Tombstone(slot, write))),
                    SlotsStep::Wait(at) => until = until.min(at),
                }
            }
            if process.lanes[2].is_none() {
                match process.member.next_map(now) {
                    MapStep::Read => requests.push((2, Request::MapRead)),
                    MapStep::Write(write) => {
                        requests.push((2, Request::MapWrite(write, Arc::clone(&process.identity))));
                    }
                    MapStep::Wait(at) => until = until.min(at),
                }
            }
            let to_warm: Vec<_> = process.member.to_warm().filter(|shard| !process.warming.contains(shard)).collect();
            let drained: Vec<_> = process
                .member
                .draining()
                .filter(|shard| self.mutant == Some(Mutant::EarlyHandOver) || !process.runs(*shard))
                .collect();
            process.warming.extend(&to_warm);
            drained.iter().for_each(|shard| process.member.drained(*shard));
            for shard in to_warm {
                let at = self.now + self.rng.within(Duration::from_millis(300));
                self.at(at, SimEvent::Process(who, ProcessEvent::Warmed(shard)));
            }
            let is_idle = requests.is_empty();
            for (lane, request) in requests {
                self.send(who, lane, request);
            }
            if !drained.is_empty() || !is_idle {
                continue;
            }
            let process = &self.processes[who];
            let at = process.clock.true_time(until.max(now));
            return self.wake(who, at.min(self.now + Duration::from_secs(100)));
        }
        self.broken = Some(format!("{who} spins"));
    }

    fn send(&mut self, who: usize, lane: usize, request: Request) {
        self.next += 1;
        self.summary.requests += 1;
        self.summary.renewals += u64::from(matches!(request, Request::SessionWrite(..)));
        let id = self.next;
        let process = &mut self.processes[who];
        let sent = process.clock.at(self.now);
        let timeout = process.clock.true_time(sent + self.configuration.terms.patience());
        process.lanes[lane] = Some(InFlight { id, sent, request: request.clone() });
        let is_cut = lane == 2 && self.now < process.faults.no_map;
        if let Some(travel) = process.faults.request(self.now, &mut self.rng).filter(|_| !is_cut) {
            self.at(self.now + travel, SimEvent::Arrive(who, lane, id, request));
        }
        self.at(timeout, SimEvent::Process(who, ProcessEvent::Answer(lane, id, None)));
    }

    fn arrive(&mut self, who: usize, lane: usize, id: u64, request: Request) {
        let is_bad = self.now < self.processes[who].faults.errors && self.rng.chance(0.6);
        let answer = if is_bad && self.rng.chance(0.5) { None } else { Some(self.perform(who, request)) };
        let answer = answer.filter(|_| !is_bad);
        if let Some(travel) = self.processes[who].faults.answer(self.now, &mut self.rng) {
            self.at(self.now + travel, SimEvent::Process(who, ProcessEvent::Answer(lane, id, answer)));
        }
    }

    fn perform(&mut self, who: usize, request: Request) -> Answer {
        match request {
            Request::SessionRead(slot) => Answer::Slot(self.server.slots[usize::from(slot)].clone()),
            Request::SlotsRead(slots) => {
                self.summary.slots_read += slots.len();
                let read = |slot: u8| (slot, self.server.slots[usize::from(slot)].clone());
                Answer::Slots(slots.into_iter().map(read).collect())
            }
            Request::MapRead => Answer::Map(self.server.map.clone()),
            Request::SessionWrite(slot, write, announced) => self.put_slot(who, slot, write, announced, false),
            Request::Tombstone(slot, write) => self.put_slot(who, slot, write, None, true),
            Request::MapWrite(write, by) => self.put_map(&by, write, self.processes[who].scope.clone()),
        }
    }

    fn put_slot(
        &mut self,
        by: usize,
        slot: u8,
        mut write: LeaseWrite,
        announced: Option<Announcement>,
        is_tombstone: bool,
    ) -> Answer {
        let (before, scope) = (self.server.slots[usize::from(slot)].clone(), self.processes[by].scope.clone());
        if is_tombstone && self.mutant == Some(Mutant::BlindEvictor) {
            write.base = before.as_ref().map(|before| Arc::clone(&before.record.version));
        }
        let Some(stored) = self.server.put_slot(slot, &write, announced, scope) else { return self.conflict() };
        self.check_slot(by, slot, before.as_ref(), &stored, is_tombstone);
        if self.configuration.watches_slots {
            for who in 0..self.processes.len() {
                if self.processes[who].member.to_watch().contains(&slot) {
                    self.deliver(who, ProcessEvent::SlotDelivered(slot, stored.clone()));
                }
            }
        }
        Answer::SlotStored(stored)
    }

    fn put_map(&mut self, by: &str, mut write: MapWrite, scope: WatchedNamespaces) -> Answer {
        let before = self.server.map.clone();
        match self.mutant {
            Some(Mutant::BlindMapWrites) => write.base = before.as_ref().map(|before| Arc::clone(&before.version)),
            Some(Mutant::SameTerm) => {
                if let (Some(before), Some(map)) = (&before, &mut write.map) {
                    Arc::make_mut(map).keep_terms(&before.map);
                }
            }
            _ => {}
        }
        let Some(stored) = self.server.put_map(&write, scope) else { return self.conflict() };
        let Some(stored) = stored else {
            self.check_return(before.as_ref().map(|before| &*before.map));
            return Answer::MapStored(None);
        };
        self.created = if before.is_none() { self.now } else { self.created };
        self.check_map(by, before.as_ref().map(|before| &*before.map), &stored.map);
        self.tell_map(&stored);
        Answer::MapStored(Some(stored))
    }

    fn tell_map(&mut self, stored: &MapRecord) {
        for who in 0..self.processes.len() {
            self.deliver(who, ProcessEvent::MapDelivered(stored.clone()));
        }
    }

    fn conflict(&mut self) -> Answer {
        self.summary.conflicts += 1;
        Answer::Conflict
    }

    /// Sends an event to a watch; events arrive in order.
    fn deliver(&mut self, who: usize, event: ProcessEvent) {
        let process = &mut self.processes[who];
        if !process.is_alive || self.now < process.faults.no_map {
            return;
        }
        let Some(travel) = process.faults.event(self.now, &mut self.rng) else { return };
        process.watched = process.watched.max(self.now + travel);
        let at = process.watched;
        self.at(at, SimEvent::Process(who, event));
    }

    fn answered(&mut self, who: usize, lane: usize, id: u64, answer: Option<Answer>) {
        let process = &mut self.processes[who];
        if process.lanes[lane].as_ref().is_none_or(|request| request.id != id) {
            return;
        }
        let Some(InFlight { sent, request, .. }) = process.lanes[lane].take() else { return };
        let (now, member) = (process.clock.at(self.now), &mut process.member);
        match (request, answer) {
            (Request::SessionRead(slot), Some(Answer::Slot(found))) => {
                member.handle_session_read(slot, sent, now, Ok(found));
            }
            (Request::SessionRead(slot), _) => member.handle_session_read(slot, sent, now, Err(())),
            (Request::SessionWrite(slot, ..), answer) => {
                let answer = match answer {
                    Some(Answer::SlotStored(stored)) => WriteResult::Committed(stored),
                    Some(Answer::Conflict) => WriteResult::Conflict,
                    _ => WriteResult::Failed,
                };
                member.handle_session_write(slot, sent, now, answer);
            }
            (Request::SlotsRead(_), Some(Answer::Slots(found))) => member.handle_slots_read(sent, now, Ok(found)),
            (Request::SlotsRead(_), _) => member.handle_slots_read(sent, now, Err(())),
            (Request::Tombstone(..), answer) => member.handle_tombstone(now, answer.is_none()),
            (Request::MapRead, Some(Answer::Map(found))) => member.handle_map_read(sent, now, Ok(found)),
            (Request::MapRead, _) => member.handle_map_read(sent, now, Err(())),
            (Request::MapWrite(..), answer) => {
                let answer = match answer {
                    Some(Answer::MapStored(stored)) => WriteResult::Committed(stored),
                    Some(Answer::Conflict) => WriteResult::Conflict,
                    _ => WriteResult::Failed,
                };
                member.handle_map_write(sent, now, answer);
            }
        }
    }

    /// Begins a call of an object in some bucket.
    fn begin(&mut self, who: usize) {
        let bucket = self.rng.below(256) as u8;
        let is_long = self.rng.chance(0.1);
        let works = self.rng.within(if is_long { Duration::from_secs(3) } else { Duration::from_millis(100) });
        self.call(who, bucket, works);
    }

    /// Begins a call in each bucket of a replica.
    pub(super) fn work(&mut self, who: usize, works: Duration) {
        (0..=255).for_each(|bucket| self.call(who, bucket, works));
    }

    fn call(&mut self, who: usize, bucket: u8, works: Duration) {
        let process = &mut self.processes[who];
        let now = process.clock.at(self.now);
        let Some(shard) = process.member.map().map(|map| map.count().shard(bucket)) else { return };
        let Some(term) = process.member.holds(shard, now) else { return };
        let Some(session) = process.member.session(now) else { return };
        if !process.is_alive || process.member.is_draining(shard) {
            return;
        }
        self.next += 1;
        self.summary.calls += 1;
        process.calls.push(Call { id: self.next, bucket, term, acquired: session.acquired });
        let (id, writes) = (self.next, self.rng.within(works));
        self.at(self.now + writes, SimEvent::Process(who, ProcessEvent::Write(id)));
        self.at(self.now + works, SimEvent::Process(who, ProcessEvent::End(id)));
    }
}
