//! The term in which calls of a shard run. Buckets stay when a shard is split, so terms are theirs.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kooper_base::leader::shard::ShardTerm;
use kooper_runtime::Shard as OwnedShard;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shared;

/// Timers use a clock that stops while the machine is suspended. The right clock is read at least
/// this often.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The term in which calls of one bucket run.
pub(super) struct Term {
    pub(super) shared: Arc<Shared>,
    pub(super) bucket: u8,
    pub(super) number: u64,
    pub(super) leaving: CancellationToken,
}

impl ShardTerm for Term {
    fn shard(&self) -> OwnedShard {
        let member = self.shared.member.lock();
        let place = member.map().map(|map| (map.count().shard(self.bucket).0.into(), map.count().get()));
        let (index, count) = place.unwrap_or_default();
        OwnedShard::new(index, count, self.number)
    }

    fn is_held(&self) -> bool {
        self.until().is_some()
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        let term = Self { shared: Arc::clone(&self.shared), leaving: self.leaving.clone(), ..*self };
        let mut changes = self.shared.held.subscribe();
        async move {
            while let Some(left) = term.until() {
                drop(timeout(left.min(CHECK_INTERVAL), changes.changed()).await);
            }
        }
        .boxed()
    }

    fn leaving(&self) -> CancellationToken {
        self.leaving.clone()
    }

    fn work(self: Arc<Self>) -> Box<dyn Any + Send + Sync> {
        Box::new(Work::begin(&self.shared, self.bucket))
    }
}

impl Term {
    /// The time for which this replica may work in the term; `None` if it must not.
    fn until(&self) -> Option<Duration> {
        let now = self.shared.clock.now();
        let member = self.shared.member.lock();
        let shard = member.map()?.count().shard(self.bucket);
        member.holds(shard, now).filter(|term| *term == self.number)?;
        Some(member.works_until(now)?.saturating_sub(now))
    }
}

/// A call or task that runs. Its shard is not given away before it ends.
pub(super) struct Work {
    shared: Arc<Shared>,
    bucket: u8,
}

impl Work {
    pub(super) fn begin(shared: &Arc<Shared>, bucket: u8) -> Self {
        shared.running[usize::from(bucket)].fetch_add(1, Ordering::AcqRel);
        Self { shared: Arc::clone(shared), bucket }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let running = self.shared.running[usize::from(self.bucket)].fetch_sub(1, Ordering::SeqCst);
        // Otherwise each call would wake the driver, which would cost more than a short call.
        if running == 1 && self.shared.drains.load(Ordering::SeqCst) {
            self.shared.changed.notify_one();
        }
    }
}
