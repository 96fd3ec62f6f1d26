//! The executor of the protocol: it keeps the session and the map on the API server, and limits a
//! controller to the shards that this replica owns.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kooper_base::clock::Clock;
use kooper_base::leader::Leadership;
use kooper_base::leader::scope::WatchedNamespaces;
use kooper_base::leader::shard::Work;
use kooper_base::metrics::MetricsRecorder;
use kooper_runtime::internal::controller::partition::Partition;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::queue::{Admission, AwaitedDeletion, Grant};
use kooper_runtime::internal::watch::selection::{CacheSelection, SelectorState};
use kooper_runtime::object::Object;
use kooper_runtime::{Health, Shard as OwnedShard};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

mod driver;
pub(crate) mod leases;
mod requests;
mod selection;
mod selector;
mod status;
mod term;
mod watches;

use driver::Driver;
use selection::{SelectedObjects, ShardSelection, bucket};
use term::{PendingDeletion, Terms};

use crate::hash::{BUCKETS, Shard, ShardCount, ShardCountError, ShardField};
use crate::map::ShardMap;
use crate::member::{Member, Options};
use crate::settings::Shards;

/// The settings of a controller's executor.
#[expect(missing_debug_implementations, reason = "it has a client")]
pub struct ShardingOptions {
    /// The controller.
    pub controller: Arc<str>,
    /// Its settings.
    pub shards: Shards,
    /// The mark of the controller in Leases.
    pub mark: String,
    /// The names of the Leases, see [`Shards::leases`].
    pub leases: Vec<String>,
    /// Their namespace.
    pub namespace: String,
    /// The namespaces that the controller watches; empty for all.
    pub watched: Vec<String>,
    /// The identity of this process.
    pub identity: String,
    /// A client that does not retry.
    pub client: Client,
    /// The metrics.
    pub metrics: Arc<dyn MetricsRecorder>,
    /// The probes.
    pub health: Health,
}

/// The shards of one controller in this process.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it has a client")]
pub struct Sharding {
    shared: Arc<Shared>,
    options: Arc<ShardingOptions>,
}

/// The effect of the shard selector of the last request, if it is known.
type LastState = Arc<Mutex<Option<SelectorState>>>;

/// The state that calls, caches and the driver share.
struct Shared {
    clock: Arc<dyn Clock>,
    leadership: Leadership,
    member: Mutex<Member>,
    /// It is locked after the member, if both are.
    terms: Mutex<Terms>,
    /// The calls and tasks that run, by bucket.
    running: Vec<AtomicUsize>,
    /// The removed objects for which `deleted` was not called yet, by bucket.
    deleted: Vec<AtomicUsize>,
    /// The driver waits for the end of calls, such as of a shard that is handed over. It is set before the driver looks at
    /// those that run, and read after one has ended, so that the last one wakes the driver.
    drains: AtomicBool,
    /// Functions can be called: `init` has succeeded.
    works: AtomicBool,
    selected: Mutex<Selected>,
    /// The number of times that buckets have joined the selection.
    joined: watch::Sender<u64>,
    /// The shards that this replica works on. A value is sent whenever grants may have changed.
    held: watch::Sender<BTreeSet<OwnedShard>>,
    /// The lists of each cache of the controller.
    caches: Mutex<Vec<Arc<ListedCache>>>,
    /// The effect of the shard selector in each cache of the controller's own objects.
    selectors: Arc<Mutex<Vec<LastState>>>,
    /// Something happened that the driver should look at.
    changed: Notify,
}

/// The progress of one cache: the values of [`joined`](Shared::joined) when it selected objects that it has now.
#[derive(Default)]
struct ListedCache {
    /// It has all of them.
    all: AtomicU64,
    /// It has them, or its first list is not waited for any more.
    tried: AtomicU64,
}

/// The objects that caches keep.
struct Selected {
    /// The field that decides the bucket of an object.
    by: ShardField,
    /// Their shards, of so many.
    shards: (ShardCount, Vec<Shard>),
    /// The value of [`joined`](Shared::joined) when each bucket was selected; 0 for those that are not.
    buckets: [u64; BUCKETS as usize],
    /// The number of times that buckets have left.
    left: u64,
}

