//! Read access to a running controller.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::call::context::ControllerContext;
use crate::call::extensions::Extensions;
use crate::call::worker::{CallTracker, Running};
use crate::controller::namespaces::Namespaces;
use crate::controller::starting::Starting;
use crate::leader::Leadership;
use crate::leader::shard::Shard;
use crate::metrics::health::Probe;
use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;
use crate::queue::{Admission, WorkQueue};
use crate::watch::informer::Watched;

/// The state of a running controller, which reading does not change.
#[expect(missing_debug_implementations, reason = "other crates of Kooper only read it")]
pub struct ControllerView {
    pub(super) context: Arc<ControllerContext>,
    pub(super) namespaces: Arc<Namespaces>,
    pub(super) leadership: Leadership,
    /// The identity in the Lease; `None` without leader election.
    pub(super) identity: Option<String>,
    /// The state of the election, once it has begun.
    pub(super) election: OnceLock<Arc<dyn Probe>>,
    pub(super) admission: Arc<dyn Admission>,
    pub(super) workers: usize,
    /// `true` if no function is called for an object that is being deleted.
    pub(super) ignores_deletion: bool,
    pub(super) watches: Vec<Arc<Watched>>,
    pub(super) call_tracker: Arc<CallTracker>,
    pub(super) starting: Arc<Starting>,
}

/// The state of a watch.
#[derive(Debug)]
pub struct WatchView {
    /// The resource, and the namespace if it is a single one.
    pub place: String,
    /// The number of objects in its store.
    pub objects: usize,
    /// The time since the last event or bookmark.
    pub heard: Duration,
    /// Why it is not up to date, if so.
    pub problem: Option<String>,
}

impl ControllerView {
    /// The name of the controller.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.context.controller
    }

    /// The kind that it handles.
    #[must_use]
    pub fn kind(&self) -> &KindInfo {
        &self.context.kind
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &WorkQueue {
        &self.context.queue
    }

    /// Values that the crates above keep for it.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.context.extensions
    }

    /// The maximum number of calls that run at the same time.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The calls that run, the longest one first.
    #[must_use]
    pub fn calls(&self) -> Vec<Running> {
        self.call_tracker.running()
    }

    /// Its watches.
    #[must_use]
    pub fn watches(&self) -> Vec<WatchView> {
        let view = |watched: &Arc<Watched>| WatchView {
            place: watched.status.place(),
            objects: watched.store.size().0,
            heard: watched.status.age(),
            problem: watched.status.problem(),
        };
        self.watches.iter().map(view).collect()
    }

    /// Why no handler is called, if so.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.starting.ready().err().or_else(|| self.namespaces.unlisted())
    }

    /// The identity in leader election, and whether it leads.
    #[must_use]
    pub fn candidate(&self) -> Option<(&str, bool)> {
        Some((self.identity.as_deref()?, self.leadership.is_held()))
    }

    /// The shards that this replica works on; `None` if the controller has none.
    #[must_use]
    pub fn shards(&self) -> Option<BTreeSet<Shard>> {
        self.admission.owned()
    }

    /// The probe of leader election, once that has begun.
    #[must_use]
    pub fn election(&self) -> Option<&dyn Probe> {
        self.election.get().map(|election| &**election)
    }

    /// Returns `true` if the first lists of a key's namespace are complete.
    #[must_use]
    pub fn is_synced(&self, key: &ObjectKey) -> bool {
        self.namespaces.is_synced(key.namespace())
    }

    /// Returns `true` if the object of a key is in the cache.
    #[must_use]
    pub fn is_cached(&self, key: &ObjectKey) -> bool {
        self.context.own.get(key).is_some()
    }

    /// The annotation by which an object is paused.
    #[must_use]
    pub fn paused_by(&self, key: &ObjectKey) -> Option<&str> {
        let object = self.context.own.get(key).filter(|object| !object.is_terminating())?;
        self.context.annotations.paused_by(&object)
    }

    /// Returns `true` if no function is called for an object, because it is being deleted.
    #[must_use]
    pub fn ignores(&self, key: &ObjectKey) -> bool {
        self.ignores_deletion && self.context.own.get(key).is_some_and(|object| object.is_terminating())
    }
}
