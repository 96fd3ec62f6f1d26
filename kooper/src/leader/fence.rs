//! The client that only sends requests while leadership is held.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

use super::Leadership;

/// Why the fence stopped a request.
#[derive(Debug, thiserror::Error)]
enum FenceError {
    #[error(
        "{method} {path} was not sent: this process is not the leader; return from the call, the leader does the work"
    )]
    NotLeading { method: http::Method, path: String },
    #[error(
        "{method} {path} was aborted: this process lost leadership while it waited for the response; the server may \
         have processed it"
    )]
    Lost { method: http::Method, path: String },
    #[error("the response was cut off: this process lost leadership while it arrived")]
    Cut,
}

/// Whether a request failed because this process is not the leader.
pub(crate) fn is_fenced(error: &kube::Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source()).any(<dyn std::error::Error>::is::<FenceError>)
}

/// Puts `client` behind the fence. It must be called within a runtime, like the
/// constructor of every client.
pub(super) fn client(client: Client, leadership: Leadership) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, leadership) = (client.clone(), leadership.clone());
        async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let term = leadership.term();
            if !leadership.is_term(term) {
                return Err(BoxError::from(FenceError::NotLeading { method, path }));
            }
            tokio::select! {
                biased;
                () = leadership.ended(term) => Err(FenceError::Lost { method, path }.into()),
                answer = client.send(request) => Ok(answer?.map(|body| fenced(body, leadership, term))),
            }
        }
    });
    Client::new(service, namespace).with_valid_until(valid_until)
}

fn fenced(body: Body, leadership: Leadership, term: u64) -> FencedBody {
    let ended = {
        let leadership = leadership.clone();
        async move { leadership.ended(term).await }.boxed()
    };
    FencedBody { body: Some(body), leadership, term, ended }
}

/// A body that ends with an error when leadership is lost.
struct FencedBody {
    /// `None` after it was cut off, which closes the connection.
    body: Option<Body>,
    leadership: Leadership,
    term: u64,
    ended: BoxFuture<'static, ()>,
}

impl HttpBody for FencedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if !this.leadership.is_term(this.term) || this.ended.poll_unpin(context).is_ready() {
            this.body = None;
            return Poll::Ready(Some(Err(FenceError::Cut.into())));
        }
        Pin::new(body).poll_frame(context).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}
