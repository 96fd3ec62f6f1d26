//! The state of one replica: its session, what it knows of the slots and of the map, and which
//! shards it hands over. It does no I/O; an executor and the simulation both drive it.
//!
//! There are three kinds of requests, at most one of each at a time: those of the own slot
//! ([`Member::next_session`]), of all slots ([`Member::next_slots`]) and of the map
//! ([`Member::next_map`]). After whatever happens, all three are asked again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kooper_base::leader::lease_state::{Candidate, LeaseState, Terms};
use kooper_base::leader::scope::WatchedNamespaces;
use kooper_runtime::internal::watch::retriever::fnv1a;

use crate::hash::{Shard, ShardCount, ShardField};
use crate::map::ShardMap;
use crate::mutant::Mutant;
use crate::overrides::Overrides;
use crate::plan::plan;
use crate::session::{Announcement, Session};

mod announced;
mod map_view;
mod proposal;
mod restore;
mod slots;
mod standby;
mod steps;
mod stop;

use map_view::MapView;
use slots::Slots;
pub(crate) use standby::Standby;
pub(crate) use steps::{MapStep, SessionStep, SlotsStep};

/// A moment of the local clock: the time since its start.
type Moment = Duration;

/// A shard whose calls do not end is kept, and its hand-over is tried again after a lease.
const DRAIN: Duration = Duration::from_secs(2);

/// The settings that a replica is started with.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The identity of the process. No other process ever has it.
    pub(crate) identity: Arc<str>,
    /// The mark of the controller in its Leases.
    pub(crate) mark: Arc<str>,
    /// The namespaces that it watches.
    pub(crate) scope: WatchedNamespaces,
    /// The number of slots: of replicas, and of those that a roll-out adds.
    pub(crate) slots: u8,
    /// The number of shards.
    pub(crate) count: ShardCount,
    /// The field that decides the shard of an object.
    pub(crate) by: ShardField,
    /// The timings of sessions.
    pub(crate) terms: Terms,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// Its shards are handed over, until then.
    Leaving {
        until: Moment,
    },
    /// Its session is released.
    Releasing,
    Gone,
}

/// The slot that this replica holds or campaigns for.
#[derive(Debug)]
struct SlotClaim {
    slot: u8,
    state: LeaseState,
    /// When the last read of the slot was sent, if the slot did not exist.
    absent: Option<Moment>,
    /// Only a mutant extends the token.
    bonus: Duration,
}

/// A shard that is handed over as soon as no call of it runs.
#[derive(Debug, Clone, Copy)]
struct Drain {
    since: Moment,
    done: bool,
}

/// The difference between the map and what all sessions were started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resize {
    /// Each shard becomes several.
    Split(ShardCount),
    /// Objects change their shards, or the objects themselves are others: all shards are released first.
    Rebuild,
}

/// One replica.
#[derive(Debug)]
pub(crate) struct Member {
    options: Options,
    stage: Stage,
    /// The Lease of the map is returned to leader election: this is the last replica.
    returns: bool,
    /// The last replica tries this until then.
    returns_until: Option<Moment>,
    claim: Option<SlotClaim>,
    standby: Option<Standby>,
    slots: Slots,
    map: MapView,
    /// The sessions that may own shards, with this one.
    live: Vec<Session>,
    /// The planned owner of each shard.
    targets: Vec<Option<Session>>,
    resize: Option<Resize>,
    draining: BTreeMap<Shard, Drain>,
    /// Hand-overs that were given up are not tried before this.
    postponed: BTreeMap<Shard, Moment>,
    /// The shards of others, whose sessions may have ended, that are planned for this replica.
    wanted: BTreeSet<Shard>,
    warm: BTreeSet<Shard>,
    /// The number of shards that those above refer to.
    of: ShardCount,
    /// Since when another replica is awaited: its stores do not hold a shard that it is to be given.
    awaiting: Option<Moment>,
    /// The session that has announced the map that it works by, the uid of that map, and since
    /// when the announcement is known to be stored.
    announced: Option<(Session, Arc<str>, Moment)>,
    /// A call runs, also one whose term has ended.
    runs: bool,
    /// After the API server was restored from a backup, this replica does not work before this.
    guarded: Moment,
    /// The last time of the wall clock, or later: no two sessions of this replica are acquired at the same time.
    wall: i64,
    /// When the session was last written. What is due soon is read at the same time: a process that wakes up once for
    /// all of it needs less time than one that wakes up for each.
    written: Option<Moment>,
    /// The plan is computed again, because something has changed.
    changed: bool,
    /// The same, because it is this late.
    look_again: Moment,
    mutant: Option<Mutant>,
}

