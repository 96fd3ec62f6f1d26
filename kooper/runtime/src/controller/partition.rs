//! The part of the objects that an operator handles.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::leader::Leadership;
use crate::object::kind::KindInfo;
use crate::queue::Admission;
use crate::watch::selection::CacheSelection;

/// Limits a controller to a part of its objects, which may change while it runs. An object is
/// selected after its key is admitted, and refused after it has left the selection.
pub trait Partition: Send + Sync {
    /// Decides which keys are handled.
    fn admission(&self) -> Arc<dyn Admission>;

    /// Decides which of the controller's own objects are kept in one of its caches; `None` for all. A
    /// `Reader` of the kind still has all of them.
    fn selection(&self) -> Option<Arc<dyn CacheSelection>>;

    /// Decides which children of these objects, of the kind `owner`, are kept in one of its caches;
    /// `None` for all. Those that the controller has `applied` have its labels.
    fn children(&self, _owner: &KindInfo, _applied: bool) -> Option<Arc<dyn CacheSelection>> {
        None
    }

    /// While it is not held, nothing is handled or sent. The time between its end and the
    /// earliest work of another replica.
    fn leadership(&self) -> (Leadership, Duration) {
        (Leadership::always(), Duration::ZERO)
    }

    /// Returns `true` if calls run in the part, which may be those of another controller.
    fn is_in_use(&self) -> bool {
        false
    }

    /// The functions of the controller can be called from now on: `init` has succeeded. Nothing that another replica
    /// handles is given to this one before.
    fn works(&self) {}

    /// Holds the part, from when the caches are complete. After `leave` is cancelled, it is given to
    /// other replicas, as far as no call runs in it, and this ends. Nothing is given away after this
    /// was dropped.
    fn hold(&self, leave: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move { leave.cancelled().await })
    }
}
