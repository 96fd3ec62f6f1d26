//! The shards of a controller as its Leases show them, and the changes that a person requests.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use kooper_base::leader::lease::{Lease, LeaseError};
use kooper_base::leader::lease_state::{Record, SHARDS_MARK};
use kube::Client;
use serde_json::{Value, json};

use crate::executor::leases::{MAP, OVERRIDES, announcement, is_map, mark};
use crate::hash::{BUCKETS, Shard, ShardField};
use crate::map::{Ownership, ShardMap};
use crate::overrides::Overrides;
use crate::plan::plan;
use crate::session::{Announcement, Session, SlotRecord};
use crate::settings::Shards;

/// Maximum time, in microseconds, by which the clock of this machine may be ahead of those of the replicas.
const SKEW: i64 = 60_000_000;

#[cfg(test)]
mod tests;

/// Why the shards cannot be shown.
#[derive(Debug, thiserror::Error)]
#[doc(hidden)]
pub enum OverviewError {
    /// A Lease cannot be read.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// No replica has created the map.
    #[error(
        "there is no Lease {0} with a map of shards: no replica of the program runs with this name, instance and namespace \
         of Leases, the last one has stopped, or the replicas cannot use Leases, which `/readyz` and their logs report"
    )]
    NoMap(String),
    /// Replicas have sessions, and none of them has created the map.
    #[error(
        "there is no Lease {0} with a map of shards, although these replicas run: {1}. If it is still missing after the \
         `retry_period`, they cannot create it: `/readyz` and their logs have the reason, and `check --as` verifies the \
         permissions of their service account"
    )]
    NotCreated(String, String),
    /// A leader of another version, or of a program without Kooper, holds the Lease of the map.
    #[error(
        "the Lease {0} is held by {1}, a leader without shards: the replicas with shards \
         wait until it is released or expires"
    )]
    Leader(String, String),
    /// The Lease has the mark of another controller.
    #[error("the Lease {0} belongs to `{1}`: set another `lease`, or `--instance NAME`")]
    Foreign(String, String),
    /// The Lease was edited by hand.
    #[error("the Lease {0} cannot be used: {1}")]
    Malformed(String, String),
}

impl OverviewError {
    /// Returns `true` if a permission is missing.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Lease(LeaseError::Forbidden { .. }))
    }
}

/// Why a change of the plan is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[doc(hidden)]
pub enum ChangeError {
    #[error("there is no shard {0}: the shards are 0 to {1}")]
    NoShard(u16, u16),
    #[error("there is no replica `{0}`: {1}")]
    NoReplica(String, String),
    #[error("`{0}` is the name of several replicas: write one of {1}")]
    Ambiguous(String, String),
    #[error("{0} is drained: undo this first, with `--undo-drain {0}`")]
    ToDrained(String),
    #[error("{0} is the only replica that is not drained: another one has to take its shards")]
    Last(String),
    #[error("shard {0} was not moved, so there is nothing to undo")]
    NotMoved(u16),
    #[error("`{0}` is not drained, so there is nothing to undo")]
    NotDrained(String),
    #[error(
        "the annotation {OVERRIDES} of the Lease {0} has entries without effect, which this change would remove: {1}. Correct or \
         remove them first, with `kubectl edit lease`"
    )]
    Rejected(String, String),
}

/// A change of the plan that a person requests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(hidden)]
pub enum Change {
    /// Gives a shard to a replica.
    Move(u16, String),
    /// Leaves the shard to the plan again.
    UndoMove(u16),
    /// Gives a replica no shard.
    Drain(String),
    /// Lets the plan give shards to a replica again.
    UndoDrain(String),
}

/// The state of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(hidden)]
pub enum ShardState {
    /// Its owner keeps it.
    Owned,
    /// Its owner is going to hand it over to this replica.
    Moving(String),
    /// Its owner has not renewed its session.
    Orphaned,
    /// It has no owner.
    Free,
}

/// A shard.
#[derive(Debug)]
#[doc(hidden)]
pub struct ShardRow {
    pub index: u16,
    /// The first and the last bucket.
    pub buckets: (u8, u8),
    pub owner: Option<String>,
    pub term: u64,
    pub state: ShardState,
    /// The replica that a person has moved it to.
    pub moved: Option<String>,
}

