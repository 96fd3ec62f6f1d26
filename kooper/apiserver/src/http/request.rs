//! A request, read to its end.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, Method, header};
use http_body_util::BodyExt as _;
use percent_encoding::percent_decode_str;

use super::query::Query;
use crate::status::StatusError;

/// The longest body that is read, as on the real server.
const BODY_LIMIT: usize = 3 << 20;
/// Maximum time for a client to send the body, as on the real server.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// A request with its body.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) async fn read<B>(parts: Parts, body: B) -> Result<Self, StatusError>
    where
        B: http_body::Body,
        B::Error: std::fmt::Display,
    {
        let body = tokio::time::timeout(BODY_TIMEOUT, read_body(body)).await.map_err(|_| StatusError::timeout())??;
        Ok(Self {
            path: percent_decode_str(parts.uri.path()).decode_utf8_lossy().into_owned(),
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            method: parts.method,
            headers: parts.headers,
            body,
        })
    }

    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The media type of the body, without parameters.
    pub(crate) fn content_type(&self) -> &str {
        let whole = self.header(header::CONTENT_TYPE).unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim()
    }

    /// The media ranges that the client accepts.
    pub(crate) fn accept(&self) -> &str {
        self.header(header::ACCEPT).unwrap_or_default()
    }
}

async fn read_body<B>(body: B) -> Result<Bytes, StatusError>
where
    B: http_body::Body,
    B::Error: std::fmt::Display,
{
    if body.size_hint().lower() > BODY_LIMIT as u64 {
        return Err(StatusError::too_large(BODY_LIMIT));
    }
    let mut body = std::pin::pin!(body);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| StatusError::bad_request(format!("the body ended early: {error}")))?;
        let Ok(mut data) = frame.into_data() else { continue };
        while bytes::Buf::has_remaining(&data) {
            let chunk = bytes::Buf::chunk(&data);
            if whole.len() + chunk.len() > BODY_LIMIT {
                return Err(StatusError::too_large(BODY_LIMIT));
            }
            whole.extend_from_slice(chunk);
            let length = chunk.len();
            bytes::Buf::advance(&mut data, length);
        }
    }
    Ok(whole.freeze())
}
