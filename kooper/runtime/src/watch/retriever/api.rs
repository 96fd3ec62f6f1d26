//! The retriever of the API server.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, Stream};
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderValue};
use http::{Request, Response, Uri};
use http_body::Frame;
use http_body_util::BodyExt;
use kooper_protobuf::Kind;
use kube::client::Body;
use kube::core::params::{ListParams, VersionMatch, WatchParams};
use kube::{Client, Resource};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::frames::{EventReader, PageReader};
use super::shard_selector::{ShardSelector, fnv1a};
use super::status::status_error;
use super::{Event, Events, ListRequest, Page, RetrieveError, Retriever, WatchRequest};
use crate::backoff::fraction;
use crate::client::requested_pause;
use crate::object::kind::is_metadata;
use crate::object::partial::has_known_fields;
use crate::watch::silence::Silence;

/// The objects of a kind that an [`ApiRetriever`] lists and watches; all of them
/// by default.
///
/// ```
/// use kooper::retriever::Scope;
///
/// let scope = Scope { namespace: Some("shop".into()), labels: Some("app=web".into()), ..Scope::default() };
/// # let _ = scope;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The namespace; `None` for all namespaces, and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The label selector.
    pub labels: Option<String>,
    /// The field selector.
    pub fields: Option<String>,
    /// Fetches only the metadata, as `PartialObjectMetadata`.
    pub metadata_only: bool,
    /// Fetches JSON even if the API server offers protobuf, for example for a packet capture.
    pub json_only: bool,
    /// The shard selector. Servers may ignore it, so each object is checked.
    #[doc(hidden)]
    pub shard_selector: Option<ShardSelector>,
    /// Lists have the objects as they were at this version; those of `None` have the newest.
    #[doc(hidden)]
    pub version: Option<String>,
}

impl Scope {
    /// This scope in each of several namespaces, or unchanged if there are none.
    pub(crate) fn in_each(&self, namespaces: &[String]) -> Vec<Self> {
        if namespaces.is_empty() {
            return vec![self.clone()];
        }
        let distinct: BTreeSet<&String> = namespaces.iter().collect();
        distinct.into_iter().map(|namespace| Self { namespace: Some(namespace.clone()), ..self.clone() }).collect()
    }
}

/// Lists and watches a kind at the API server. It uses streaming lists if the
/// server supports them, otherwise pages.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::kube::Client;
/// use kooper::retriever::{ApiRetriever, Scope};
///
/// fn pods(client: Client) -> ApiRetriever<Pod> {
///     ApiRetriever::new(client, Scope::default())
/// }
/// # let _ = pods;
/// ```
pub struct ApiRetriever<K> {
    endpoint: Endpoint,
    kind: PhantomData<fn() -> K>,
}

/// Where the objects of a kind are. It does not have their type, so that its requests are compiled once for all kinds.
struct Endpoint {
    client: Client,
    path: String,
    scope: Scope,
    /// `true` if requests accept protobuf.
    protobuf: bool,
    /// The number of watches that were opened.
    watches: AtomicU32,
}

impl<K: Resource<DynamicType = ()> + DeserializeOwned> ApiRetriever<K> {
    /// Retrieves the objects of the kind that are in the scope. For
    /// `PartialObjectMeta` only metadata is fetched.
    #[must_use]
    pub fn new(client: Client, mut scope: Scope) -> Self {
        scope.metadata_only |= is_metadata::<K>();
        let path = K::url_path(&(), scope.namespace.as_deref());
        let protobuf = !scope.json_only && (scope.metadata_only || is_known::<K>());
        let endpoint = Endpoint { client, path, scope, protobuf, watches: AtomicU32::new(0) };
        Self { endpoint, kind: PhantomData }
    }
}