impl Member {
    /// A replica that starts now.
    pub(crate) fn new(options: Options, now: Duration) -> Self {
        Self::mutated(options, now, None)
    }

    /// The same with a broken protocol.
    pub(crate) fn mutated(options: Options, now: Moment, mutant: Option<Mutant>) -> Self {
        let random = fnv1a(options.identity.as_bytes());
        Self {
            stage: Stage::Running,
            returns: false,
            returns_until: None,
            claim: None,
            standby: None,
            slots: Slots::new(options.slots, options.terms, random, now, mutant),
            map: MapView::new(now, mutant),
            live: Vec::new(),
            targets: Vec::new(),
            resize: None,
            draining: BTreeMap::new(),
            postponed: BTreeMap::new(),
            wanted: BTreeSet::new(),
            warm: BTreeSet::new(),
            of: options.count,
            awaiting: None,
            announced: None,
            runs: false,
            guarded: now,
            wall: 0,
            written: None,
            changed: true,
            look_again: now,
            options,
            mutant,
        }
    }

    /// The session of this replica, while its token is valid.
    pub(crate) fn session(&self, now: Duration) -> Option<Session> {
        let claim = self.claim.as_ref()?;
        claim.state.until().filter(|until| now < *until + claim.bonus)?;
        self.own()
    }

    /// The session of this replica, also while it does not know whether it has ended.
    fn own(&self) -> Option<Session> {
        let claim = self.claim.as_ref()?;
        let (slot, identity) = (claim.slot, Arc::clone(&self.options.identity));
        claim.state.acquired().map(|acquired| Session { slot, acquired, identity })
    }

    fn is_own(&self, owner: Option<&Session>, own: Option<&Session>) -> bool {
        let alike = |(owner, own): (&Session, &Session)| owner.identity == own.identity;
        own.is_some()
            && (owner == own || (self.mutant == Some(Mutant::IdentityAlone) && owner.zip(own).is_some_and(alike)))
    }

    /// The term in which this replica works on a shard; `None` if it must not. Whatever a call
    /// sends is sent in the term in which it began, or not at all.
    pub(crate) fn holds(&self, shard: Shard, now: Duration) -> Option<u64> {
        let (own, map) = self.working(now)?;
        let ownership = map.get(shard).filter(|_| !self.map.is_given(shard))?;
        self.is_own(ownership.owner.as_ref(), Some(&own)).then_some(ownership.term)
    }

    /// The same for the shard of a bucket, with the shard.
    pub(crate) fn holds_bucket(&self, bucket: u8, now: Duration) -> Option<(Shard, u64)> {
        let shard = self.map()?.count().shard(bucket);
        self.holds(shard, now).map(|term| (shard, term))
    }

    /// The shards that this replica works on, and the terms.
    pub(crate) fn held(&self, now: Duration) -> impl Iterator<Item = (Shard, u64)> {
        self.owned(now).filter(|(shard, _)| !self.map.is_given(*shard))
    }

    /// The same, and those that it gives away, until the map says that it has: another write may come first, and then it
    /// works on them again.
    pub(crate) fn owned(&self, now: Duration) -> impl Iterator<Item = (Shard, u64)> {
        let shards = self.working(now).into_iter().flat_map(move |(own, map)| {
            let owned = move |owner: Option<&Session>| self.is_own(owner, Some(&own));
            map.iter().filter(move |(_, ownership)| owned(ownership.owner.as_ref()))
        });
        shards.map(|(shard, ownership)| (shard, ownership.term))
    }

    /// The session and the map by which this replica works now.
    fn working(&self, now: Moment) -> Option<(Session, &Arc<ShardMap>)> {
        let own = self.session(now).filter(|_| now >= self.guarded && !self.is_map_of_others())?;
        self.map.valid_until(self.options.terms.validity).filter(|until| now < *until)?;
        self.stored().filter(|announced| announced.map.as_deref() == self.map.uid().map(|uid| &**uid))?;
        // Whoever fills a later map reads the slots after this map was deleted, and sees the
        // announcement, because it was stored before this map was last seen.
        let (_, uid, since) = self.announced.as_ref().filter(|(session, ..)| *session == own)?;
        self.map.confirmed().filter(|confirmed| confirmed >= since && Some(uid) == self.map.uid())?;
        Some((own, self.map.map()?))
    }

