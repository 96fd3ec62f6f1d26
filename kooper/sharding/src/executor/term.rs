//! The term in which calls of a shard run. Buckets stay when a shard is split, so terms are theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kooper_base::leader::shard::ShardTerm;
use kooper_runtime::Shard as OwnedShard;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::hash::{BUCKETS, ShardField};

/// The terms in which calls run, by bucket. While leadership is held, calls may begin in those that are here: before the
/// driver looks at the calls that run, it removes the terms that are not held any more, and closes those that are handed over.
pub(super) struct Terms {
    /// The field that decides the bucket of an object.
    pub(super) by: ShardField,
    of: Vec<Option<Arc<Term>>>,
}

impl Terms {
    pub(super) fn new(by: ShardField) -> Self {
        Self { by, of: vec![None; BUCKETS.into()] }
    }

    /// The term of a bucket in which calls may begin, if there is one already.
    pub(super) fn get(&self, bucket: u8) -> Option<&Arc<Term>> {
        self.of[usize::from(bucket)].as_ref().filter(|term| !term.leaving.is_cancelled())
    }

    /// The term in which calls of a bucket begin.
    pub(super) fn open(&mut self, shared: &Arc<Shared>, bucket: u8, shard: OwnedShard) -> Arc<Term> {
        let term = &mut self.of[usize::from(bucket)];
        let (leaving, ended) = match term {
            Some(known) if known.shard == shard && !known.leaving.is_cancelled() => return Arc::clone(known),
            // Calls may run that began before a split, or before a hand-over was given up.
            Some(known) if known.shard.term == shard.term => {
                let leaving = Some(&known.leaving).filter(|leaving| !leaving.is_cancelled());
                (leaving.cloned().unwrap_or_default(), known.ended.clone())
            }
            Some(known) => {
                known.ended.cancel();
                Default::default()
            }
            None => Default::default(),
        };
        Arc::clone(term.insert(Arc::new(Term { shared: Arc::clone(shared), bucket, shard, leaving, ended })))
    }

    /// The term in which the last calls of a bucket begin, because it is going to be given away.
    pub(super) fn leaving(&mut self, shared: &Arc<Shared>, bucket: u8, shard: OwnedShard) -> Arc<Term> {
        let known = self.of[usize::from(bucket)].as_ref().filter(|known| known.shard == shard);
        let term = known.cloned().unwrap_or_else(|| self.open(shared, bucket, shard));
        term.leaving.cancel();
        term
    }

    /// Asks the tasks of some buckets to end. No call begins in these terms any more.
    pub(super) fn leave(&self, buckets: impl Iterator<Item = u8>) {
        buckets.filter_map(|bucket| self.get(bucket)).for_each(|term| term.leaving.cancel());
    }

    /// Ends the terms in which this replica does not work any more, by the shards of buckets that it works on. Those of a shard
    /// that was split continue as those of its parts.
    pub(super) fn keep(&mut self, owned: impl Fn(u8) -> Option<OwnedShard>) {
        for term in &mut self.of {
            let Some(known) = term else { continue };
            match owned(known.bucket) {
                Some(shard) if shard == known.shard => {}
                // It was split.
                Some(shard) if shard.term == known.shard.term => {
                    *known = Arc::new(Term { shard, ..Term::clone(known) });
                }
                _ => {
                    known.ended.cancel();
                    *term = None;
                }
            }
        }
    }
}

/// The term in which calls of one bucket run.
#[derive(Clone)]
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

    /// Each request asks this, so it does not wait for the member: the driver ends the term, or leadership, in the same step
    /// in which the member does not work on the shard any more.
    fn is_held(&self) -> bool {
        !self.ended.is_cancelled() && self.shared.leadership.is_held()
    }

    fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    fn leaving(&self) -> &CancellationToken {
        &self.leaving
    }

    fn begin(&self) {
        begin(&self.shared.running, self.bucket);
    }

    fn end(&self) {
        end(&self.shared, &self.shared.running, self.bucket);
    }
}

/// A call of `deleted` that has not begun. Its shard is not given away before this is dropped.
pub(super) struct PendingDeletion {
    shared: Arc<Shared>,
    bucket: u8,
}

impl PendingDeletion {
    pub(super) fn new(shared: &Arc<Shared>, bucket: u8) -> Self {
        begin(&shared.deleted, bucket);
        Self { shared: Arc::clone(shared), bucket }
    }
}

impl Drop for PendingDeletion {
    fn drop(&mut self) {
        end(&self.shared, &self.shared.deleted, self.bucket);
    }
}

fn begin(counters: &[AtomicUsize], bucket: u8) {
    counters[usize::from(bucket)].fetch_add(1, Ordering::AcqRel);
}

fn end(shared: &Shared, counters: &[AtomicUsize], bucket: u8) {
    let running = counters[usize::from(bucket)].fetch_sub(1, Ordering::SeqCst);
    // Otherwise each call would wake the driver, which would cost more than a short call.
    if running == 1 && shared.drains.load(Ordering::SeqCst) {
        shared.changed.notify_one();
    }
}
