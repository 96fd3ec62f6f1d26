//! The executor of the protocol: it keeps the session and the map on the API server, and limits a
//! controller to the shards that this replica owns.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kooper_base::clock::Clock;
use kooper_base::leader::Leadership;
use kooper_base::leader::shard::ShardTerm;
use kooper_base::metrics::MetricsRecorder;
use kooper_runtime::internal::controller::partition::Partition;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::queue::{Admission, Grant};
use kooper_runtime::internal::watch::selection::{CacheSelection, SelectorState};
use kooper_runtime::object::Object;
use kooper_runtime::{Health, Shard as OwnedShard};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

mod driver;
pub(crate) mod leases;
mod selection;
mod status;
mod term;
mod watches;

use driver::Driver;
use selection::{Part, ShardSelection, bucket};
use term::{Term, Work};

use crate::hash::{By, Shard, ShardCount, ShardCountError};
use crate::map::ShardMap;
use crate::member::{Member, Options};
use crate::settings::Shards;

/// What the executor of a controller is made of.
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

/// What calls, caches and the driver share.
struct Shared {
    clock: Arc<dyn Clock>,
    leadership: Leadership,
    member: Mutex<Member>,
    /// The terms in which calls run, by the bucket of their object.
    terms: Mutex<BTreeMap<u8, Arc<Term>>>,
    /// The calls and tasks that run, by bucket.
    running: Vec<AtomicUsize>,
    /// The driver waits for the end of calls, such as of a shard that is handed over. It is set before the driver looks at
    /// those that run, and read after one has ended, so that the last one wakes the driver.
    drains: AtomicBool,
    selected: Mutex<Selected>,
    /// How often buckets have joined the selection.
    joined: watch::Sender<u64>,
    /// The shards that this replica works on. A value is sent whenever grants may have changed.
    held: watch::Sender<BTreeSet<OwnedShard>>,
    /// What each cache of the controller has listed.
    caches: Mutex<Vec<Arc<AtomicU64>>>,
    /// The effect of the shard selector in each cache of the controller's own objects.
    selectors: Arc<Mutex<Vec<LastState>>>,
    /// Something happened that the driver should look at.
    changed: Notify,
}

/// The objects that caches keep.
struct Selected {
    /// The field that decides the bucket of an object.
    by: By,
    /// Their buckets, each with what [`joined`](Shared::joined) was when it was selected.
    buckets: BTreeMap<u8, u64>,
    /// How often buckets have left.
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
            slots: options.shards.most_members(),
            count: options.shards.count()?,
            by: options.shards.field(),
            terms: options.shards.terms(),
        };
        let shared = Shared::new(member);
        Ok(Self { shared: Arc::new(shared), options: Arc::new(options) })
    }
}

impl Partition for Sharding {
    fn admission(&self) -> Arc<dyn Admission> {
        Arc::new(ShardAdmission(Arc::clone(&self.shared)))
    }

    fn selection(&self) -> Arc<dyn CacheSelection> {
        Arc::new(ShardSelection::new(self, Part::Own))
    }

    fn children(&self, owner: &KindInfo, applied: bool) -> Option<Arc<dyn CacheSelection>> {
        Some(Arc::new(ShardSelection::new(self, Part::Children { owner: owner.clone(), applied })))
    }

    fn leadership(&self) -> (Leadership, Duration) {
        (self.shared.leadership.clone(), self.options.shards.margin())
    }

    fn hold(&self, leave: CancellationToken) -> BoxFuture<'static, ()> {
        let driver = Driver::new(Arc::clone(&self.shared), &self.options);
        driver.run(leave).boxed()
    }
}

struct ShardAdmission(Arc<Shared>);

impl Admission for ShardAdmission {
    fn grants(&self, object: &Object) -> Grant {
        let shared = &self.0;
        let now = shared.clock.now();
        // Held until the call counts as running, so that its shard is not given away before.
        let member = shared.member.lock();
        let Some(map) = member.map() else { return Grant::Later };
        let bucket = bucket(map.by(), object);
        let shard = map.count().shard(bucket);
        match member.holds(shard, now) {
            Some(term) if !member.is_draining(shard) => {
                let work: Box<dyn Any + Send + Sync> = Box::new(Work::begin(shared, bucket));
                let shard = OwnedShard::new(shard.0.into(), map.count().get(), term);
                Grant::Shard(shared.term(bucket, shard), work)
            }
            Some(_) => Grant::Later,
            None if member.selected().any(|selected| selected == shard) => Grant::Later,
            None => Grant::Never,
        }
    }

