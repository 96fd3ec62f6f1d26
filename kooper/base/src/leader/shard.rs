//! The right to work on a shard of a controller's objects.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// A shard of a controller's objects, and the term in which this replica works on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Shard {
    /// Its index, from 0.
    pub index: u16,
    /// The number of shards.
    pub count: u16,
    /// A number that rises whenever the shard gets another owner. A system that keeps the highest
    /// one and refuses lower ones is never changed by an earlier owner.
    pub term: u64,
}

impl Shard {
    #[doc(hidden)]
    #[must_use]
    pub fn new(index: u16, count: u16, term: u64) -> Self {
        Self { index, count, term }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

/// The term in which this replica works on a shard.
pub trait ShardTerm: Send + Sync {
    /// The shard, and the number of the term.
    fn shard(&self) -> Shard;

    /// Returns `true` while this replica may work on it.
    fn is_held(&self) -> bool;

    /// Cancelled when this replica must not work on it any more, and when it did not know for a moment whether it may.
    fn ended(&self) -> CancellationToken;

    /// Cancelled when the shard is about to be given away.
    fn leaving(&self) -> CancellationToken;

    /// The shard is not given away before the returned value is dropped.
    fn work(self: Arc<Self>) -> Box<dyn Any + Send + Sync>;
}

/// The term in which a request may be sent, among the extensions of the request.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a term cannot be shown")]
pub struct SentIn(pub Arc<dyn ShardTerm>);
