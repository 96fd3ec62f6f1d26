//! The part of the objects that an operator handles.

use std::sync::Arc;

use crate::queue::Admission;
use crate::watch::selection::CacheSelection;

/// Limits the controllers of an operator to a part of their objects, which may change while they
/// run. An object is selected after its key is admitted, and refused after it has left the selection.
pub trait Partition: Send + Sync {
    /// Decides which keys of a controller are handled.
    fn admission(&self, controller: &Arc<str>) -> Arc<dyn Admission>;

    /// Decides which of the controller's own objects are kept in its cache. A
    /// `Reader` of the kind still has all of them.
    fn selection(&self, controller: &Arc<str>) -> Arc<dyn CacheSelection>;
}
