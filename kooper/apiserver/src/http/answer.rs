//! An answer: a status, some headers and a body that may still grow.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use serde_json::Value;

use super::accept::{self, Encoding};
use super::warnings;
use crate::protobuf;
use crate::status::StatusError;

const JSON: &str = "application/json";

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

    /// The lines of a watch as frames.
    fn framed(self) -> Self {
        let Inner::Stream(stream) = self.0 else { return self };
        let mut frames = protobuf::Frames::default();
        Self::stream(stream.flat_map(move |part| {
            let parts = match part {
                Ok(lines) => vec![Ok(frames.push(&lines).into())],
                Err(error) => vec![Ok(frames.cut().into()), Err(error)],
            };
            futures_util::stream::iter(parts)
        }))
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

/// Response to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Texts of the `Warning` headers.
    warnings: Vec<String>,
    body: Body,
    /// The encoding that a verb has chosen. Until a fault has passed, a watch still has lines.
    encoding: Option<Encoding>,
}

impl Answer {
    fn new(status: StatusCode, content_type: &'static str, body: Inner) -> Self {
        let headers = vec![
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private")),
            (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        ];
        Self { status, headers, warnings: Vec::new(), body: Body(body), encoding: None }
    }

    pub(crate) fn json(status: StatusCode, value: &Value) -> Self {
        Self::bytes(status, value.to_string().into())
    }

    /// JSON that is encoded already.
    pub(crate) fn bytes(status: StatusCode, body: Bytes) -> Self {
        Self::new(status, JSON, Inner::Whole(body))
    }

    /// JSON in parts, so that a long list is never copied into one piece.
    pub(crate) fn frames(frames: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self::new(StatusCode::OK, JSON, Inner::Frames(Box::new(frames)))
    }

    /// JSON objects that come as they happen.
    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::new(StatusCode::OK, JSON, Inner::Stream(Box::pin(stream.map(Ok))))
    }

    /// In the encoding that a verb has chosen, if the object has it.
    pub(crate) fn encoded(mut self, encoding: Encoding) -> Result<Self, StatusError> {
        self.encoding = Some(encoding);
        if !self.is_json() {
            return Ok(self);
        }
        match encoding {
            Encoding::Json => return Ok(self),
            Encoding::Yaml => return Ok(self.in_yaml()),
            Encoding::Protobuf => {}
        }
        match &self.body.0 {
            Inner::Whole(bytes) => match protobuf::write(bytes) {
                Some(bytes) => {
                    self.body = Body(Inner::Whole(bytes?.into()));
                    Ok(self.with_content_type(protobuf::CONTENT_TYPE))
                }
                None => Ok(self),
            },
            Inner::Frames(_) => Ok(self),
            Inner::Stream(_) => Ok(self.with_content_type(protobuf::WATCH)),
        }
    }

    /// In the encoding that the client prefers, unless a verb has chosen one: so it is with errors and discovery.
    pub(crate) fn negotiated(self, accept: &str) -> Self {
        if self.encoding.is_some() {
            return self;
        }
        let encoding = accept::encoding(accept).unwrap_or_default();
        self.encoded(encoding).unwrap_or_else(Self::from)
    }

    /// An object in YAML. What is not an object, such as a version, stays JSON.
    fn in_yaml(mut self) -> Self {
        let whole = match self.body.0 {
            Inner::Whole(bytes) => bytes,
            Inner::Frames(frames) => frames
                .fold(BytesMut::new(), |mut all, frame| {
                    all.extend_from_slice(&frame);
                    all
                })
                .freeze(),
            stream @ Inner::Stream(_) => {
                self.body = Body(stream);
                return self;
            }
        };
        let object = serde_json::from_slice::<Value>(&whole).ok().filter(|value| value.get("kind").is_some());
        match object.and_then(|object| serde_saphyr::to_string(&object).ok()) {
            Some(yaml) => {
                self.body = Body(Inner::Whole(yaml.into()));
                self.with_content_type(Encoding::Yaml.media_type())
            }
            None => {
                self.body = Body(Inner::Whole(whole));
                self
            }
        }
    }

    fn is_json(&self) -> bool {
        self.headers.iter().any(|(name, value)| *name == header::CONTENT_TYPE && value == JSON)
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

    /// Adds warnings for the user of the client, before those that the answer has: what is around a verb finds its own
    /// first.
    pub(crate) fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.warnings.splice(..0, warnings.iter().cloned());
        self
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let is_watch = self.headers.iter().any(|(_, value)| value == protobuf::WATCH);
        let mut response = Response::new(if is_watch { self.body.framed() } else { self.body });
        *response.status_mut() = self.status;
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        for warning in warnings::headers(&self.warnings) {
            response.headers_mut().append(header::WARNING, warning);
        }
        response
    }
}

impl From<StatusError> for Answer {
    fn from(refusal: StatusError) -> Self {
        let answer = Self::json(refusal.code, &refusal.to_value()).with_warnings(&refusal.warnings);
        match refusal.retry_after {
            Some(seconds) => answer.with_header(header::RETRY_AFTER, &seconds.to_string()),
            None => answer,
        }
    }
}
