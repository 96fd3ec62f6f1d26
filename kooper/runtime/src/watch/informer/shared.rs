//! One watch for all users of the same objects.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{ChangeSource, Informer, Signal, Sink, WatchStatus};
use crate::executor::Executor;
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;
use crate::watch::cache_id::CacheId;
use crate::watch::retriever::{ErasedRetriever, Scope};
use crate::watch::selection::{CacheSelection, NarrowedRetriever};
use crate::watch::store::{Change, Store};

/// Maximum time for a watch to stop.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// The watches of a process. All users of the same kind, scope and form share
/// one.
#[derive(Debug, Default)]
pub struct SharedWatches {
    known: Mutex<HashMap<(CacheId, Scope), Arc<Watched>>>,
    /// The kinds that a controller of the process has marked as secret.
    secret: Vec<KindInfo>,
    /// See `Informer::stream_ends`: of the server of the process.
    stream_ends: Arc<Mutex<Option<bool>>>,
    stop: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

/// A store that an informer keeps up to date, and the sinks of its changes.
pub struct Watched {
    pub(crate) store: Arc<Store>,
    pub(crate) status: Arc<WatchStatus>,
    sinks: Arc<Sinks>,
    /// The objects that the store keeps; `None` for all.
    selection: Option<Arc<dyn CacheSelection>>,
    /// `true` if its informer runs.
    started: Mutex<bool>,
}

impl SharedWatches {
    /// The watches of a process whose controllers have marked these kinds as secret.
    #[must_use]
    pub fn new(secret: Vec<KindInfo>) -> Self {
        Self { secret, ..Self::default() }
    }

    /// Returns `true` for Secrets, and for kinds that a controller of the process
    /// has marked as secret.
    pub(crate) fn is_secret(&self, kind: &KindInfo) -> bool {
        kind.is_secret() || self.secret.iter().any(|secret| secret.is_same(kind))
    }

    /// The watch of these objects, and whether it is new.
    pub(crate) fn of(
        &self,
        id: CacheId,
        kind: &KindInfo,
        scope: &Scope,
        status: impl FnOnce() -> WatchStatus,
    ) -> (Arc<Watched>, bool) {
        let mut known = self.known.lock();
        if let Some(watched) = known.get(&(id.unselected(), scope.clone())) {
            return (watched.clone(), false);
        }
        let watched = Arc::new(Watched::new(status(), self.is_secret(kind)));
        known.insert((id.unselected(), scope.clone()), watched.clone());
        (watched, true)
    }

    /// Starts a watch unless it is running; one with a retriever of the user's on
    /// `executor`.
    pub(crate) fn start(
        &self,
        watched: &Watched,
        executor: Option<&Executor>,
        retriever: impl FnOnce() -> Arc<dyn ErasedRetriever>,
    ) {
        if std::mem::replace(&mut *watched.started.lock(), true) {
            return;
        }
        let (store, status, sink) = (watched.store.clone(), watched.status.clone(), watched.sinks.clone());
        let mut informer = Informer::new(retriever(), store, status, sink).selecting(watched.selection.clone());
        if watched.status.is_from_server() {
            informer = informer.of_server(&self.stream_ends);
        }
        let running = informer.run(self.stop.clone());
        let running = match executor {
            Some(executor) => executor.spawn(running).map(drop).boxed(),
            None => running.boxed(),
        };
        self.tasks.lock().spawn(running);
    }

    /// Stops all watches. One that a function of the user's blocks is left alone.
    pub async fn stop(&self) {
        self.stop.cancel();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let ended = async { while tasks.join_next().await.is_some() {} };
        drop(timeout(STOP_GRACE, ended).await);
    }
}

impl Watched {
    /// The watch of objects that may be `secret`.
    pub(crate) fn new(status: WatchStatus, secret: bool) -> Self {
        let (store, status) = (Arc::new(Store::new(secret)), Arc::new(status));
        Self { store, status, sinks: Arc::default(), selection: None, started: Mutex::default() }
    }

    /// The same watch, of which the store keeps only some objects.
    pub(crate) fn selecting(self, selection: Option<Arc<dyn CacheSelection>>) -> Self {
        Self { selection, ..self }
    }

    /// The retriever of what the store keeps.
    pub(crate) fn narrowed(
        &self,
        scope: &Scope,
        open: impl Fn(Scope) -> Arc<dyn ErasedRetriever> + Send + Sync + 'static,
    ) -> Arc<dyn ErasedRetriever> {
        match &self.selection {
            Some(selection) => Arc::new(NarrowedRetriever::new(selection.clone(), scope.clone(), open)),
            None => open(scope.clone()),
        }
    }

    /// Informs `sink` of every change from now on, and of the known objects as of a
    /// first list.
    pub(crate) async fn subscribe(&self, sink: &Arc<dyn Sink>) {
        self.join(sink);
        self.replay(sink).await;
    }

    /// Informs `sink` of every change from now on.
    pub(super) fn join(&self, sink: &Arc<dyn Sink>) {
        self.sinks.join(sink);
    }

    /// Informs `sink` of the known objects as of a first list.
    pub(super) async fn replay(&self, sink: &Arc<dyn Sink>) {
        // A concurrent change may be reported twice, but is never missed, because
        // it is in the store before any sink is informed. The same holds for a
        // first list of which the other sinks are being informed.
        let store = self.store.clone();
        for part in store.parts() {
            for new in part {
                sink.changed(&Change::new(None, Some(new)), ChangeSource::First);
                consume_budget().await;
            }
        }
    }

    /// Adds or replaces an object as if the watch had reported it.
    pub fn show(&self, object: Object) {
        if self.selection.as_ref().is_some_and(|selection| !selection.selects(&object)) {
            return;
        }
        self.sinks.changed(&self.store.put(object), ChangeSource::Watched);
    }

    /// Removes an object as if the watch had reported its deletion.
    pub fn hide(&self, key: &ObjectKey) {
        if let Some(last) = self.store.get(key) {
            self.sinks.changed(&self.store.remove(last), ChangeSource::Watched);
        }
    }
}

kooper_base::debug_fields! { Watched { status } }

/// Passes changes to all sinks.
#[derive(Default)]
pub(super) struct Sinks(Mutex<Arc<[Arc<dyn Sink>]>>);

impl Sinks {
    pub(super) fn join(&self, sink: &Arc<dyn Sink>) {
        let mut sinks = self.0.lock();
        let mut all: Vec<_> = sinks.iter().cloned().chain([sink.clone()]).collect();
        all.sort_by_key(|sink| sink.is_last());
        *sinks = all.into();
    }

    fn each(&self, inform: impl Fn(&dyn Sink)) {
        // Not under the lock: a sink may take long, or subscribe another one.
        let sinks = self.0.lock().clone();
        for sink in sinks.iter() {
            inform(&**sink);
        }
    }
}

impl Sink for Sinks {
    fn changed(&self, change: &Change, seen: ChangeSource) {
        self.each(|sink| sink.changed(change, seen));
    }

    fn left(&self, object: &Arc<Object>) {
        self.each(|sink| sink.left(object));
    }

    fn signal(&self, signal: Signal<'_>) {
        self.each(|sink| sink.signal(signal));
    }
}

#[cfg(test)]
mod tests;
