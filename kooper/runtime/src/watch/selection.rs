//! The objects of a kind that a controller's cache keeps.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::retriever::{
    ErasedRetriever, Event, Events, ListRequest, Page, RetrieveError, Scope, ShardSelector, WatchRequest,
};
use crate::error::chain;
use crate::object::Object;

/// Selects the objects that a cache keeps, whatever the server sends. The selection may change
/// at any time: objects that leave it are dropped, and are not reported as deleted; those that
/// join it are listed.
pub trait CacheSelection: Send + Sync {
    /// Returns `true` if the cache keeps an object. The answer for a version of an object changes
    /// only with [`changes`](Self::changes).
    fn selects(&self, object: &Object) -> bool;

    /// Returns `true` if it selects nothing, so that no list is needed: [`selects`](Self::selects) returns `false` for each
    /// object until the number of [`changes`](Self::changes) is higher.
    fn is_empty(&self) -> bool {
        false
    }

    /// The server has sent an object that is not selected.
    fn dropped(&self) {}

    /// Receives a value after each change of the selection: a number that is higher if objects have
    /// joined it, so that a list is needed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Counts objects that left the selection, so that a cache looks for them only when some have; `None` if it is not
    /// counted. It is raised before the value of [`changes`](Self::changes) is sent.
    fn left(&self) -> Option<u64> {
        None
    }

    /// The cache has all objects that had joined when the number had this value, or may not list them.
    fn listed(&self, _joined: u64) {}

    /// The first list has failed several times, or watches are refused, and what had joined when the number had this value is
    /// not waited for any more.
    fn tried(&self, _joined: u64) {}

    /// The part of a scope that lists and watches request now: at least the selected objects that have joined after the
    /// number of [`changes`](Self::changes) was `since`; 0 for all.
    fn narrow(&self, scope: &Scope, _since: u64) -> Scope {
        scope.clone()
    }

    /// The effect of the shard selector of the last list or watch.
    fn shard_selector(&self, _state: SelectorState) {}
}

/// The effect of a shard selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorState {
    /// The server sends only selected objects.
    Applied,
    /// The server sends others, too.
    Ignored,
    /// The server rejects the request, but not the same request without the selector.
    Rejected,
}

/// A retriever that requests only what its selection needs.
pub(crate) struct NarrowedRetriever<F> {
    selection: Arc<dyn CacheSelection>,
    scope: Scope,
    open: F,
    /// The scope of the last request, and its retriever.
    last: Mutex<(Scope, Arc<dyn ErasedRetriever>)>,
    /// The effect of the shard selector since the last list began.
    state: Arc<Mutex<Option<SelectorState>>>,
}

impl<F: Fn(Scope) -> Arc<dyn ErasedRetriever> + Send + Sync> NarrowedRetriever<F> {
    pub(crate) fn new(selection: Arc<dyn CacheSelection>, scope: Scope, open: F) -> Self {
        let last = Mutex::new((scope.clone(), open(scope.clone())));
        Self { selection, scope, open, last, state: Arc::default() }
    }

    fn last(&self) -> (Scope, Arc<dyn ErasedRetriever>) {
        self.last.lock().clone()
    }

    /// The scope of a new request for what has joined the selection since then.
    fn narrow(&self, since: u64) -> Scope {
        let scope = self.selection.narrow(&self.scope, since);
        let is_rejected = *self.state.lock() == Some(SelectorState::Rejected);
        if is_rejected { Scope { shard_selector: None, ..scope } } else { scope }
    }

    /// The scope and the retriever for a new request.
    fn next(&self) -> (Scope, Arc<dyn ErasedRetriever>) {
        let scope = self.narrow(0);
        let mut last = self.last.lock();
        if last.0 != scope {
            if last.0.shard_selector != scope.shard_selector {
                // A proxy may reject this one: it may be longer.
                *self.state.lock() = None;
            }
            *last = (scope.clone(), (self.open)(scope));
        }
        last.clone()
    }

    /// Sends a request, and without the shard selector if that may be why it is rejected.
    async fn send<T, R>(
        &self,
        request: impl Fn(Arc<dyn ErasedRetriever>) -> R,
    ) -> Result<(T, Option<ShardSelector>), RetrieveError>
    where
        R: Future<Output = Result<T, RetrieveError>>,
    {
        let (scope, retriever) = self.next();
        match request(retriever).await {
            Err(error) if scope.shard_selector.is_some() && self.may_be_rejection(&error) => {
                let whole = Scope { shard_selector: None, ..scope };
                let retriever = (self.open)(whole.clone());
                // Nothing is noted before the response: the request may be cancelled, or fail as well.
                let answer = request(Arc::clone(&retriever)).await?;
                tracing::debug!("the request succeeds without the shard selector: {}", chain(&error));
                *self.last.lock() = (whole, retriever);
                *self.state.lock() = Some(SelectorState::Rejected);
                self.selection.shard_selector(SelectorState::Rejected);
                Ok((answer, None))
            }
            answer => answer.map(|answer| (answer, scope.shard_selector)),
        }
    }

