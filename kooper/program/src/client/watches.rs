//! Watches, each over a connection of its own that its reader drives.
//!
//! hyper's pooled client moves a connection into a task. Each part of a response
//! then wakes the reader in another thread, and the reader wakes the connection:
//! for a watch that is twice for each event, which costs more than to read it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::header::HOST;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use kube::client::Body;
use tower::{Service, ServiceExt};

use kooper_runtime::BoxError;

/// Returns `true` for a watch: its response may last until the server ends it.
pub(super) fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|parameter| parameter == "watch=true"))
}

/// Sends a request over a new connection of the connector.
pub(super) async fn send<C>(connector: C, mut request: Request<Body>) -> Result<Response<ConnectionBody>, BoxError>
where
    C: Service<Uri, Error: Into<BoxError>>,
    C::Response: Read + Write + Unpin + Send + 'static,
{
    let io = connector.oneshot(request.uri().clone()).await.map_err(Into::into)?;
    to_origin_form(&mut request)?;
    let (mut sender, connection) = http1::handshake(io).await?;
    let mut connection: Connection = Some(Box::pin(connection));
    let mut response = pin!(sender.send_request(request));
    let response = poll_fn(|cx| {
        if let Poll::Ready(response) = response.as_mut().poll(cx) {
            return Poll::Ready(response);
        }
        drive(&mut connection, cx);
        response.as_mut().poll(cx)
    })
    .await?;
    Ok(response.map(|body| ConnectionBody { body, connection, wakes: Arc::default() }))
}

/// hyper sends the target as it is in the request, and no header of its own.
fn to_origin_form(request: &mut Request<Body>) -> Result<(), BoxError> {
    let uri = request.uri();
    let host = uri.host().ok_or("the URL of the API server has no host")?;
    let usual = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = match uri.port_u16() {
        Some(port) if port != usual => HeaderValue::try_from(format!("{host}:{port}"))?,
        _ => HeaderValue::try_from(host)?,
    };
    let target = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    request.headers_mut().entry(HOST).or_insert(host);
    *request.uri_mut() = target.into();
    Ok(())
}

/// The connection until it ends, by the server's will or by an error, which the response then reports.
type Connection = Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>;

fn drive(connection: &mut Connection, cx: &mut Context<'_>) {
    if connection.as_mut().is_some_and(|connection| connection.as_mut().poll(cx).is_ready()) {
        *connection = None;
    }
}

/// The wakes of a body and of its connection, which wake each other for each event. While both are polled they need not
/// wake the reader: its task would be queued once more, and another thread would wake to run it.
#[derive(Default)]
struct Wakes {
    reader: AtomicWaker,
    is_polled: AtomicBool,
    /// One was woken since the connection was last polled.
    is_woken: AtomicBool,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if !self.is_polled.load(Ordering::SeqCst) {
            self.reader.wake();
        }
    }
}

/// A response's body, with its connection unless that is in a task of its own.
pub(super) struct ConnectionBody {
    body: Incoming,
    connection: Connection,
    wakes: Arc<Wakes>,
}

impl From<Incoming> for ConnectionBody {
    fn from(body: Incoming) -> Self {
        Self { body, connection: None, wakes: Arc::default() }
    }
}