    /// Returns `true` if no call begins of a shard, because it is handed over.
    pub(crate) fn is_draining(&self, shard: Shard) -> bool {
        self.draining.contains_key(&shard)
    }

    /// Until when this replica may work, unless its session and the map are confirmed again.
    pub(crate) fn works_until(&self, now: Duration) -> Option<Duration> {
        self.working(now)?;
        let session = self.claim.as_ref().and_then(|claim| claim.state.until())?;
        self.map.valid_until(self.options.terms.validity).map(|map| map.min(session))
    }

    /// The shards that the map gives to this replica, whether it may work on them now or not, and
    /// those that it will be given.
    pub(crate) fn selected(&self) -> impl Iterator<Item = Shard> {
        let own = self.own();
        let owned = move |owner: Option<&Session>| self.is_own(owner, own.as_ref());
        let map = self.map.map();
        let shards = map.into_iter().flat_map(|map| map.iter());
        let owned = shards.filter(move |(_, ownership)| owned(ownership.owner.as_ref())).map(|(shard, _)| shard);
        // Before the next plan, those of a larger map may still be wanted.
        let is_known = move |shard: &Shard| map.is_some_and(|map| map.get(*shard).is_some());
        owned.chain(self.wanted.iter().copied().filter(is_known))
    }

    /// The shards that no session owns, or one that has expired.
    pub(crate) fn unowned(&self, now: Duration) -> impl Iterator<Item = Shard> {
        let held: BTreeSet<Session> = self.slots.unexpired(now).map(|(session, _)| session).collect();
        let shards = self.map.map().into_iter().flat_map(|map| map.iter());
        let unowned = shards.filter(move |(_, shard)| shard.owner.as_ref().is_none_or(|owner| !held.contains(owner)));
        unowned.map(|(shard, _)| shard)
    }

    /// The map, if it is known.
    pub(crate) fn map(&self) -> Option<&Arc<ShardMap>> {
        self.map.map()
    }

    /// The requests of a person for the plan.
    pub(crate) fn overrides(&self) -> Arc<Overrides> {
        self.map.overrides()
    }

    /// The shards that no call begins of, and that are handed over when [`drained`](Self::drained)
    /// says that none runs.
    pub(crate) fn draining(&self) -> impl Iterator<Item = Shard> {
        self.draining.iter().filter(|(_, drain)| !drain.done).map(|(shard, _)| *shard)
    }

    /// The shards that no call begins of, whether calls run or not.
    pub(crate) fn handing_over(&self) -> impl Iterator<Item = Shard> {
        self.draining.keys().copied()
    }

    /// No call of a shard runs.
    pub(crate) fn drained(&mut self, shard: Shard) {
        if let Some(drain) = self.draining.get_mut(&shard) {
            drain.done = true;
            self.changed = true;
        }
    }

    /// The shards that will be handed over to this replica when its stores hold them.
    pub(crate) fn to_warm(&self) -> impl Iterator<Item = Shard> {
        self.wanted.difference(&self.warm).copied()
    }

    /// The stores hold a shard of another replica.
    pub(crate) fn warmed(&mut self, shard: Shard) {
        if self.wanted.contains(&shard) {
            self.warm.insert(shard);
        }
    }

    /// Computes the plan, and what follows from it for the own shards and for those to come.
    fn replan(&mut self, now: Moment) {
        if !self.changed && now < self.look_again {
            return;
        }
        self.changed = false;
        self.slots.prune(&self.map);
        let own = self.own();
        let announced: BTreeMap<Session, Announcement> = self
            .slots
            .live(&self.options.scope, now)
            .filter(|(session, _)| Some(session) != own.as_ref())
            .map(|(session, announced)| (session, announced.clone()))
            .collect();
        self.live = announced.keys().cloned().collect();
        if self.stage == Stage::Running {
            self.live.extend(self.session(now));
            self.live.sort();
        }
        self.resize = self.needed_resize(now);
        let Some(map) = self.map.map().cloned() else {
            self.draining.clear();
            self.wanted.clear();
            self.warm.clear();
            self.awaiting = None;
            self.advance_stop(now, own.as_ref());
            self.look_again = self.next_look(now);
            return;
        };
        if self.of != map.count() {
            self.of = map.count();
            self.warm.clear();
            self.draining.clear();
            self.postponed.clear();
        }
        self.targets = self.planned(&map);
        let is_late = self.is_late(now);
        self.wanted.clear();
        let mut awaits = self.returns_until.is_some();
        for (shard, ownership) in map.iter() {
            let owner = ownership.owner.as_ref();
            let target = self.targets.get(shard.index()).and_then(Option::as_ref);
            if !self.is_own(owner, own.as_ref()) {
                self.draining.remove(&shard);
                // Also between the end of a session and the write that follows it: shards that were not selected
                // for that moment would be listed twice.
                if owner.is_some() && own.is_some() && target == own.as_ref() {
                    self.wanted.insert(shard);
                }
                continue;
            }
            let is_warm = |target: &Session| {
                let announced = announced.get(target).filter(|announced| announced.of == map.count());
                announced.is_some_and(|announced| announced.warm.contains(&shard))
                    || self.mutant == Some(Mutant::ColdSuccessor)
            };
            let successor = target.filter(|target| Some(*target) != own.as_ref());
            let is_leaving = successor.is_some_and(is_warm);
            awaits |= successor.is_some() && !is_leaving;
            let gives = is_late || is_leaving || self.resize == Some(Resize::Rebuild);
            self.advance_drain(shard, gives, now);
        }
        self.awaiting = awaits.then(|| self.awaiting.unwrap_or(now));
        self.warm.retain(|shard| self.wanted.contains(shard));
        self.advance_stop(now, own.as_ref());
        self.look_again = self.next_look(now);
    }

