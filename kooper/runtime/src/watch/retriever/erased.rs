//! The only place where the types of retrievers are erased.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::{Event, ListRequest, Page, RetrieveError, Retriever, WatchRequest};

/// A retriever of any kind, as the informer holds it.
pub(crate) trait ErasedRetriever: Send + Sync {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, RetrieveError>>;
    fn watch(
        &self,
        request: WatchRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<Event, RetrieveError>>, RetrieveError>>;
    fn streams_lists(&self) -> bool;
    fn longest_silence(&self) -> Option<Duration>;
}

struct TypedRetriever<K, R>(R, PhantomData<fn() -> K>);

pub(crate) fn erase<K: 'static, R: Retriever<K>>(retriever: R) -> Arc<dyn ErasedRetriever> {
    Arc::new(TypedRetriever(retriever, PhantomData))
}

impl<K: 'static, R: Retriever<K>> ErasedRetriever for TypedRetriever<K, R> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, RetrieveError>> {
        Box::pin(self.0.list(request))
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<Event, RetrieveError>>, RetrieveError>> {
        Box::pin(async move { self.0.watch(request).await.map(StreamExt::boxed) })
    }

    fn streams_lists(&self) -> bool {
        self.0.streams_lists()
    }

    fn longest_silence(&self) -> Option<Duration> {
        self.0.longest_silence()
    }
}