impl http_body::Body for ConnectionBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let Self { body, connection, wakes } = &mut *self;
        let mut body = Pin::new(body);
        if connection.is_none() {
            return body.poll_frame(cx);
        }
        wakes.reader.register(cx.waker());
        let waker = Waker::from(Arc::clone(wakes));
        let inner = &mut Context::from_waker(&waker);
        wakes.is_polled.store(true, Ordering::SeqCst);
        let mut frame = body.as_mut().poll_frame(inner);
        if frame.is_pending() {
            // Not a store: what was written before a wake that is dropped here is seen by the polls that follow.
            wakes.is_woken.swap(false, Ordering::SeqCst);
            drive(connection, inner);
            frame = body.poll_frame(inner);
        }
        wakes.is_polled.store(false, Ordering::SeqCst);
        // A connection wakes itself to yield, and data may have arrived meanwhile.
        if frame.is_pending() && wakes.is_woken.load(Ordering::SeqCst) {
            cx.waker().wake_by_ref();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::StreamExt;
    use http_body::Body as _;
    use http_body_util::BodyStream;
    use hyper_util::client::legacy::connect::HttpConnector;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    /// A watch at a server, of which the request's head was read and the response's was sent.
    async fn watch() -> (BodyStream<ConnectionBody>, TcpStream, String) {
        let (body, peer, head) = watched().await;
        (BodyStream::new(body), peer, head)
    }

    async fn watched() -> (ConnectionBody, TcpStream, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api/v1/pods?watch=true", listener.local_addr().unwrap());
        let request = Request::get(&url).body(Body::empty()).unwrap();
        assert!(is_watch(request.uri()));
        let (response, (peer, head)) = tokio::join!(send(HttpConnector::new(), request), async {
            let (mut peer, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(peer.read_u8().await.unwrap());
            }
            peer.write_all(HEAD).await.unwrap();
            (peer, String::from_utf8(head).unwrap())
        });
        (response.unwrap().into_body(), peer, head)
    }

    #[tokio::test]
    async fn a_watch_is_sent_as_to_any_server_and_read_event_by_event() {
        let (mut body, mut peer, head) = watch().await;
        let host = format!("host: {}\r\n", peer.local_addr().unwrap());
        assert!(head.starts_with("GET /api/v1/pods?watch=true HTTP/1.1\r\n") && head.contains(&host), "{head}");
        for event in ["one", "two"] {
            peer.write_all(format!("3\r\n{event}\r\n").as_bytes()).await.unwrap();
            assert_eq!(body.next().await.unwrap().unwrap().into_data().unwrap(), event);
        }
        peer.write_all(b"0\r\n\r\n").await.unwrap();
        assert!(body.next().await.is_none());
    }

    /// Counts how often a task is woken.
    struct Counted {
        task: Waker,
        wakes: Arc<AtomicUsize>,
    }

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.wakes.fetch_add(1, Ordering::SeqCst);
            self.task.wake_by_ref();
        }
    }

    #[tokio::test]
    async fn an_event_wakes_its_reader_once() {
        let (mut body, mut peer, _) = watch().await;
        for event in ["one", "two", "three"] {
            let wakes = Arc::<AtomicUsize>::default();
            let next = poll_fn(|cx| {
                let counted = Counted { task: cx.waker().clone(), wakes: Arc::clone(&wakes) };
                body.poll_next_unpin(&mut Context::from_waker(&Arc::new(counted).into()))
            });
            let text = format!("{:x}\r\n{event}\r\n", event.len());
            let (read, sent) = tokio::join!(next, peer.write_all(text.as_bytes()));
            sent.unwrap();
            assert_eq!(read.unwrap().unwrap().into_data().unwrap(), event);
            assert_eq!(wakes.load(Ordering::SeqCst), 1, "{event}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_wakes_itself_is_polled_again() {
        let (mut body, _peer, _) = watched().await;
        let (mut rest, mut yields) = (body.connection.take().unwrap(), 2);
        body.connection = Some(Box::pin(poll_fn(move |cx| {
            if yields > 0 {
                yields -= 1;
                cx.waker().wake_by_ref();
            }
            rest.as_mut().poll(cx)
        })));
        let wakes = Arc::<AtomicUsize>::default();
        let counted = Arc::new(Counted { task: Waker::noop().clone(), wakes: Arc::clone(&wakes) }).into();
        for expected in [1, 2, 2] {
            assert!(Pin::new(&mut body).poll_frame(&mut Context::from_waker(&counted)).is_pending());
            assert_eq!(wakes.load(Ordering::SeqCst), expected);
        }
    }

    #[tokio::test]
    async fn a_watch_whose_connection_ends_within_an_event_fails() {
        let (mut body, mut peer, _) = watch().await;
        peer.write_all(b"10\r\nhalf").await.unwrap();
        drop(peer);
        assert_eq!(body.next().await.unwrap().unwrap().into_data().unwrap(), "half");
        body.next().await.unwrap().unwrap_err();
        assert!(body.next().await.is_none());
    }

    #[tokio::test]
    async fn the_connection_is_closed_when_a_watch_is_no_longer_read() {
        let (body, mut peer, _) = watch().await;
        drop(body);
        assert_eq!(peer.read(&mut [0; 1]).await.unwrap(), 0);
    }

    #[test]
    fn only_a_request_with_the_parameter_is_a_watch() {
        let is_watch = |uri: &'static str| is_watch(&Uri::from_static(uri));
        assert!(is_watch("http://server/api/v1/pods?&watch=true&timeoutSeconds=290"));
        assert!(!is_watch("http://server/api/v1/pods?labelSelector=watch%3Dtrue"));
        assert!(!is_watch("http://server/api/v1/pods?limit=500"));
    }
}