    /// The planned owner of each shard of a map.
    fn planned(&self, map: &ShardMap) -> Vec<Option<Session>> {
        if self.resize == Some(Resize::Rebuild) || self.is_map_of_others() {
            return vec![None; map.count().get().into()];
        }
        if self.mutant == Some(Mutant::PlanWithoutMap) {
            let shards = 0..usize::from(map.count().get());
            return shards.map(|shard| self.live.get(shard % self.live.len().max(1)).cloned()).collect();
        }
        let targets = plan(map, &self.map.overrides(), &self.live);
        targets.into_iter().map(|target| self.live.get(target?).cloned()).collect()
    }

    /// The map has the field and the number of shards that it was created with, until all sessions
    /// were started with others, and its namespaces until no session is left that watches them.
    fn needed_resize(&self, now: Moment) -> Option<Resize> {
        let map = self.map.map()?;
        if self.is_map_of_others() {
            let takes_over = self.stage == Stage::Running && self.apart(true, now).is_none();
            return takes_over.then_some(Resize::Rebuild);
        }
        let wants = (self.options.by, self.options.count);
        let is_changed = wants != (map.by(), map.count());
        if !is_changed
            || self.stage != Stage::Running
            || self.slots.announcements(&self.options.scope).any(|other| (other.by, other.count) != wants)
        {
            return None;
        }
        let splits = wants.0 == map.by() && wants.1 > map.count();
        Some(if splits { Resize::Split(wants.1) } else { Resize::Rebuild })
    }

    fn advance_drain(&mut self, shard: Shard, gives: bool, now: Moment) {
        let is_voluntary = self.stage == Stage::Running && self.resize.is_none();
        match self.draining.get(&shard) {
            Some(_) if !gives => {
                self.draining.remove(&shard);
            }
            Some(drain) if is_voluntary && !drain.done && now >= drain.since + DRAIN => {
                self.draining.remove(&shard);
                self.postponed.insert(shard, now + self.options.terms.lease);
            }
            Some(_) => {}
            None if is_voluntary && self.postponed.get(&shard).is_some_and(|until| now < *until) => {}
            None if gives => {
                self.postponed.remove(&shard);
                self.draining.insert(shard, Drain { since: now, done: false });
            }
            None => {}
        }
    }

    /// When time alone changes the plan.
    fn next_look(&self, now: Moment) -> Moment {
        let drains = self.draining.values().map(|drain| drain.since + DRAIN);
        let token = self.claim.as_ref().and_then(|claim| claim.state.until());
        let stop = if let Stage::Leaving { until } = self.stage { Some(until) } else { None };
        let times = drains.chain(self.postponed.values().copied()).chain(token).chain(stop).chain(self.returns_until);
        let next = times.chain(self.slots.next_expiry(now)).filter(|at| *at > now).min();
        next.unwrap_or(now + self.options.terms.lease)
    }

    /// Campaigns for a slot.
    fn campaign_for(&mut self, slot: u8, now: Moment) {
        let Options { identity, mark, terms, .. } = &self.options;
        let me = Candidate { identity: Arc::clone(identity), mark: Arc::clone(mark), previous: Vec::new() };
        let mut state = LeaseState::new(me, *terms, now);
        state.campaign();
        self.claim = Some(SlotClaim { slot, state, absent: None, bonus: Duration::ZERO });
    }
}