    /// Returns `true` if the server, or a proxy before it, may have rejected the shard selector, which it is not known
    /// to accept. The API server responds to a malformed one with 500.
    fn may_be_rejection(&self, error: &RetrieveError) -> bool {
        let is_accepted = matches!(*self.state.lock(), Some(SelectorState::Applied | SelectorState::Ignored));
        let may_be = matches!(
            error,
            RetrieveError::Status { code: 400 | 403 | 414 | 422 | 500, .. }
                | RetrieveError::NoStreaming(_)
                | RetrieveError::Forbidden(_)
        );
        may_be && !is_accepted
    }
}

impl<F: Fn(Scope) -> Arc<dyn ErasedRetriever> + Send + Sync> ErasedRetriever for NarrowedRetriever<F> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, RetrieveError>> {
        Box::pin(async move {
            // A single object is requested to read the version, and says nothing about the selector.
            if request.limit == 1 {
                return self.last().1.list(request).await;
            }
            let (page, selector) = if request.continue_token.is_some() {
                // A token does not carry the selector of its first page.
                let (scope, retriever) = self.last();
                (retriever.list(request).await?, scope.shard_selector)
            } else {
                *self.state.lock() = None;
                let list = |retriever: Arc<dyn ErasedRetriever>| {
                    let request = request.clone();
                    async move { retriever.list(request).await }
                };
                self.send(list).await?
            };
            if let Some(mut check) = selector.map(|selector| SelectorCheck::new(self, selector)) {
                page.objects.iter().flatten().for_each(|object| check.received(object));
                check.listed();
            }
            Ok(page)
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events, RetrieveError>> {
        Box::pin(async move {
            if request.initial_events {
                *self.state.lock() = None;
            }
            let watch = |retriever: Arc<dyn ErasedRetriever>| {
                let request = request.clone();
                async move { retriever.watch(request).await }
            };
            let (events, selector) = self.send(watch).await?;
            let Some(mut check) = selector.map(|selector| SelectorCheck::new(self, selector)) else {
                return Ok(events);
            };
            let checked = events.inspect(move |event| match event {
                Ok(Event::Added(object) | Event::Modified(object) | Event::Deleted(object)) => check.received(object),
                Ok(Event::Bookmark { initial_events_end: true, .. }) => check.listed(),
                _ => {}
            });
            Ok(checked.boxed())
        })
    }

    fn streams_lists(&self) -> bool {
        self.last().1.streams_lists()
    }

    fn longest_silence(&self) -> Option<Duration> {
        self.last().1.longest_silence()
    }

    fn is_outdated(&self) -> bool {
        let (now, (last, _)) = (self.narrow(0), self.last());
        let is_ignored = *self.state.lock() == Some(SelectorState::Ignored);
        now != last && !(is_ignored && now == Scope { shard_selector: now.shard_selector.clone(), ..last })
    }

    fn joined(&self, since: u64, version: &str) -> Option<Arc<dyn ErasedRetriever>> {
        // The next whole list tries the selector again.
        let is_rejected = *self.state.lock() == Some(SelectorState::Rejected);
        (!is_rejected).then(|| (self.open)(Scope { version: Some(version.to_owned()), ..self.narrow(since) }))
    }
}

/// Finds out from the objects of a response if the server has applied the selector. Only lists of built-in kinds say so
/// (`metadata.shardInfo`); watches, streaming lists and custom resources do not.
struct SelectorCheck {
    selection: Arc<dyn CacheSelection>,
    state: Arc<Mutex<Option<SelectorState>>>,
    selector: ShardSelector,
    objects: usize,
    ignored: bool,
}

impl SelectorCheck {
    fn new<F>(narrowed: &NarrowedRetriever<F>, selector: ShardSelector) -> Self {
        let (selection, state) = (Arc::clone(&narrowed.selection), Arc::clone(&narrowed.state));
        Self { selection, state, selector, objects: 0, ignored: false }
    }

    fn note(&self, state: SelectorState) {
        *self.state.lock() = Some(state);
        self.selection.shard_selector(state);
    }

    fn received(&mut self, object: &Object) {
        self.objects += 1;
        if !self.ignored && !self.selector.selects(object.uid()) {
            self.ignored = true;
            self.note(SelectorState::Ignored);
        }
    }

    /// All objects of a list, or of a page of it, were received. Without objects it shows nothing.
    fn listed(&self) {
        // An earlier page may have shown it.
        let is_ignored = self.ignored || *self.state.lock() == Some(SelectorState::Ignored);
        if self.objects > 0 && !is_ignored {
            self.note(SelectorState::Applied);
        }
    }
}

#[cfg(test)]
mod tests;
