//! A retriever that lists once: what changes later is not retrieved.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};

use super::{ErasedRetriever, Event, ListRequest, Page, RetrieveError, WatchRequest};

/// Another retriever, whose watch is silent.
pub(crate) struct Snapshot(pub(crate) Arc<dyn ErasedRetriever>);

impl ErasedRetriever for Snapshot {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, RetrieveError>> {
        self.0.list(request)
    }

    fn watch(
        &self,
        _: WatchRequest,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<Event, RetrieveError>>, RetrieveError>> {
        Box::pin(std::future::ready(Ok(stream::pending().boxed())))
    }

    fn streams_lists(&self) -> bool {
        false
    }

    fn longest_silence(&self) -> Option<Duration> {
        None
    }
}