impl Endpoint {
    /// The seconds after which the server ends the next watch.
    fn watch_seconds(&self) -> u32 {
        // Others on other machines, and the same each time in a test.
        let host = std::env::var("HOSTNAME").unwrap_or_default();
        let seed = fnv1a(self.path.as_bytes()) ^ fnv1a(host.as_bytes());
        let random = fraction(seed ^ u64::from(self.watches.fetch_add(1, Ordering::Relaxed)));
        WATCH_SECONDS - (random * f64::from(SPREAD_SECONDS)) as u32
    }

    /// Adds what `kube` has no parameters for, and allows a response in protobuf, where that is known to lose nothing.
    /// Which of the two it is, the response specifies.
    fn complete(&self, mut request: Request<Vec<u8>>) -> Result<Request<Vec<u8>>, RetrieveError> {
        const JSON: &str = "application/json";
        let json = request.headers().get(ACCEPT).map_or(Ok(JSON), HeaderValue::to_str).unwrap_or(JSON);
        if self.protobuf
            && let Some(parameters) = json.strip_prefix(JSON)
            && let Ok(accept) = format!("{}{parameters},{json}", kooper_protobuf::CONTENT_TYPE).try_into()
        {
            request.headers_mut().insert(ACCEPT, accept);
        }
        if let Some(selector) = &self.scope.shard_selector {
            let selector = selector.to_string();
            let encoded = utf8_percent_encode(&selector, NON_ALPHANUMERIC);
            // A path with parameters ends with one of them.
            let uri = format!("{}&shardSelector={encoded}", request.uri());
            *request.uri_mut() = Uri::try_from(uri).map_err(RetrieveError::connection)?;
        }
        Ok(request)
    }
}

/// Returns `true` if protobuf has the kind, and all fields of the type.
fn is_known<K: Resource<DynamicType = ()> + DeserializeOwned>() -> bool {
    Kind::of(&K::api_version(&()), &K::kind(&())).is_some() && has_known_fields::<K>()
}

impl<K> std::fmt::Debug for ApiRetriever<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Endpoint { path, scope, .. } = &self.endpoint;
        f.debug_struct("ApiRetriever").field("path", path).field("scope", scope).finish_non_exhaustive()
    }
}

/// The server ends a watch after this time at most, and it is resumed.
const WATCH_SECONDS: u32 = 290;

/// Maximum time by which it ends earlier, so that watches that began together are not always resumed together.
const SPREAD_SECONDS: u32 = 60;

/// The same for a watch that begins with a list, because the list may take long.
const LIST_SECONDS: u32 = 3600;

/// A response is aborted if no byte arrives for this time.
const SILENCE: Duration = Duration::from_secs(180);

impl<K: Resource<DynamicType = ()> + 'static> Retriever<K> for ApiRetriever<K> {
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<Page, RetrieveError>> + Send {
        self.endpoint.list(request)
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> impl Future<Output = Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError>> + Send
    {
        self.endpoint.watch(request)
    }

    fn streams_lists(&self) -> bool {
        true
    }

    /// The API server sends a bookmark each minute, for most kinds.
    fn longest_silence(&self) -> Option<Duration> {
        Some(SILENCE)
    }
}

