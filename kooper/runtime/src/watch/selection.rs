//! The objects of a kind that a controller's cache keeps.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::retriever::{ErasedRetriever, Event, ListRequest, Page, RetrieveError, Scope, WatchRequest};
use crate::object::Object;

/// Selects the objects that a cache keeps, whatever the server sends. The selection may change
/// at any time: objects that leave it are dropped, and are not reported as deleted; those that
/// join it are listed.
pub trait CacheSelection: Send + Sync {
    /// Returns `true` if the cache keeps an object. The answer for a version of an object changes
    /// only with [`changes`](Self::changes).
    fn selects(&self, object: &Object) -> bool;

    /// Receives a value after each change of the selection: a number that is higher if objects have
    /// joined it, so that a list is needed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// The cache has all objects that had joined when the number had this value, or cannot list them.
    fn listed(&self, joined: u64) {
        let _ = joined;
    }

    /// The part of a scope that lists and watches request now: at least the selected objects.
    fn narrow(&self, scope: &Scope) -> Scope {
        scope.clone()
    }
}

/// A retriever that requests only what its selection needs.
pub(crate) struct Narrowed<F> {
    selection: Arc<dyn CacheSelection>,
    scope: Scope,
    open: F,
    /// The scope of the last request, and its retriever.
    last: Mutex<(Scope, Arc<dyn ErasedRetriever>)>,
}

impl<F: Fn(Scope) -> Arc<dyn ErasedRetriever> + Send + Sync> Narrowed<F> {
    pub(crate) fn new(selection: Arc<dyn CacheSelection>, scope: Scope, open: F) -> Self {
        let last = Mutex::new((scope.clone(), open(scope.clone())));
        Self { selection, scope, open, last }
    }

    /// The retriever of the last request.
    fn last(&self) -> Arc<dyn ErasedRetriever> {
        self.last.lock().1.clone()
    }

    /// The retriever for a new request.
    fn next(&self) -> Arc<dyn ErasedRetriever> {
        let scope = self.selection.narrow(&self.scope);
        let mut last = self.last.lock();
        if last.0 != scope {
            *last = (scope.clone(), (self.open)(scope));
        }
        last.1.clone()
    }
}

impl<F: Fn(Scope) -> Arc<dyn ErasedRetriever> + Send + Sync> ErasedRetriever for Narrowed<F> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, RetrieveError>> {
        // A token does not carry the selector of its first page.
        let retriever = if request.continue_token.is_some() { self.last() } else { self.next() };
        Box::pin(async move { retriever.list(request).await })
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<Event, RetrieveError>>, RetrieveError>> {
        let retriever = self.next();
        Box::pin(async move { retriever.watch(request).await })
    }

    fn streams_lists(&self) -> bool {
        self.last().streams_lists()
    }

    fn longest_silence(&self) -> Option<Duration> {
        self.last().longest_silence()
    }
}
