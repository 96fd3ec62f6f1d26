//! The loop that sends the requests of a member, and tells calls and caches what it owns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use kooper_base::clock::wall;
use kooper_base::leader::lease::Lease;
use kooper_base::leader::lease_state::{RequestTimeout, WriteResult};
use kooper_base::metrics::{Counter, Gauge, MetricsRecorder, ReadGauge};
use kooper_runtime::Shard as OwnedShard;
use kooper_runtime::internal::watch::selection::SelectorState;
use parking_lot::Mutex as SyncMutex;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::leases::{MapLease, Slot, StoreError, mark};
use super::requests::{Answer, Lane, Requests, read_slots};
use super::status::Status;
use super::term::Terms;
use super::watches::{LeaseUpdate, Watches};
use super::{ShardingOptions, Shared};
use crate::hash::{Shard, ShardCount};
use crate::map::ShardMap;
use crate::member::{MapStep, Member, SessionStep, SlotsStep};

/// Timers use a clock that stops while the machine is suspended. The right clock is read at least
/// this often.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// After this time a replica that stops no longer waits for others to hold its shards.
const LEAVE: Duration = Duration::from_secs(5);

/// The values of the label `state` in metrics.
const SELECTOR_STATES: [(SelectorState, &str); 3] =
    [(SelectorState::Applied, "applied"), (SelectorState::Ignored, "ignored"), (SelectorState::Rejected, "rejected")];

pub(super) struct Driver {
    shared: Arc<Shared>,
    controller: Arc<str>,
    metrics: Arc<dyn MetricsRecorder>,
    status: Arc<Status>,
    timeout: RequestTimeout,
    /// The Leases of sessions, for the own session and for those of others: each remembers the
    /// version that its next write replaces.
    own: Vec<Arc<Mutex<Slot>>>,
    others: Vec<Arc<Mutex<Slot>>>,
    map: Arc<Mutex<MapLease>>,
    watches: Watches,
    busy: Vec<Lane>,
    requests: Requests,
    /// The shards that this replica works on, and the terms.
    worked_on: Vec<(Shard, u64)>,
    /// The shards in which calls may begin.
    admitted: Vec<Shard>,
    /// The shards that are handed over, of so many.
    draining: Option<(ShardCount, BTreeSet<Shard>)>,
    owned: Arc<AtomicU64>,
    /// Since when shards have no owner, as far as this replica knows.
    unowned: Arc<SyncMutex<BTreeMap<Shard, Duration>>>,
    /// Since when this replica does not know the map. All shards may be without an owner.
    mapless: Arc<SyncMutex<Option<Duration>>>,
    /// The leader of a version without shards still works.
    has_leader: bool,
    /// The shards in which no call begins before they are given away: since when, and the term.
    handing_over: BTreeMap<Shard, (Duration, u64)>,
}

