//! An answer: a status, some headers and a body that may still grow.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use serde_json::Value;

use crate::status::Refusal;

/// The body of an answer: bytes that are shared with the store, frame by frame.
#[must_use]
pub struct Body(Inner);

enum Inner {
    Whole(Bytes),
    Frames(Box<dyn Iterator<Item = Bytes> + Send>),
    Stream(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

impl Body {
    /// Parts as they come; an error resets the connection.
    pub(crate) fn stream(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self(Inner::Stream(Box::pin(stream)))
    }

    /// Ends a stream between two of its frames when `stop` is done; other bodies are sent whole.
    pub(crate) fn until(self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        match self.0 {
            Inner::Stream(stream) => Self(Inner::Stream(Box::pin(stream.take_until(stop)))),
            other => Self(other),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    /// The connection is reset, as an injected fault requests.
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = match &mut self.0 {
            Inner::Whole(bytes) if bytes.is_empty() => None,
            Inner::Whole(bytes) => Some(std::mem::take(bytes)),
            Inner::Frames(frames) => frames.next(),
            Inner::Stream(stream) => match stream.as_mut().poll_next(cx) {
                Poll::Ready(next) => return Poll::Ready(next.map(|part| part.map(Frame::data))),
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// What a request is answered with.
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Body,
}

impl Answer {
    fn new(status: StatusCode, content_type: &'static str, body: Inner) -> Self {
        let headers = vec![
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private")),
            (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        ];
        Self { status, headers, body: Body(body) }
    }

    pub(crate) fn json(status: StatusCode, value: &Value) -> Self {
        Self::bytes(status, value.to_string().into())
    }

    /// JSON that is encoded already.
    pub(crate) fn bytes(status: StatusCode, body: Bytes) -> Self {
        Self::new(status, "application/json", Inner::Whole(body))
    }

    /// JSON in parts, so that a long list is never copied into one piece.
    pub(crate) fn frames(frames: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self::new(StatusCode::OK, "application/json", Inner::Frames(Box::new(frames)))
    }

    /// JSON objects that come as they happen.
    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::new(StatusCode::OK, "application/json", Inner::Stream(Box::pin(stream.map(Ok))))
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn map_body(mut self, map: impl FnOnce(Body) -> Body) -> Self {
        self.body = map(self.body);
        self
    }

    pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", Inner::Whole(text.into()))
    }

    /// The answer to a path that is not there.
    pub(crate) fn no_page() -> Self {
        Self::text(StatusCode::NOT_FOUND, "404 page not found\n")
            .with_header(HeaderName::from_static("x-content-type-options"), "nosniff")
    }

    pub(crate) fn with_content_type(mut self, content_type: &'static str) -> Self {
        self.headers.retain(|(name, _)| *name != header::CONTENT_TYPE);
        self.headers.push((header::CONTENT_TYPE, HeaderValue::from_static(content_type)));
        self
    }

    /// Adds a header, if its value may be one.
    pub(crate) fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// Adds a warning for the user of the client.
    pub(crate) fn with_warnings(mut self, warnings: &[String]) -> Self {
        for warning in warnings {
            let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
            self = self.with_header(header::WARNING, &format!("299 - \"{text}\""));
        }
        self
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let answer = Self::json(refusal.code, &refusal.to_value());
        match refusal.retry_after {
            Some(seconds) => answer.with_header(header::RETRY_AFTER, &seconds.to_string()),
            None => answer,
        }
    }
}