/// A replica.
#[derive(Debug)]
#[doc(hidden)]
pub struct MemberRow {
    pub replica: String,
    pub lease: String,
    pub shards: usize,
    /// The time between its last renewal and the newest one of all replicas, or now if that was long ago.
    pub renewed: Duration,
    pub has_expired: bool,
    pub is_leaving: bool,
    pub is_drained: bool,
    /// It was started with another number of shards, or field, than this program.
    pub other: Option<String>,
}

/// A replica with a session.
#[derive(Debug)]
struct Member {
    session: Session,
    announcement: Option<Announcement>,
    lease: String,
    renewed: Duration,
    has_expired: bool,
}

/// The shards of a controller.
#[derive(Debug)]
#[doc(hidden)]
pub struct ShardOverview {
    /// The namespace and the name of the Lease with the map.
    place: String,
    version: Arc<str>,
    map: ShardMap,
    overrides: Overrides,
    members: Vec<Member>,
    /// The sessions that may own shards.
    live: Vec<Session>,
    targets: Vec<Option<usize>>,
}

impl ShardOverview {
    /// Reads the Leases of a controller: that of the map, and those of sessions. `wall` is the time in
    /// microseconds.
    ///
    /// # Errors
    /// If a Lease cannot be read, or there is no map.
    pub async fn read(
        client: &Client,
        namespace: &str,
        names: &[String],
        controller: &str,
        wall: i64,
    ) -> Result<Self, OverviewError> {
        let mark = mark(controller);
        let lease = |name: &String| Lease::of(client.clone(), namespace, name, Arc::clone(&mark), &[]);
        let name = names.first().cloned().unwrap_or_default();
        let place = format!("{namespace}/{name}");
        let mut of_map = lease(&name);
        let record = of_map.read().await?;
        let slots = slots(names.iter().skip(1).map(|name| (name, lease(name)))).await?;
        let is_map = |record: &Record| is_map(&of_map, record, &mark);
        let is_own = |found: &&Arc<str>| **found == mark || mark.strip_suffix(SHARDS_MARK) == Some(&***found);
        let found = record.as_ref().and_then(|record| record.mark.as_ref());
        if let Some(foreign) = found.filter(|found| !is_own(found)) {
            return Err(OverviewError::Foreign(place, foreign.to_string()));
        }
        let Some(record) = record.filter(|record| is_map(record) || !record.is_released()) else {
            return Err(no_map(place, &members(slots, wall)));
        };
        if !is_map(&record) {
            return Err(OverviewError::Leader(place, record.holder.to_string()));
        }
        let text = of_map.annotation(MAP);
        let text =
            text.ok_or_else(|| OverviewError::Malformed(place.clone(), format!("it has no annotation {MAP}")))?;
        let map = ShardMap::parse(text).map_err(|error| OverviewError::Malformed(place.clone(), error.to_string()))?;
        let overrides = Overrides::parse(of_map.annotation(OVERRIDES));
        Ok(Self::new(place, record.version, map, overrides, slots, wall))
    }

    fn new(place: String, version: Arc<str>, map: ShardMap, overrides: Overrides, slots: Slots, wall: i64) -> Self {
        let members = members(slots, wall);
        let is_live = |member: &&Member| {
            !member.has_expired && member.announcement.as_ref().is_some_and(|announcement| !announcement.leaving)
        };
        let live: Vec<Session> = members.iter().filter(is_live).map(|member| member.session.clone()).collect();
        let targets = plan(&map, &overrides, &live);
        Self { place, version, map, overrides, members, live, targets }
    }

