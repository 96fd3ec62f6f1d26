//! A retriever of two closures.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::{Stream, stream};

use super::{ErasedRetriever, Event, ListRequest, Page, RetrieveError, Retriever, WatchRequest, erase};

struct FromFns<K, L, W> {
    list: L,
    watch: W,
    kind: PhantomData<fn() -> K>,
}

/// A retriever that lists with one closure and watches with another.
///
/// ```
/// use futures_util::stream;
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::Controller;
/// use kooper::retriever::{Page, from_fns};
///
/// let nothing = from_fns(|_| async { Ok(Page::default()) }, |_| async { Ok(stream::pending()) });
/// let builder = Controller::builder::<Pod>("idle").retriever(nothing);
/// # let _ = builder;
/// ```
pub fn from_fns<K, L, W, LF, WF, S>(list: L, watch: W) -> impl Retriever<K>
where
    K: 'static,
    L: Fn(ListRequest) -> LF + Send + Sync + 'static,
    LF: Future<Output = Result<Page, RetrieveError>> + Send,
    W: Fn(WatchRequest) -> WF + Send + Sync + 'static,
    WF: Future<Output = Result<S, RetrieveError>> + Send,
    S: Stream<Item = Result<Event, RetrieveError>> + Send + 'static,
{
    FromFns { list, watch, kind: PhantomData }
}

/// A retriever of what another one lists. What changes later is not retrieved.
pub(crate) fn snapshot(retriever: Arc<dyn ErasedRetriever>) -> Arc<dyn ErasedRetriever> {
    let list = move |request: ListRequest| {
        let retriever = Arc::clone(&retriever);
        async move { retriever.list(request).await }
    };
    erase::<(), _>(from_fns(list, |_| async { Ok(stream::pending()) }))
}

impl<K, L, W, LF, WF, S> Retriever<K> for FromFns<K, L, W>
where
    K: 'static,
    L: Fn(ListRequest) -> LF + Send + Sync + 'static,
    LF: Future<Output = Result<Page, RetrieveError>> + Send,
    W: Fn(WatchRequest) -> WF + Send + Sync + 'static,
    WF: Future<Output = Result<S, RetrieveError>> + Send,
    S: Stream<Item = Result<Event, RetrieveError>> + Send + 'static,
{
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<Page, RetrieveError>> + Send {
        (self.list)(request)
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> impl Future<Output = Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError>> + Send
    {
        (self.watch)(request)
    }
}
