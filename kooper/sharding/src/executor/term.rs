//! The term in which calls of a shard run. Buckets stay when a shard is split, so terms are theirs.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kooper_base::leader::shard::ShardTerm;
use kooper_runtime::Shard as OwnedShard;
use tokio_util::sync::CancellationToken;

use super::Shared;

/// The term in which calls of one bucket run.
pub(super) struct Term {
    pub(super) shared: Arc<Shared>,
    pub(super) bucket: u8,
    pub(super) shard: OwnedShard,
    pub(super) leaving: CancellationToken,
    pub(super) ended: CancellationToken,
}

impl ShardTerm for Term {
    fn shard(&self) -> OwnedShard {
        self.shard
    }

    fn is_held(&self) -> bool {
        let now = self.shared.clock.now();
        !self.ended.is_cancelled() && self.shared.member.lock().holds_bucket(self.bucket, now) == Some(self.shard.term)
    }

    fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    fn leaving(&self) -> CancellationToken {
        self.leaving.clone()
    }

    fn work(self: Arc<Self>) -> Box<dyn Any + Send + Sync> {
        Box::new(Work::begin(&self.shared, self.bucket))
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
