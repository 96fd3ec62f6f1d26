//! The admission of keys to a controller's queue.

use std::any::Any;
use std::collections::BTreeSet;

use tokio::sync::watch;

use crate::leader::shard::{Shard, Work};
use crate::object::Object;
use crate::object::key::ObjectKey;

/// Decides which keys are queued, and learns how their calls end. By default every key is admitted,
/// and repeated. It is asked after the controller itself, which admits no key while another replica
/// leads.
pub trait Admission: Send + Sync {
    /// Returns `true` if a key is queued because of an event. An admitted key is returned later,
    /// unless the controller ends first.
    fn admits(&self, _key: &ObjectKey) -> bool {
        true
    }

    /// Returns `true` if keys run again without another event: after a failure, by a requeue or a
    /// resync.
    fn repeats(&self) -> bool {
        true
    }

    /// A call of a key has ended, with this error if it failed for more than a conflict.
    fn ended(&self, _key: &ObjectKey, _result: Result<(), &str>) {}

    /// A worker has given a key back, whether it was called or not.
    fn returned(&self, _key: &ObjectKey) {}

    /// Decides whether a function is called for an object now.
    fn grants(&self, _object: &Object) -> Grant {
        Grant::Free
    }

    /// Decides whether `deleted` is called for an object now: also while its shard is about to be given away.
    fn grants_deleted(&self, object: &Object) -> Grant {
        self.grants(object)
    }

    /// `deleted` will be called for an object. Before the returned value is dropped, its shard is not given away: the next owner
    /// may not have known the object.
    fn await_deleted(&self, _object: &Object) -> Option<AwaitedDeletion> {
        None
    }

    /// Receives the shards that this replica works on, whenever objects that were refused may be
    /// granted. `None` if none ever is refused.
    fn shards(&self) -> Option<watch::Receiver<BTreeSet<Shard>>> {
        None
    }

    /// Those of the shards in which the controller works, for the status page.
    fn owned(&self) -> Option<BTreeSet<Shard>> {
        Some(self.shards()?.borrow().clone())
    }

    /// The index of the shard of an object among so many, whether a function is called for it or not. It must be implemented
    /// if [`shards`](Self::shards) is.
    fn index(&self, _object: &Object, _count: u16) -> Option<u16> {
        None
    }

    /// Returns `true` if no write of a call takes effect.
    fn is_dry_run(&self) -> bool {
        false
    }
}

/// Keeps the shard of an object until `deleted` was called for it.
pub type AwaitedDeletion = Box<dyn Any + Send + Sync>;

/// Decides whether a function is called for an object.
#[expect(missing_debug_implementations, reason = "it is not kept")]
pub enum Grant {
    /// It is.
    Free,
    /// It is, and may write in the term of this value only. The shard is not given away before it is dropped.
    Shard(Work),
    /// Not now. The key is queued again with the next change of the grants.
    Later,
    /// Another replica does it.
    Never,
}

/// Admits every key.
pub(crate) struct AdmitAll;

impl Admission for AdmitAll {}
