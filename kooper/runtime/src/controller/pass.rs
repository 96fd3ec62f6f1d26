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
pub(crate) struct LeaveOnDrop(pub(crate) Arc<dyn ControllerPass>);

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        self.0.give_up();
        self.0.started();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct CallLog(Mutex<Vec<&'static str>>);

    impl Admission for CallLog {}

    impl ControllerPass for CallLog {
        fn problem(&self, _: String) {}

        fn note(&self, _: String) {}

        fn give_up(&self) {
            self.0.lock().push("gave up");
        }

        fn started(&self) {
            self.0.lock().push("started");
        }

        fn all_started(&self) -> BoxFuture<'_, ()> {
            std::future::ready(()).boxed()
        }
    }

    #[test]
    fn a_controller_that_panics_delays_no_other() {
        let calls = Arc::new(CallLog::default());
        let leaving = LeaveOnDrop(calls.clone());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _leaving = leaving;
            panic!("out of milk");
        }));
        assert!(panicked.is_err());
        assert_eq!(*calls.0.lock(), ["gave up", "started"]);
    }
}
