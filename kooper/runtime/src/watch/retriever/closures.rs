//! A retriever of two closures.

use std::future::Future;
use std::marker::PhantomData;

use futures_util::Stream;

use super::{Event, ListRequest, Page, RetrieveError, Retriever, WatchRequest};

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