impl Drop for Driver {
    /// Ends all terms: without the driver, nothing would cancel their calls.
    fn drop(&mut self) {
        self.shared.terms.lock().keep(|_| None);
    }
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, options: &ShardingOptions) -> Self {
        let mark = mark(&options.mark);
        let lease = |name: &String| {
            Lease::of(options.client.clone(), &options.namespace, name, Arc::clone(&mark), &options.watched)
        };
        let slots = || options.leases.iter().skip(1).map(|name| Arc::new(Mutex::new(Slot(lease(name))))).collect();
        let watched = options.leases.iter().map(|name| Slot(lease(name))).collect();
        let watches = Watches::new(watched, Arc::clone(&mark), Arc::clone(&shared.clock), options.shards.terms().retry);
        let terms = options.shards.terms();
        let name = options.leases.first().cloned().unwrap_or_default();
        let place = format!("{}/{name}", options.namespace);
        let map = MapLease::new(lease(&name), place, Arc::clone(&mark), Arc::clone(&shared.clock), terms.lease);
        let status = Arc::new(Status::new(Arc::clone(&options.controller), terms.lease, &options.watched));
        options.health.add(Arc::clone(&status) as _);
        let driver = Self {
            controller: Arc::clone(&options.controller),
            metrics: Arc::clone(&options.metrics),
            status,
            timeout: RequestTimeout::new(&terms),
            own: slots(),
            others: slots(),
            map: Arc::new(Mutex::new(map)),
            watches,
            busy: Vec::new(),
            requests: FuturesUnordered::new(),
            worked_on: Vec::new(),
            admitted: Vec::new(),
            draining: None,
            owned: Arc::default(),
            unowned: Arc::default(),
            mapless: Arc::new(SyncMutex::new(Some(shared.clock.now()))),
            has_leader: false,
            handing_over: BTreeMap::new(),
            shared,
        };
        driver.measure();
        driver
    }

    fn measure(&self) {
        let owned = Arc::clone(&self.owned);
        let (unowned, times) = (Arc::clone(&self.unowned), Arc::clone(&self.unowned));
        let clock = Arc::clone(&self.shared.clock);
        let mapless = Arc::clone(&self.mapless);
        let time = move || {
            let first = mapless.lock().into_iter().chain(times.lock().values().copied()).min();
            first.map_or(0.0, |first| clock.now().saturating_sub(first).as_secs_f64())
        };
        let gauges: [(Gauge, ReadGauge); 3] = [
            (Gauge::ShardsOwned, Box::new(move || owned.load(Ordering::Relaxed) as f64)),
            (Gauge::ShardsUnowned, Box::new(move || unowned.lock().len() as f64)),
            (Gauge::ShardsUnownedTime, Box::new(time)),
        ];
        let selectors = SELECTOR_STATES.map(|(state, label)| -> (Gauge, ReadGauge) {
            let selectors = Arc::clone(&self.shared.selectors);
            let read =
                move || selectors.lock().iter().filter(|selector| *selector.lock() == Some(state)).count() as f64;
            (Gauge::ShardSelector { state: label }, Box::new(read))
        });
        for (gauge, read) in gauges.into_iter().chain(selectors) {
            if let Err(error) = self.metrics.register_gauge(&self.controller, gauge, read) {
                tracing::warn!(controller = &*self.controller, "a metric is missing: {error}");
            }
        }
    }

    /// Runs until everything was handed over or released after `leave` was cancelled.
    pub(super) async fn run(mut self, leave: CancellationToken) {
        let mut leaves = false;
        loop {
            if leave.is_cancelled() && !leaves {
                leaves = true;
                self.shared.member.lock().stop(self.shared.clock.now(), LEAVE);
            }
            let Some(until) = self.step() else { break };
            let now = self.shared.clock.now();
            let pause = until.min(self.watch()).saturating_sub(now).min(CHECK_INTERVAL);
            tokio::select! {
                biased;
                Some((lane, sent, answer)) = self.requests.next() => self.answered(lane, sent, answer),
                seen = self.watches.next() => self.observed(seen),
                () = self.shared.changed.notified() => {}
                () = leave.cancelled(), if !leaves => {}
                () = sleep(pause) => {}
            }
        }
        self.shared.leadership.set(None);
        self.shared.held.send_replace(BTreeSet::new());
    }

    /// Opens the watches that are missing; returns when those are opened that could not be opened now.
    fn watch(&mut self) -> Duration {
        let mut member = self.shared.member.lock();
        let until = self.watches.open(&member.to_watch());
        member.watches(self.watches.slots());
        until
    }

    /// Sends what is to be sent; returns until when there is nothing else to do, or `None` if this
    /// replica has stopped.
    fn step(&mut self) -> Option<Duration> {
        loop {
            let (now, wall) = (self.shared.clock.now(), wall().as_microsecond());
            let shared = Arc::clone(&self.shared);
            let mut member = shared.member.lock();
            // No call begins while the member decides by those that run. A task may: its call runs, or it is not polled.
            let mut terms = shared.terms.lock();
            self.keep_terms(&mut terms, &member, now);
            self.drain(&mut member, &terms, now);
            self.warm(&mut member);
            let mut until = Duration::MAX;
            let mut sent = self.busy.len();
            if !self.busy.contains(&Lane::Session) {
                match member.next_session(now, wall) {
                    SessionStep::Read(slot) => self.read_session(slot, now),
                    SessionStep::Write(slot, write, announcement) => {
                        self.send(Lane::Session, now, at(&self.own, slot), move |mut lease, patience| async move {
                            let written = timeout(patience, lease.write(&write, announcement.as_ref())).await;
                            Answer::SessionWrite(slot, written.unwrap_or(Err(StoreError::Silent)))
                        });
                    }
                    SessionStep::Wait(at) => until = until.min(at),
                    SessionStep::Gone => {
                        self.publish(&member, &mut terms, now);
                        return None;
                    }
                }
            }
            if !self.busy.contains(&Lane::Slots) {
                match member.next_slots(now, wall) {
                    SlotsStep::Read(slots) => self.read_slots(&slots, now),
                    SlotsStep::Tombstone(slot, write) => {
                        self.send(Lane::Slots, now, at(&self.others, slot), move |mut lease, patience| async move {
                            let written = timeout(patience, lease.write(&write, None)).await;
                            Answer::Tombstone(written.unwrap_or(Err(StoreError::Silent)))
                        });
                    }
                    SlotsStep::Wait(at) => until = until.min(at),
                }
            }
            if !self.busy.contains(&Lane::Map) {
                let (map, patience) = (Arc::clone(&self.map), self.timeout.get());
                match member.next_map(now) {
                    MapStep::Read => self.request(Lane::Map, now, async move {
                        let found = timeout(patience, async { map.lock().await.read().await }).await;
                        Answer::MapRead(found.unwrap_or(Err(StoreError::Silent)))
                    }),
                    MapStep::Write(write) => self.request(Lane::Map, now, async move {
                        let written = timeout(patience, async { map.lock().await.write(&write, wall).await }).await;
                        Answer::MapWrite(written.unwrap_or(Err(StoreError::Silent)))
                    }),
                    MapStep::Wait(at) => until = until.min(at),
                }
            }
            self.publish(&member, &mut terms, now);
            sent = self.busy.len() - sent;
            let is_seen =
                member.map().is_none_or(|map| member.draining().all(|shard| self.is_closed(map.count(), shard)));
            if sent == 0 && is_seen {
                let lapse = member.works_until(now).unwrap_or(Duration::MAX);
                return Some(until.min(lapse));
            }
        }
    }

    /// Sends a request for a slot.
    fn send<F: Future<Output = Answer> + Send + 'static>(
        &mut self,
        lane: Lane,
        sent: Duration,
        slot: Option<Arc<Mutex<Slot>>>,
        request: impl FnOnce(OwnedMutexGuard<Slot>, Duration) -> F + Send + 'static,
    ) {
        let (Some(slot), patience) = (slot, self.timeout.get()) else { return };
        self.request(lane, sent, async move { request(slot.lock_owned().await, patience).await });
    }

    fn request(&mut self, lane: Lane, sent: Duration, request: impl Future<Output = Answer> + Send + 'static) {
        self.busy.push(lane);
        self.requests.push(request.map(move |answer| (lane, sent, answer)).boxed());
    }

    /// Tells the member whether calls run, and which shards that it is going to hand over have none.
    fn drain(&mut self, member: &mut Member, terms: &Terms, now: Duration) {
        let draining: BTreeSet<Shard> = member.draining().collect();
        // A replica that does not work any more waits for the end of its calls, too.
        let is_awaited = !draining.is_empty() || member.works_until(now).is_none();
        self.shared.drains.store(is_awaited, Ordering::SeqCst);
        member.set_running(self.shared.runs_any(), now);
        let Some(map) = member.map().cloned() else { return };
        for shard in &draining {
            if !self.is_closed(map.count(), *shard) {
                terms.leave(map.count().buckets(*shard));
            }
            // After the time that a stop may take, what was deleted is lost, as without shards.
            let awaits = || !member.is_late(now) && self.shared.awaits_deleted(&map, *shard);
            if !self.shared.runs(&map, *shard) && !awaits() {
                member.drained(*shard);
            }
        }
        self.draining = Some((map.count(), draining));
    }

    /// Returns `true` if the terms of a shard that is handed over were asked to end. After a split the index is that of another
    /// shard.
    fn is_closed(&self, count: ShardCount, shard: Shard) -> bool {
        self.draining.as_ref().is_some_and(|(of, shards)| *of == count && shards.contains(&shard))
    }

    /// Ends the terms in which this replica does not work any more, and gives those of split shards their new index.
    fn keep_terms(&mut self, terms: &mut Terms, member: &Member, now: Duration) {
        let worked_on: Vec<(Shard, u64)> = member.held(now).collect();
        // Without a shard, a call that began between two steps may have left a term.
        if worked_on != self.worked_on || worked_on.is_empty() {
            let count = member.map().map_or(0, |map| map.count().get());
            let owned = |(shard, term): (Shard, u64)| OwnedShard::new(shard.0.into(), count, term);
            terms.keep(|bucket| member.holds_bucket(bucket, now).map(owned));
            self.worked_on = worked_on;
        }
        if let Some(by) = member.map().map(|map| map.by()).filter(|by| *by != terms.by) {
            terms.keep(|_| None);
            terms.by = by;
        }
    }

    /// Tells the member which shards of others the caches hold. While one cannot be listed, or `init` has not succeeded,
    /// their owner works on them.
    fn warm(&mut self, member: &mut Member) {
        if !self.shared.works.load(Ordering::SeqCst) {
            return;
        }
        let Some(map) = member.map().cloned() else { return };
        let wanted: Vec<Shard> = member.to_warm().collect();
        let listed = self.shared.listed(|cache| &cache.all);
        wanted.into_iter().filter(|shard| self.is_listed(listed, &map, *shard)).for_each(|shard| member.warmed(shard));
    }

    /// Returns `true` if the objects of a shard had joined when the caches listed what they have.
    fn is_listed(&self, listed: u64, map: &ShardMap, shard: Shard) -> bool {
        let selected = self.shared.selected.lock();
        map.count().buckets(shard).all(|bucket| (1..=listed).contains(&selected.buckets[usize::from(bucket)]))
    }

    /// Tells calls and caches what this replica owns.
    fn publish(&mut self, member: &Member, terms: &mut Terms, now: Duration) {
        let shared = Arc::clone(&self.shared);
        let has_lapsed = !shared.leadership.is_held();
        shared.leadership.set(member.works_until(now));
        self.status.stand_by(member.standby(now).as_ref());
        // While the map is not known, neither are they.
        if member.map().is_some() {
            self.status.reject(&member.overrides().rejected);
        }
        shared.select(member);
        self.observe(member, now);
        let count = member.map().map_or(0, |map| map.count().get());
        let before = shared.held.borrow();
        let listed = shared.listed(|cache| &cache.tried);
        let is_listed = |shard| member.map().is_some_and(|map| self.is_listed(listed, map, shard));
        let shards = member.owned(now).map(|(shard, term)| (shard, OwnedShard::new(shard.0.into(), count, term)));
        // A shard that is taken over from a replica that died is listed first: so each of its objects
        // is queued once, because of the shard. One that was held before, in the same term, was listed.
        let held: Vec<OwnedShard> = shards
            .filter(|(shard, owned)| before.contains(owned) || is_listed(*shard))
            .map(|(_, owned)| owned)
            .collect();
        self.keep_terms(terms, member, now);
        let worked_on = self.worked_on.iter().map(|(shard, _)| *shard);
        let admitted: Vec<Shard> = worked_on.filter(|shard| !member.is_draining(*shard)).collect();
        let is_same = before.iter().eq(&held);
        // A key that was refused for the moment until a late renewal waits for a value.
        let is_back = has_lapsed && shared.leadership.is_held();
        if is_same && admitted == self.admitted && !is_back {
            return;
        }
        self.admitted = admitted;
        if !is_same {
            let gained = held.iter().filter(|shard| !before.contains(shard));
            gained.for_each(|_| self.metrics.count(&self.controller, Counter::ShardGained));
            self.owned.store(held.len() as u64, Ordering::Relaxed);
            tracing::info!(controller = &*self.controller, "works on {} of {count} shards", held.len());
        }
        drop(before);
        shared.held.send_replace(held.into_iter().collect());
    }

    /// Records since when shards have no owner, and how long hand-overs took.
    fn observe(&mut self, member: &Member, now: Duration) {
        let unowned: BTreeSet<Shard> = member.unowned(now).collect();
        let mut mapless = self.mapless.lock();
        let mut since = self.unowned.lock();
        since.retain(|shard, _| unowned.contains(shard));
        unowned.into_iter().for_each(|shard| {
            since.entry(shard).or_insert(mapless.unwrap_or(now));
        });
        drop(since);
        *mapless = (member.map().is_none() && !self.has_leader).then(|| mapless.unwrap_or(now));
        drop(mapless);
        let Some(map) = member.map() else { return };
        let handing_over: BTreeSet<Shard> = member.handing_over().collect();
        let term = |shard: &Shard| map.get(*shard).map(|ownership| ownership.term);
        let (controller, metrics) = (&self.controller, &self.metrics);
        self.handing_over.retain(|shard, (since, before)| {
            let is_given = term(shard) != Some(*before);
            if is_given {
                metrics.observe_shard_handover(controller, now.saturating_sub(*since));
            }
            !is_given && handing_over.contains(shard)
        });
        for shard in handing_over {
            if let Some(term) = term(&shard) {
                self.handing_over.entry(shard).or_insert((now, term));
            }
        }
    }

    fn read_session(&mut self, slot: u8, now: Duration) {
        self.send(Lane::Session, now, at(&self.own, slot), move |mut lease, patience| async move {
            let found = timeout(patience, lease.read()).await;
            Answer::SessionRead(slot, found.unwrap_or(Err(StoreError::Silent)))
        });
    }

    fn read_slots(&mut self, slots: &[u8], now: Duration) {
        let slots: Vec<_> = slots.iter().filter_map(|slot| Some((*slot, at(&self.others, *slot)?))).collect();
        self.request(Lane::Slots, now, read_slots(slots, self.timeout.get()));
    }

    fn answered(&mut self, lane: Lane, sent: Duration, answer: Answer) {
        self.busy.retain(|busy| *busy != lane);
        let now = self.shared.clock.now();
        self.timeout.observe(now.saturating_sub(sent));
        let what = match lane {
            Lane::Map => "the map of shards",
            Lane::Session => "this replica's session",
            Lane::Slots => "sessions",
        };
        let error = match &answer {
            Answer::SessionRead(_, answer) => answer.as_ref().err(),
            Answer::SessionWrite(_, answer) | Answer::Tombstone(answer) => answer.as_ref().err(),
            Answer::Slots(_, error) => error.as_ref(),
            Answer::MapRead(answer) => answer.as_ref().err(),
            Answer::MapWrite(answer) => answer.as_ref().err(),
        };
        self.status.record(what, now, error);
        let mut member = self.shared.member.lock();
        match answer {
            Answer::SessionRead(slot, found) => member.handle_session_read(slot, sent, now, found.map_err(drop)),
            Answer::SessionWrite(slot, written) => {
                member.handle_session_write(slot, sent, now, result_of(written));
            }
            Answer::Slots(found, error) => {
                if !found.is_empty() {
                    member.handle_slots_read(sent, now, Ok(found));
                }
                if error.is_some() {
                    member.handle_slots_read(sent, now, Err(()));
                }
            }
            Answer::Tombstone(written) => {
                member.handle_tombstone(now, written.is_err_and(|error| !error.is_conflict()));
            }
            Answer::MapRead(found) => {
                self.has_leader = matches!(found, Err(StoreError::Held(..)));
                member.handle_map_read(sent, now, found.map_err(drop));
            }
            Answer::MapWrite(written) => member.handle_map_write(sent, now, result_of(written)),
        }
    }

    fn observed(&self, seen: Option<LeaseUpdate>) {
        let now = self.shared.clock.now();
        let mut member = self.shared.member.lock();
        match seen {
            Some(LeaseUpdate::Map(record)) => member.handle_map_event(now, record),
            Some(LeaseUpdate::MapDeleted) => member.handle_map_deleted(now),
            Some(LeaseUpdate::Slot(slot, record)) => member.handle_slot_event(slot, now, record),
            None => {}
        }
    }
}

/// A write as the member sees it.
fn result_of<T>(written: Result<T, StoreError>) -> WriteResult<T> {
    match written {
        Ok(stored) => WriteResult::Committed(stored),
        Err(error) if error.is_conflict() => WriteResult::Conflict,
        Err(_) => WriteResult::Failed,
    }
}

fn at(slots: &[Arc<Mutex<Slot>>], slot: u8) -> Option<Arc<Mutex<Slot>>> {
    slots.get(usize::from(slot)).cloned()
}