    /// The number of shards in the map.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.map.count().get()
    }

    /// The field that decides the shard of an object.
    #[must_use]
    pub fn field(&self) -> &'static str {
        field(self.map.by())
    }

    /// The number of members that a program needs to learn of the ends of all owners: it reads the Leases of so many.
    #[must_use]
    pub fn needed_members(&self) -> u16 {
        let owners = self.map.iter().filter_map(|(_, ownership)| ownership.owner.as_ref());
        owners.map(|owner| u16::from(owner.slot) + 1).max().unwrap_or_default()
    }

    /// Returns `true` if the map differs from the settings of a program.
    #[must_use]
    pub fn differs_from(&self, shards: &Shards) -> bool {
        self.map.by() != shards.field() || shards.count() != Ok(self.map.count())
    }

    /// The first entries of the overrides that have no effect, and what is expected instead.
    pub fn rejected(&self) -> impl Iterator<Item = String> {
        let place = &self.place;
        self.overrides.rejected.iter().map(move |entry| {
            format!("an entry of the annotation {OVERRIDES} of the Lease {place} has no effect: {entry}")
        })
    }

    /// The shards, in their order.
    pub fn shards(&self) -> impl Iterator<Item = ShardRow> {
        let names = self.names();
        let width = BUCKETS / self.count();
        self.map.iter().map(move |(shard, ownership)| {
            let index = u16::from(shard.0);
            let first = index * width;
            let moved = self.overrides.owner(self.map.count(), shard);
            ShardRow {
                index,
                buckets: (first as u8, (first + width - 1) as u8),
                owner: ownership.owner.as_ref().map(|owner| name(&names, &owner.identity)),
                term: ownership.term,
                state: self.state(shard, ownership, &names),
                moved: moved.filter(|identity| self.is_known(identity)).map(|identity| name(&names, identity)),
            }
        })
    }

    fn state(&self, shard: Shard, ownership: &Ownership, names: &BTreeSet<&str>) -> ShardState {
        let Some(owner) = &ownership.owner else { return ShardState::Free };
        if !self.members.iter().any(|member| member.session == *owner && !member.has_expired) {
            return ShardState::Orphaned;
        }
        match self.targets.get(shard.index()).and_then(|target| self.live.get((*target)?)) {
            Some(target) if target != owner => ShardState::Moving(name(names, &target.identity)),
            _ => ShardState::Owned,
        }
    }

    /// The replicas, in the order of their Leases.
    pub fn members(&self, shards: &Shards) -> impl Iterator<Item = MemberRow> {
        let names = self.names();
        let wants = (shards.field(), shards.count());
        self.members.iter().map(move |member| {
            let announcement = member.announcement.as_ref();
            let other = announcement.filter(|announced| (announced.by, Ok(announced.count)) != wants);
            let is_owner = |ownership: &Ownership| ownership.owner.as_ref() == Some(&member.session);
            MemberRow {
                replica: name(&names, &member.session.identity),
                lease: member.lease.clone(),
                shards: self.map.iter().filter(|(_, ownership)| is_owner(ownership)).count(),
                renewed: member.renewed,
                has_expired: member.has_expired,
                is_leaving: announcement.is_some_and(|announcement| announcement.leaving),
                is_drained: self.overrides.drained.contains(&*member.session.identity),
                other: other.map(|other| format!("{} shards by {}", other.count.get(), field(other.by))),
            }
        })
    }

    fn is_known(&self, identity: &str) -> bool {
        self.members.iter().any(|member| *member.session.identity == *identity)
    }

    /// The identities of all replicas and owners.
    fn names(&self) -> BTreeSet<&str> {
        let owners = self.map.iter().filter_map(|(_, ownership)| ownership.owner.as_ref());
        let members = self.members.iter().map(|member| &member.session);
        owners.chain(members).map(|session| &*session.identity).collect()
    }

    /// A merge patch for the Lease of the map that requests changes, unless the Lease was changed in the
    /// meantime. Overrides of replicas that have ended are removed.
    ///
    /// # Errors
    /// The first change that cannot be made, or that there are entries that cannot be read: they would be lost.
    pub fn patch(&self, changes: &[Change]) -> Result<Value, ChangeError> {
        let mut overrides = self.overrides.clone();
        let rejected = mem::take(&mut overrides.rejected);
        overrides.moved.retain(|_, identity| self.is_known(identity));
        overrides.drained.retain(|identity| self.is_known(identity));
        if overrides.of != Some(self.map.count()) {
            overrides.moved.clear();
        }
        for change in changes {
            self.apply(change, &mut overrides)?;
        }
        if !changes.is_empty() && !rejected.is_empty() {
            return Err(ChangeError::Rejected(self.place.clone(), rejected.join("; ")));
        }
        overrides.of = (!overrides.moved.is_empty()).then(|| self.map.count());
        let text = (overrides != Overrides::default()).then(|| serde_json::to_string(&overrides).unwrap_or_default());
        Ok(json!({"metadata": {"resourceVersion": &*self.version, "annotations": {OVERRIDES: text}}}))
    }

    fn apply(&self, change: &Change, overrides: &mut Overrides) -> Result<(), ChangeError> {
        match change {
            Change::Move(shard, replica) => {
                let (shard, to) = (self.shard(*shard)?, self.replica(replica, &self.live)?);
                if overrides.drained.contains(&to) {
                    return Err(ChangeError::ToDrained(replica.clone()));
                }
                overrides.moved.insert(shard, to);
            }
            Change::UndoMove(index) => {
                let shard = self.shard(*index)?;
                overrides.moved.remove(&shard).ok_or(ChangeError::NotMoved(*index))?;
            }
            Change::Drain(replica) => {
                let drained = self.replica(replica, &self.live)?;
                let is_left = |session: &Session| {
                    *session.identity != *drained && !overrides.drained.contains(&*session.identity)
                };
                if !self.live.iter().any(is_left) {
                    return Err(ChangeError::Last(replica.clone()));
                }
                overrides.drained.insert(drained);
            }
            Change::UndoDrain(replica) => {
                let all: Vec<_> = self.members.iter().map(|member| member.session.clone()).collect();
                let drained = self.replica(replica, &all)?;
                if !overrides.drained.remove(&drained) {
                    return Err(ChangeError::NotDrained(replica.clone()));
                }
            }
        }
        Ok(())
    }

    fn shard(&self, index: u16) -> Result<Shard, ChangeError> {
        let count = self.count();
        let shard = self.map.count().shards().find(|shard| u16::from(shard.0) == index);
        shard.ok_or(ChangeError::NoShard(index, count - 1))
    }

    /// The identity of one of these replicas, by that or by its short name.
    fn replica(&self, written: &str, of: &[Session]) -> Result<String, ChangeError> {
        let all = || of.iter().map(|session| &*session.identity);
        let found: BTreeSet<&str> =
            all().filter(|identity| *identity == written || short(identity) == written).collect();
        let list = |identities: Vec<String>| identities.join(", ");
        let names = self.names();
        match found.iter().collect::<Vec<_>>()[..] {
            [identity] => Ok((*identity).to_owned()),
            [] => {
                let known = list(all().map(|identity| name(&names, identity)).collect());
                let known =
                    if known.is_empty() { "none runs".to_owned() } else { format!("those that run are {known}") };
                Err(ChangeError::NoReplica(written.to_owned(), known))
            }
            _ => Err(ChangeError::Ambiguous(written.to_owned(), list(found.into_iter().map(str::to_owned).collect()))),
        }
    }
}

