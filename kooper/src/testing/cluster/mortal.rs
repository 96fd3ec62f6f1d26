//! A client that a test can cut off, as the end of a process does.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use kube::Client;
use kube::client::Body;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::error::BoxError;

/// Why a request of controllers that were killed fails.
const KILLED: &str = "the controllers were killed";

/// Puts `client` behind `dead`. Once that is cancelled, running requests are
/// dropped, no further request reaches the server, and no response arrives.
pub(in crate::testing) fn client(client: Client, dead: CancellationToken) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, dead) = (client.clone(), dead.clone());
        async move {
            let answer = dead.run_until_cancelled(client.send(request)).await.ok_or(KILLED)??;
            Ok::<_, BoxError>(answer.map(|body| MortalBody { body, dead: Box::pin(dead.cancelled_owned()) }))
        }
    });
    Client::new(service, namespace)
}

/// A body that ends with an error when the controllers are killed.
struct MortalBody {
    body: Body,
    dead: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl HttpBody for MortalBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.dead.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(KILLED.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