impl Sharding {
    /// The shards of a controller. Nothing happens before it runs.
    ///
    /// # Errors
    /// If the number of shards is not a valid one.
    pub fn new(options: ShardingOptions) -> Result<Self, ShardCountError> {
        let member = Options {
            identity: options.identity.as_str().into(),
            mark: leases::mark(&options.mark),
            scope: WatchedNamespaces::of(&options.watched),
            slots: options.shards.most_members(),
            count: options.shards.count()?,
            by: options.shards.field(),
            terms: options.shards.terms(),
        };
        let shared = Shared::new(member);
        Ok(Self { shared: Arc::new(shared), options: Arc::new(options) })
    }

    /// One of these shards for a task. Whatever field decides those of objects, the hash of its name is that of a namespace:
    /// both are alike up to their last characters.
    #[must_use]
    pub fn shard_of_task(&self, name: &str) -> Arc<dyn Partition> {
        Arc::new(TaskShard { sharding: self.clone(), bucket: ShardField::Namespace.bucket(name) })
    }
}

impl Partition for Sharding {
    fn admission(&self) -> Arc<dyn Admission> {
        Arc::new(ShardAdmission { shared: Arc::clone(&self.shared), task: None })
    }

    fn selection(&self) -> Option<Arc<dyn CacheSelection>> {
        Some(Arc::new(ShardSelection::new(self, SelectedObjects::Own)))
    }

    fn children(&self, owner: &KindInfo, applied: bool) -> Option<Arc<dyn CacheSelection>> {
        Some(Arc::new(ShardSelection::new(self, SelectedObjects::Children { owner: owner.clone(), applied })))
    }

    fn leadership(&self) -> (Leadership, Duration) {
        (self.shared.leadership.clone(), self.options.shards.margin())
    }

    fn is_in_use(&self) -> bool {
        self.shared.runs_any()
    }

    fn works(&self) {
        self.shared.works.store(true, Ordering::SeqCst);
        self.shared.changed.notify_one();
    }

    fn hold(&self, leave: CancellationToken) -> BoxFuture<'static, ()> {
        let driver = Driver::new(Arc::clone(&self.shared), &self.options);
        driver.run(leave).boxed()
    }
}

/// The shard in which a task runs. The controller of the shards keeps the session and the map.
struct TaskShard {
    sharding: Sharding,
    bucket: u8,
}

impl Partition for TaskShard {
    fn admission(&self) -> Arc<dyn Admission> {
        Arc::new(ShardAdmission { shared: Arc::clone(&self.sharding.shared), task: Some(self.bucket) })
    }

    fn selection(&self) -> Option<Arc<dyn CacheSelection>> {
        None
    }

    fn leadership(&self) -> (Leadership, Duration) {
        self.sharding.leadership()
    }
}

struct ShardAdmission {
    shared: Arc<Shared>,
    /// The bucket of a task, which has no objects.
    task: Option<u8>,
}

impl Admission for ShardAdmission {
    fn grants(&self, object: &Object) -> Grant {
        let shared = &self.shared;
        // The terms are locked until the call counts as running, so that its shard is not given away before.
        {
            let terms = shared.terms.lock();
            let bucket = self.bucket(terms.by, object);
            if let Some(term) = terms.get(bucket).filter(|_| shared.leadership.is_held()) {
                return Grant::Shard(Work::begin(Arc::clone(term) as _));
            }
        }
        let member = shared.member.lock();
        let now = shared.clock.now();
        let Some(map) = member.map() else { return Grant::Later };
        let bucket = self.bucket(map.by(), object);
        let shard = map.count().shard(bucket);
        match member.holds(shard, now) {
            Some(term) if !member.is_draining(shard) => {
                let mut terms = shared.terms.lock();
                if terms.by != map.by() {
                    // The driver has not seen this map, whose buckets are others. It publishes the shard after it has.
                    return Grant::Later;
                }
                let shard = OwnedShard::new(shard.0.into(), map.count().get(), term);
                Grant::Shard(Work::begin(terms.open(shared, bucket, shard)))
            }
            Some(_) => Grant::Later,
            None if member.selected().any(|selected| selected == shard) => Grant::Later,
            None => Grant::Never,
        }
    }

