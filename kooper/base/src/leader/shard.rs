//! The right to work on a shard of a controller's objects.

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
    fn ended(&self) -> &CancellationToken;

    /// Cancelled when the shard is about to be given away.
    fn leaving(&self) -> &CancellationToken;

    /// A call or a task begins, see [`Work`].
    fn begin(&self);

    /// It has ended.
    fn end(&self);
}

/// A call or a task in a term. The shard is not given away before this is dropped.
pub struct Work(Arc<dyn ShardTerm>);

impl Work {
    /// A call or a task that begins.
    #[must_use]
    pub fn begin(term: Arc<dyn ShardTerm>) -> Self {
        term.begin();
        Self(term)
    }

    /// The term in which it may write.
    #[must_use]
    pub fn term(&self) -> &Arc<dyn ShardTerm> {
        &self.0
    }
}

impl Clone for Work {
    fn clone(&self) -> Self {
        Self::begin(Arc::clone(&self.0))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.0.shard()).finish()
    }
}

/// The term in which a request may be sent, among the extensions of the request.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a term cannot be shown")]
pub struct SentIn(pub Arc<dyn ShardTerm>);