impl Endpoint {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, RetrieveError>> {
        Box::pin(async move {
            let params = ListParams {
                label_selector: self.scope.labels.clone(),
                field_selector: self.scope.fields.clone(),
                limit: Some(request.limit),
                continue_token: request.continue_token,
                version_match: self.scope.version.as_ref().map(|_| VersionMatch::Exact),
                resource_version: self.scope.version.clone(),
                ..ListParams::default()
            };
            let path = kube::core::Request::new(&self.path);
            let request = if self.scope.metadata_only { path.list_metadata(&params) } else { path.list(&params) };
            let request = request.map_err(RetrieveError::connection)?;
            let sent = timeout(SILENCE, send(&self.client, self.complete(request)?));
            let response = sent.await.map_err(|_elapsed| RetrieveError::Silent(SILENCE))??;
            let mut page = PageReader::of(response.headers());
            let mut body = response.into_body();
            // The page may take as long as it needs: only silence is limited.
            let mut silence = Silence::new(SILENCE);
            while let Some(frame) = silence.limit(body.frame()).await.ok_or(RetrieveError::Silent(SILENCE))? {
                if let Ok(chunk) = frame.map_err(RetrieveError::connection)?.into_data() {
                    page.push(&chunk)?;
                }
            }
            page.end()
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events, RetrieveError>> {
        let params = WatchParams {
            label_selector: self.scope.labels.clone(),
            field_selector: self.scope.fields.clone(),
            timeout: Some(if request.initial_events { LIST_SECONDS } else { self.watch_seconds() }),
            bookmarks: true,
            send_initial_events: request.initial_events,
        };
        Box::pin(async move {
            let path = kube::core::Request::new(&self.path);
            let WatchRequest { version, initial_events } = request;
            let request = if self.scope.metadata_only {
                path.watch_metadata(&params, &version)
            } else {
                path.watch(&params, &version)
            };
            let mut request = self.complete(request.map_err(RetrieveError::connection)?)?;
            // Since 1.37, API servers compress each event of a watch by itself, and the client of `kube`, with its
            // feature `gzip`, reads only the first.
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            let response = send(&self.client, request).await.map_err(|error| match error {
                RetrieveError::Status { code: 400 | 405 | 422, message } if initial_events => {
                    RetrieveError::NoStreaming(message)
                }
                error => error,
            })?;
            Ok(events(response, initial_events))
        })
    }
}

/// For how long objects of a streaming list are collected once all that arrived were
/// read. The server sends each by itself: if each were awaited, it would wake the
/// reader as often, for which a server on the same machine takes longer.
const COLLECTING: Duration = Duration::from_millis(2);

/// After so many bytes, no more are collected: the server has more of them ready, and waits for the
/// reader when the receive buffer is full.
const ENOUGH: usize = 32 << 10;

/// The events in a body, one chunk at a time.
fn events(response: Response<Body>, listing: bool) -> Events {
    struct Reading {
        body: Body,
        events: EventReader,
        ready: VecDeque<Result<Event, RetrieveError>>,
        /// `true` until all objects of a streaming list have arrived.
        listing: bool,
        /// The bytes that were read since the reader waited.
        read: usize,
    }
    impl Reading {
        async fn frame(&mut self) -> Option<Result<Frame<Bytes>, kube::Error>> {
            if self.listing {
                if let Some(frame) = self.body.frame().now_or_never() {
                    return frame;
                }
                if std::mem::take(&mut self.read) < ENOUGH {
                    sleep(COLLECTING).await;
                }
            }
            self.body.frame().await
        }
    }
    let events = EventReader::of(response.headers());
    let reading = Reading { body: response.into_body(), events, ready: VecDeque::new(), listing, read: 0 };
    Box::pin(stream::unfold(reading, |mut reading| async move {
        loop {
            if let Some(event) = reading.ready.pop_front() {
                return Some((event, reading));
            }
            let chunk = match reading.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(chunk) => {
                        reading.read += chunk.len();
                        chunk
                    }
                    Err(_trailers) => continue,
                },
                Err(error) => {
                    reading.ready.push_back(Err(RetrieveError::connection(error)));
                    continue;
                }
            };
            match reading.events.push(chunk) {
                Ok(()) => {
                    while let Some(event) = reading.events.next() {
                        if let Ok(Event::Bookmark { initial_events_end: true, .. }) = event {
                            reading.listing = false;
                        }
                        reading.ready.push_back(event);
                    }
                }
                Err(error) => reading.ready.push_back(Err(error)),
            }
        }
    }))
}

/// Sends a request. A response other than success is an error with the server's
/// message.
async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<Response<Body>, RetrieveError> {
    let response = client.send(request.map(Body::from)).await.map_err(transport)?;
    let code = response.status();
    if code.is_success() {
        return Ok(response);
    }
    let pause = requested_pause(response.headers());
    let body = http_body_util::Limited::new(response.into_body(), 1 << 20)
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    Err(status_error(&body.unwrap_or_default(), Some(code), pause))
}

/// A failed request, with the error of the layer that failed.
fn transport(error: kube::Error) -> RetrieveError {
    match error {
        kube::Error::Service(error) => RetrieveError::connection(error),
        kube::Error::HyperError(error) => RetrieveError::connection(error),
        error => RetrieveError::connection(error),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;
    use std::pin::pin;

    use futures_util::StreamExt;
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time::Instant;

    use super::*;

    fn frame(kind: &str, metadata: &str) -> Frame<Bytes> {
        let object = format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata}}}"#);
        Frame::data(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into())
    }

    #[tokio::test]
    async fn a_watch_asks_for_a_response_that_is_not_compressed() {
        let (asked, mut requests) = unbounded_channel();
        let service = tower::service_fn(move |request: Request<Body>| {
            asked.send(request.headers().get(ACCEPT_ENCODING).cloned()).unwrap();
            ready(Ok::<_, Infallible>(Response::new(Body::empty())))
        });
        let retriever = ApiRetriever::<ConfigMap>::new(Client::new(service, "default"), Scope::default());
        let request = WatchRequest { version: "1".to_owned(), initial_events: false };
        drop(retriever.watch(request).await.unwrap());
        assert_eq!(requests.recv().await.unwrap().unwrap(), "identity");
    }

    #[tokio::test(start_paused = true)]
    async fn the_objects_of_a_list_are_collected_and_later_events_are_read_at_once() {
        let (server, mut sent) = unbounded_channel();
        let body = stream::poll_fn(move |cx| sent.poll_recv(cx)).map(Ok::<_, Infallible>);
        let mut response = Some(Response::new(StreamBody::new(body)));
        let service = tower::service_fn(move |_: Request<Body>| ready(Ok::<_, Infallible>(response.take().unwrap())));
        let response = Client::new(service, "default").send(Request::new(Body::empty())).await.unwrap();
        let mut events = pin!(events(response, true));
        let object = |name: &str| frame("ADDED", &format!(r#"{{"name":"{name}","resourceVersion":"1"}}"#));
        let end = frame("BOOKMARK", r#"{"resourceVersion":"2","annotations":{"k8s.io/initial-events-end":"true"}}"#);
        let start = Instant::now();

        // An event that has already arrived is returned at once.
        server.send(object("a")).unwrap();
        assert!(matches!(events.next().await, Some(Ok(Event::Added(_)))));
        assert_eq!(start.elapsed(), Duration::ZERO);
        // After many bytes at once, there is no delay.
        let annotations = format!(r#"{{"a":"{}"}}"#, "a".repeat(ENOUGH));
        let large = format!(r#"{{"name":"large","resourceVersion":"1","annotations":{annotations}}}"#);
        server.send(frame("ADDED", &large)).unwrap();
        assert!(matches!(events.next().await, Some(Ok(Event::Added(_)))));
        let (next, ()) = tokio::join!(events.next(), async { server.send(object("b")).unwrap() });
        assert!(matches!(next, Some(Ok(Event::Added(_)))));
        assert_eq!(start.elapsed(), Duration::ZERO);
        // Events that arrive during the delay are read together.
        let arrive = async {
            for frame in [object("c"), object("d"), end] {
                server.send(frame).unwrap();
            }
        };
        let (second, ()) = tokio::join!(events.next(), arrive);
        assert!(matches!(second, Some(Ok(Event::Added(_)))));
        assert!(matches!(events.next().await, Some(Ok(Event::Added(_)))));
        assert!(matches!(events.next().await, Some(Ok(Event::Bookmark { initial_events_end: true, .. }))));
        assert_eq!(start.elapsed(), COLLECTING);
        // The list has ended.
        let (change, ()) = tokio::join!(events.next(), async { server.send(object("e")).unwrap() });
        assert!(matches!(change, Some(Ok(Event::Added(_)))));
        assert_eq!(start.elapsed(), COLLECTING);
    }
}