    fn grants_deleted(&self, object: &Object) -> Grant {
        match self.grants(object) {
            Grant::Later => self.grants_while_draining(object),
            grant => grant,
        }
    }

    fn await_deleted(&self, object: &Object) -> Option<AwaitedDeletion> {
        let by = self.shared.selected.lock().by;
        Some(Box::new(PendingDeletion::new(&self.shared, self.bucket(by, object))))
    }

    fn shards(&self) -> Option<watch::Receiver<BTreeSet<OwnedShard>>> {
        Some(self.shared.held.subscribe())
    }

    fn owned(&self) -> Option<BTreeSet<OwnedShard>> {
        let is_own = |shard: &OwnedShard, bucket| {
            ShardCount::try_from(shard.count).is_ok_and(|count| u16::from(count.shard(bucket).0) == shard.index)
        };
        let mut held = self.shared.held.borrow().clone();
        held.retain(|shard| self.task.is_none_or(|bucket| is_own(shard, bucket)));
        Some(held)
    }

    fn index(&self, object: &Object, count: u16) -> Option<u16> {
        let by = self.shared.selected.lock().by;
        ShardCount::try_from(count).ok().map(|count| count.shard(self.bucket(by, object)).0.into())
    }
}

impl ShardAdmission {
    fn bucket(&self, by: ShardField, object: &Object) -> u8 {
        self.task.unwrap_or_else(|| bucket(by, object))
    }

    /// Grants a call in a shard that is going to be given away, until the member learns that nothing runs in it.
    fn grants_while_draining(&self, object: &Object) -> Grant {
        let shared = &self.shared;
        let member = shared.member.lock();
        let Some(map) = member.map() else { return Grant::Later };
        let bucket = self.bucket(map.by(), object);
        let shard = map.count().shard(bucket);
        let mut terms = shared.terms.lock();
        let held = member.holds(shard, shared.clock.now()).filter(|_| terms.by == map.by());
        match held.filter(|_| member.draining().any(|draining| draining == shard)) {
            Some(term) => {
                let shard = OwnedShard::new(shard.0.into(), map.count().get(), term);
                Grant::Shard(Work::begin(terms.leaving(shared, bucket, shard)))
            }
            None => Grant::Later,
        }
    }
}

impl Shared {
    fn new(member: Options) -> Self {
        let leadership = Leadership::none();
        let (clock, by, count) = (leadership.clock(), member.by, member.count);
        Self {
            member: Mutex::new(Member::new(member, clock.now())),
            clock,
            leadership,
            terms: Mutex::new(Terms::new(by)),
            running: (0..BUCKETS).map(|_| AtomicUsize::new(0)).collect(),
            deleted: (0..BUCKETS).map(|_| AtomicUsize::new(0)).collect(),
            drains: AtomicBool::new(false),
            works: AtomicBool::new(false),
            selected: Mutex::new(Selected { by, shards: (count, Vec::new()), buckets: [0; BUCKETS as usize], left: 0 }),
            joined: watch::Sender::new(0),
            held: watch::Sender::default(),
            caches: Mutex::default(),
            selectors: Arc::default(),
            changed: Notify::new(),
        }
    }