    fn shards(&self) -> Option<watch::Receiver<BTreeSet<OwnedShard>>> {
        Some(self.0.held.subscribe())
    }

    fn is_in(&self, object: &Object, shards: &BTreeSet<OwnedShard>) -> bool {
        // They are all of one map.
        let Some(count) = shards.first().and_then(|shard| ShardCount::try_from(shard.count).ok()) else { return false };
        let by = self.0.selected.lock().by;
        let index = count.shard(bucket(by, object)).0.into();
        shards.range(OwnedShard::new(index, 0, 0)..).next().is_some_and(|shard| shard.index == index)
    }
}

impl Shared {
    fn new(member: Options) -> Self {
        let leadership = Leadership::none();
        let (clock, by) = (leadership.clock(), member.by);
        Self {
            member: Mutex::new(Member::new(member, clock.now())),
            clock,
            leadership,
            terms: Mutex::default(),
            running: (0..256).map(|_| AtomicUsize::new(0)).collect(),
            drains: AtomicBool::new(false),
            selected: Mutex::new(Selected { by, buckets: BTreeMap::new(), left: 0 }),
            joined: watch::Sender::new(0),
            held: watch::Sender::default(),
            caches: Mutex::default(),
            selectors: Arc::default(),
            changed: Notify::new(),
        }
    }

    /// The term in which calls of a bucket run.
    fn term(self: &Arc<Self>, bucket: u8, shard: OwnedShard) -> Arc<dyn ShardTerm> {
        let mut terms = self.terms.lock();
        let (leaving, ended) = match terms.get(&bucket) {
            Some(known) if known.shard == shard && !known.leaving.is_cancelled() => return Arc::clone(known) as _,
            // Calls may run that began before a split, or before a hand-over was given up.
            Some(known) if known.shard.term == shard.term => {
                let leaving = Some(&known.leaving).filter(|leaving| !leaving.is_cancelled());
                (leaving.cloned().unwrap_or_default(), known.ended.clone())
            }
            known => {
                known.inspect(|known| known.ended.cancel());
                Default::default()
            }
        };
        let new = Arc::new(Term { shared: Arc::clone(self), bucket, shard, leaving, ended });
        terms.insert(bucket, Arc::clone(&new));
        new
    }

    /// Ends the terms in which this replica does not work any more.
    fn end_terms(&self, is_held: impl Fn(&Term) -> bool) {
        self.terms.lock().retain(|_, term| {
            let is_held = is_held(term);
            if !is_held {
                term.ended.cancel();
            }
            is_held
        });
    }

    /// The number up to which every cache has listed what joined.
    fn listed(&self) -> u64 {
        self.caches.lock().iter().map(|listed| listed.load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
    }

    /// Returns `true` if any call or task runs.
    fn runs_any(&self) -> bool {
        self.running.iter().any(|running| running.load(Ordering::SeqCst) > 0)
    }

    /// Returns `true` if a call or task of a shard runs.
    fn runs(&self, map: &ShardMap, shard: Shard) -> bool {
        map.count().buckets(shard).any(|bucket| self.running[usize::from(bucket)].load(Ordering::SeqCst) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Arc<Shared> {
        let (count, terms) = (ShardCount::try_from(16).unwrap(), Shards::new(16).terms());
        let (identity, mark) = ("me".into(), "shop".into());
        Arc::new(Shared::new(Options { identity, mark, slots: 2, count, by: By::Uid, terms }))
    }

    #[test]
    fn calls_of_a_term_have_one_end_and_those_after_a_cancelled_hand_over_are_not_asked_to_end() {
        let shared = shared();
        let term = |index, count, term| shared.term(8, OwnedShard::new(index, count, term));
        let first = term(0, 16, 3);
        first.leaving().cancel();
        let kept = term(0, 16, 3);
        assert!(!kept.leaving().is_cancelled() && first.leaving().is_cancelled());
        // After a split the bucket is in another shard, in the same term.
        let split = term(1, 32, 3);
        kept.leaving().cancel();
        assert!(split.leaving().is_cancelled());
        assert!(![&first, &kept, &split].iter().any(|term| term.ended().is_cancelled()));
        // It was given away and has come back: whatever began before has ended.
        let next = term(1, 32, 5);
        assert!([&first, &kept, &split].iter().all(|term| term.ended().is_cancelled()));
        assert!(!next.ended().is_cancelled() && !next.leaving().is_cancelled());
        shared.end_terms(|_| false);
        assert!(next.ended().is_cancelled());
    }
}