/// The Leases of sessions, with their names.
type Slots = Vec<(String, Option<SlotRecord>)>;

/// Reads the Leases of sessions.
async fn slots<'a>(leases: impl Iterator<Item = (&'a String, Lease)>) -> Result<Slots, LeaseError> {
    let mut slots = Vec::new();
    for (name, mut lease) in leases {
        let record = lease.read().await?;
        slots.push((name.clone(), record.map(|record| SlotRecord { record, announcement: announcement(&lease) })));
    }
    Ok(slots)
}

/// The replicas that have sessions, or had them and did not release them.
fn members(slots: Slots, wall: i64) -> Vec<Member> {
    // The clock of this machine is not that of the replicas.
    let newest = slots.iter().filter_map(|(_, found)| found.as_ref()?.record.renewed).max();
    let now = newest.filter(|newest| wall.saturating_sub(*newest) < SKEW).unwrap_or(wall);
    let since = |record: &Record| {
        let micros = now.saturating_sub(record.renewed.unwrap_or_default());
        Duration::from_micros(micros.try_into().unwrap_or_default())
    };
    let members = (0..).zip(slots).filter_map(|(slot, (lease, found))| {
        let found = found?;
        let (session, renewed) = (found.session(slot)?, since(&found.record));
        let has_expired = renewed > found.record.lease.unwrap_or_default();
        Some(Member { session, announcement: found.announcement, lease, renewed, has_expired })
    });
    members.collect()
}

/// The error if there is no map. Replicas that run create one, unless they are prevented.
fn no_map(place: String, members: &[Member]) -> OverviewError {
    let running: Vec<&str> =
        members.iter().filter(|member| !member.has_expired).map(|member| short(&member.session.identity)).collect();
    if running.is_empty() { OverviewError::NoMap(place) } else { OverviewError::NotCreated(place, running.join(", ")) }
}

fn field(by: ShardField) -> &'static str {
    match by {
        ShardField::Uid => "uid",
        ShardField::Namespace => "namespace",
    }
}

/// The name of the host in an identity: in a cluster, that of the pod.
fn short(identity: &str) -> &str {
    identity.rsplit_once('_').map_or(identity, |(host, _)| host)
}

/// The short name of a replica if no other one has it.
fn name(all: &BTreeSet<&str>, identity: &str) -> String {
    let alike = all.iter().filter(|other| short(other) == short(identity)).count();
    if alike > 1 { identity.to_owned() } else { short(identity).to_owned() }
}