    /// The number up to which every cache has what joined.
    fn listed(&self, of: impl Fn(&ListedCache) -> &AtomicU64) -> u64 {
        self.caches.lock().iter().map(|cache| of(cache).load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
    }

    /// Returns `true` if any call or task runs.
    fn runs_any(&self) -> bool {
        self.running.iter().any(|running| running.load(Ordering::SeqCst) > 0)
    }

    /// Returns `true` if a call or task of a shard runs.
    fn runs(&self, map: &ShardMap, shard: Shard) -> bool {
        is_counted(&self.running, map, shard)
    }

    /// Returns `true` if `deleted` is to be called for an object of a shard.
    fn awaits_deleted(&self, map: &ShardMap, shard: Shard) -> bool {
        is_counted(&self.deleted, map, shard)
    }
}

fn is_counted(by_bucket: &[AtomicUsize], map: &ShardMap, shard: Shard) -> bool {
    map.count().buckets(shard).any(|bucket| by_bucket[usize::from(bucket)].load(Ordering::SeqCst) > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use kooper_base::leader::shard::ShardTerm;

    use super::*;

    fn shared() -> Arc<Shared> {
        let (count, terms) = (ShardCount::try_from(16).unwrap(), Shards::new(16).terms());
        let (identity, mark, scope) = ("me".into(), "shop".into(), WatchedNamespaces::of(&[]));
        Arc::new(Shared::new(Options { identity, mark, scope, slots: 2, count, by: ShardField::Uid, terms }))
    }

    #[test]
    fn calls_of_a_term_have_one_end_and_those_after_a_cancelled_hand_over_are_not_asked_to_end() {
        let shared = shared();
        let mut terms = shared.terms.lock();
        let mut term = |index, count, term| terms.open(&shared, 8, OwnedShard::new(index, count, term));
        let first = term(0, 16, 3);
        first.leaving.cancel();
        let kept = term(0, 16, 3);
        assert!(!kept.leaving.is_cancelled() && first.leaving.is_cancelled());
        // After a split the bucket is in another shard, in the same term.
        let split = term(1, 32, 3);
        kept.leaving.cancel();
        assert!(split.leaving.is_cancelled());
        assert!(![&first, &kept, &split].iter().any(|term| term.ended.is_cancelled()));
        // It was given away and has come back: whatever began before has ended.
        let next = term(1, 32, 5);
        assert!([&first, &kept, &split].iter().all(|term| term.ended.is_cancelled()));
        assert!(!next.ended.is_cancelled() && !next.leaving.is_cancelled());
        terms.keep(|_| None);
        assert!(next.ended.is_cancelled());
    }

    #[test]
    fn a_shard_is_in_use_until_the_last_of_its_calls_and_tasks_has_ended() {
        let shared = shared();
        let term = shared.terms.lock().open(&shared, 8, OwnedShard::new(0, 16, 3));
        let call = Work::begin(term);
        let stuck = call.clone();
        drop(call);
        assert!(shared.runs_any());
        drop(stuck);
        assert!(!shared.runs_any());
    }

    #[test]
    fn a_request_of_a_call_waits_for_no_step_of_the_driver() {
        let shared = shared();
        let term = shared.terms.lock().open(&shared, 8, OwnedShard::new(0, 16, 3));
        assert!(!term.is_held(), "this replica has no session");
        shared.leadership.set(Some(Duration::MAX));
        let step = (shared.member.lock(), shared.terms.lock());
        let (sender, held) = mpsc::channel();
        let asking = Arc::clone(&term);
        thread::spawn(move || sender.send(asking.is_held()));
        assert_eq!(held.recv_timeout(Duration::from_secs(60)), Ok(true));
        drop(step);
        shared.terms.lock().keep(|_| None);
        assert!(!term.is_held());
    }

    #[test]
    fn no_call_begins_in_a_term_that_was_asked_to_end_or_ended_and_a_split_keeps_the_term() {
        let shared = shared();
        let mut terms = shared.terms.lock();
        let first = terms.open(&shared, 8, OwnedShard::new(0, 16, 3));
        assert!(terms.get(8).is_some() && terms.get(9).is_none());
        terms.keep(|bucket| Some(OwnedShard::new(u16::from(bucket) / 8, 32, 3)));
        let split = terms.get(8).cloned().unwrap();
        assert_eq!(split.shard, OwnedShard::new(1, 32, 3));
        terms.leave(8..16);
        assert!(terms.get(8).is_none() && split.leaving.is_cancelled() && first.leaving.is_cancelled());
        // The hand-over was given up.
        let again = terms.open(&shared, 8, OwnedShard::new(1, 32, 3));
        assert!(terms.get(8).is_some() && !first.ended.is_cancelled());
        terms.keep(|_| Some(OwnedShard::new(1, 32, 4)));
        assert!(terms.get(8).is_none() && [first, split, again].iter().all(|term| term.ended.is_cancelled()));
    }
}
