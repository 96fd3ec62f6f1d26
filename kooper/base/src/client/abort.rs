//! A response's body that can be aborted.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use super::ResponseBody;
use crate::error::BoxError;

/// The body until `reason` completes; then it ends with this error.
pub fn abort(body: ResponseBody, reason: impl Future<Output = BoxError> + Send + 'static) -> ResponseBody {
    Abortable { body: Some(body), reason: reason.boxed() }.boxed_unsync()
}

struct Abortable {
    /// `None` after it was aborted, which closes the connection.
    body: Option<ResponseBody>,
    reason: BoxFuture<'static, BoxError>,
}

impl Body for Abortable {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if let Poll::Ready(reason) = this.reason.poll_unpin(context) {
            this.body = None;
            return Poll::Ready(Some(Err(reason)));
        }
        Pin::new(body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}
