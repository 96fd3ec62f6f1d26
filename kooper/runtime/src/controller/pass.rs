//! One pass over all objects: each controller handles each of its objects once, and ends.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::object::kind::KindInfo;
use crate::queue::Admission;
use crate::watch::informer::Watched;
use crate::watch::retriever::Scope;

/// Runs the controllers of an operator once over their objects, without leader election. A
/// dry run is one.
pub trait Pass: Send + Sync {
    /// Adds a controller, before it starts.
    fn join(self: Arc<Self>, controller: &Arc<str>) -> Arc<dyn ControllerPass>;

    /// A cache of objects of this kind and scope is about to be filled.
    fn opened(&self, kind: &KindInfo, scope: &Scope, cache: &Arc<Watched>);
}

/// The part of one controller, which also decides which of its keys are called.
pub trait ControllerPass: Admission {
    /// Something keeps the pass from being complete.
    fn problem(&self, problem: String);

    /// A remark that is not a problem.
    fn note(&self, note: String);

    /// The controller handles nothing.
    fn give_up(&self);

    /// The controller is ready for its first call, or never will be.
    fn started(&self);

    /// Waits until all controllers are ready: then their caches are complete.
    fn all_started(&self) -> BoxFuture<'_, ()>;
}

/// Ends the part of a controller with it, even if it panics: the others do not wait
/// for it forever.
pub(crate) struct Leaving(pub(crate) Arc<dyn ControllerPass>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.give_up();
        self.0.started();
    }
}
