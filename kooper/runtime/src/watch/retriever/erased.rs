//! The only place where the types of retrievers are erased.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::{Event, ListRequest, Page, RetrieveError, Retriever, WatchRequest};

/// The events of a watch.
pub(crate) type Events = BoxStream<'static, Result<Event, RetrieveError>>;

/// A retriever of any kind, as the informer holds it.
pub trait ErasedRetriever: Send + Sync {
    /// As [`Retriever::list`].
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, RetrieveError>>;
    /// As [`Retriever::watch`].
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events, RetrieveError>>;
    /// As [`Retriever::streams_lists`].
    fn streams_lists(&self) -> bool {
        false
    }
    /// As [`Retriever::longest_silence`].
    fn longest_silence(&self) -> Option<Duration> {
        None
    }
    /// Returns `true` if a new watch would send fewer objects than the last one.
    fn is_outdated(&self) -> bool {
        false
    }
    /// A retriever that lists, as they were at a version, the objects that have joined the selection after the number
    /// of its changes was `since`, and possibly others. `None` if there is none for them alone.
    fn joined(&self, _since: u64, _version: &str) -> Option<Arc<dyn ErasedRetriever>> {
        None
    }
}

struct TypedRetriever<K, R> {
    retriever: R,
    /// The results of `streams_lists` and `longest_silence`. They may be the user's functions, so they are called once, where
    /// they may block their thread or panic.
    settings: OnceLock<(bool, Option<Duration>)>,
    kind: PhantomData<fn() -> K>,
}

/// A retriever without its types.
pub fn erase<K: 'static, R: Retriever<K>>(retriever: R) -> Arc<dyn ErasedRetriever> {
    Arc::new(TypedRetriever { retriever, settings: OnceLock::new(), kind: PhantomData })
}

impl<K: 'static, R: Retriever<K>> TypedRetriever<K, R> {
    fn settings(&self) -> (bool, Option<Duration>) {
        *self.settings.get_or_init(|| (self.retriever.streams_lists(), self.retriever.longest_silence()))
    }
}

impl<K: 'static, R: Retriever<K>> ErasedRetriever for TypedRetriever<K, R> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, RetrieveError>> {
        Box::pin(self.retriever.list(request))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events, RetrieveError>> {
        Box::pin(async move { self.retriever.watch(request).await.map(StreamExt::boxed) })
    }

    fn streams_lists(&self) -> bool {
        self.settings().0
    }

    fn longest_silence(&self) -> Option<Duration> {
        self.settings().1
    }
}
