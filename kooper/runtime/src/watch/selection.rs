//! The objects of its kind that a controller's own cache keeps.

use tokio::sync::watch;

use crate::object::Object;

/// Selects the objects that a cache keeps, whatever the server sends. The selection may change
/// at any time: objects that leave it are dropped, and are not reported as deleted; those that
/// join it are listed.
pub trait CacheSelection: Send + Sync {
    /// Returns `true` if the cache keeps an object. The answer for a uid changes only with
    /// [`changes`](Self::changes).
    fn selects(&self, object: &Object) -> bool;

    /// Receives a value after each change of the selection: a number that is higher if objects have
    /// joined it, so that a list is needed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// The cache has all objects that had joined when the number had this value, or cannot list them.
    fn listed(&self, joined: u64) {
        let _ = joined;
    }
}
